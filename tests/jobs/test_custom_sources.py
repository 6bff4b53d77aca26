"""Custom sources on Spark: a class of the user's, read by several subtasks, stopped and dealt out again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError, RestoreError
from rekindle.protocol.operator_state import OperatorState
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, at, committed, orphans, until

Key = tuple[str, int]


class Counters(rk.SplitSource):
    """Each split is a counter, which is read in steps; it remembers what it was asked for."""

    schema = "split string, n long, ts timestamp"
    poll_every = "200 ms"

    def __init__(self, upto: Mapping[str, int], *, bounded: bool = True, begin: int | None = None) -> None:
        self.upto = dict(upto)
        self.begin = begin
        self.bounded = bounded
        self.asked: list[tuple[str, Any]] = []

    def splits(self) -> list[str]:
        return list(self.upto)

    def begin_at(self, spark: SparkSession, split: str) -> int | None:
        return self.begin

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[DataFrame | None, Any, bool]:
        self.asked.append((split, position))
        first = position or 0
        rows = [(split, n, at(n / 60)) for n in range(first, min(first + 3, self.upto[split]))]
        ended = self.bounded and first + len(rows) >= self.upto[split]
        return (spark.createDataFrame(rows, self.schema) if rows else None), first + len(rows), ended


def job_of(source: rk.SplitSource | rk.Stream | rk.sources.Hybrid, out: Path, *, parallelism: int = 1) -> rk.Job:
    job = rk.Job("counters")
    counters = job.source("counters", source)

    @job.task(counters, parallelism=parallelism)
    def counted(frame: DataFrame) -> DataFrame:
        return frame.withColumn("double", 2 * F.col("n"))

    job.sink("out", counted, rk.sinks.Parquet(out))
    return job


def shown(out: Path) -> Counter[Key]:
    return Counter((row["split"], row["n"]) for row in committed(out))


def is_shown(out: Path, source: Counters) -> bool:
    return shown(out) == every(source.upto)


def every(upto: Mapping[str, int]) -> Counter[Key]:
    return Counter((split, n) for split, last in upto.items() for n in range(last))


def state_of(storage: str) -> OperatorState:
    manifest = JobStorage(open_store(storage), "counters").newest_manifest()
    assert manifest is not None
    return OperatorState.from_json(manifest.operator_state["counted"]["counters"])


def test_a_bounded_source_is_read_once_by_all_subtasks_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    source = Counters({"a": 5, "b": 0, "c": 4})
    storage, out = str(tmp_path / "storage"), tmp_path / "out"
    result = job_of(source, out, parallelism=2).start(spark, storage=storage, config=QUICK).wait()

    assert (result.state, result.error) == ("FINISHED", None)
    assert shown(out) == every(source.upto)
    assert max(Counter(source.asked).values()) == 1
    assert state_of(storage).fully_finished


def test_a_source_without_an_end_goes_on_with_other_subtasks_and_finds_new_splits(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = Counters({"a": 7, "b": 4}, bounded=False)
    storage, out = str(tmp_path / "storage"), tmp_path / "out"
    handle = job_of(source, out, parallelism=2).start(spark, storage=storage, config=QUICK)
    until(lambda: shown(out) == every(source.upto))
    handle.stop()
    kept = [entry for one in state_of(storage).subtasks.values() for entry in (one or {})["splits"].entries]
    assert sorted((entry["id"], entry["position"]) for entry in kept) == [("a", 7), ("b", 4)]
    assert orphans(storage) == []

    source = Counters({"a": 9, "b": 4, "c": 2}, bounded=False)
    handle = job_of(source, out, parallelism=1).start(spark, storage=storage, config=QUICK)
    until(lambda: shown(out) == every(source.upto))
    result = handle.stop(drain=True)
    assert result.state == "DRAINED"
    assert (shown(out), orphans(storage)) == (every(source.upto), [])
    assert ("a", None) not in source.asked, "it is read on from where it was stopped"


def test_windows_of_a_bounded_source_come_out_at_its_end(spark: SparkSession, tmp_path: Path) -> None:
    source, out = Counters({"a": 90, "b": 61}), tmp_path / "out"
    source.read = _all_at_once(source)  # type: ignore[method-assign]
    job = rk.Job("windows")
    counters = job.source("counters", source, event_time="ts")

    @job.task(counters)
    def hourly(frame: DataFrame) -> DataFrame:
        return frame.groupBy(F.window("ts", "1 hour")).agg(F.count("*").alias("rows"))

    job.sink("out", hourly, rk.sinks.Parquet(out))
    result = job.start(spark, storage=str(tmp_path / "storage"), config=QUICK).wait()
    assert (result.state, result.error) == ("FINISHED", None)
    assert sorted(row["rows"] for row in committed(out)) == [31, 120]


def _all_at_once(source: Counters) -> Any:
    def read(spark: SparkSession, split: str, position: Any) -> tuple[DataFrame | None, Any, bool]:
        rows = [(split, n, at(n / 60)) for n in range(source.upto[split])]
        return spark.createDataFrame(rows, source.schema), len(rows), True

    return read


class Failing(Counters):
    """Fails when it is first read."""

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[DataFrame | None, Any, bool]:
        found = super().read(spark, split, position)
        if len(self.asked) == 1:
            raise OSError("the service is away")
        return found


def test_a_read_that_fails_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    source = Failing({"a": 4})
    job = job_of(source, tmp_path / "out")
    result = job.start(spark, storage=str(tmp_path / "storage"), config=QUICK).wait()
    assert (result.state, result.error) == ("FINISHED", None)
    assert source.asked == [("a", None), ("a", None), ("a", 3)]
    assert shown(tmp_path / "out") == every(source.upto)


class Wrong(Counters):
    """Has another column than it says."""

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[DataFrame | None, Any, bool]:
        return spark.range(3).toDF("n"), 3, True


def test_a_read_with_other_columns_ends_the_job_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(Wrong({"a": 4}), tmp_path / "out")
    result = job.start(spark, storage=str(tmp_path / "storage"), config=QUICK).wait()
    assert result.state == "FAILED"
    assert result.error is not None
    assert result.error["code"] == "SPLIT_READ_INVALID"


def test_a_batch_run_refuses_a_source_of_splits(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(Counters({"a": 4}), tmp_path / "out")
    with pytest.raises(DefinitionError, match="BATCH_OF_SPLITS"):
        job.start(spark, storage=str(tmp_path / "storage"), mode="batch")


def test_a_uid_that_becomes_another_kind_of_source_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    storage, out = str(tmp_path / "storage"), tmp_path / "out"
    handle = job_of(Counters({"a": 4}, bounded=False), out).start(spark, storage=storage, config=QUICK)
    until(lambda: shown(out) == every({"a": 4}))
    savepoint = handle.stop(savepoint=str(tmp_path / "saves")).savepoint
    (tmp_path / "live").mkdir()
    stream = rk.Stream(lambda spark: spark.readStream.schema(Counters.schema).parquet(str(tmp_path / "live")))
    for storage_of, restore in ((storage, None), (str(tmp_path / "other"), savepoint)):
        with pytest.raises(RestoreError, match="was SplitSource and is now Stream") as caught:
            job_of(stream, tmp_path / "beside").start(spark, storage=storage_of, restore=restore, config=QUICK)
        assert caught.value.code == "SOURCE_REPLACED"


def test_a_start_from_a_drained_checkpoint_reads_on_in_every_split(spark: SparkSession, tmp_path: Path) -> None:
    source = Counters({"a": 4, "b": 2}, bounded=False)
    storage, out = str(tmp_path / "storage"), tmp_path / "out"
    handle = job_of(source, out, parallelism=2).start(spark, storage=storage, config=QUICK)
    until(lambda: shown(out) == every(source.upto))
    drained = handle.stop(drain=True)
    assert drained.state == "DRAINED"
    assert drained.checkpoint is not None
    kept = [entry for one in state_of(storage).subtasks.values() for entry in (one or {})["splits"].entries]
    assert sorted((entry["id"], entry["position"]) for entry in kept) == [("a", 4), ("b", 2)]

    for upto, parallelism in ((7, 2), (9, 1)):
        source = Counters({"a": upto, "b": 2, "c": 1}, bounded=False)
        newest = JobStorage(open_store(storage), "counters").newest_manifest()
        assert newest is not None
        handle = job_of(source, out, parallelism=parallelism).start(
            spark, storage=storage, restore=str(newest.checkpoint), allow_drained=True, config=QUICK
        )
        until(partial(is_shown, out, source))
        assert handle.stop(drain=True).state == "DRAINED"
        assert shown(out) == every(source.upto)
        assert ("a", None) not in source.asked


@pytest.mark.usefixtures("one_file_a_batch")
def test_a_history_is_continued_by_another_source_once_it_has_been_read(spark: SparkSession, tmp_path: Path) -> None:
    storage, out = str(tmp_path / "storage"), tmp_path / "out"
    for number in range(2):
        rows = [("old", number, at(number))]
        spark.createDataFrame(rows, Counters.schema).coalesce(1).write.mode("append").parquet(str(tmp_path / "old"))

    def begun(then: Counters, *, storage: str = storage, out: Path = out, restore: str | None = None) -> rk.JobHandle:
        job = rk.Job("counters")
        both = rk.sources.Hybrid(rk.Files(str(tmp_path / "old")), then=then)
        counters = job.source("counters", both, event_time="ts", watermark="1 minute")

        @job.task(counters)
        def counted(frame: DataFrame) -> DataFrame:
            return frame.withColumn("double", 2 * F.col("n"))

        job.sink("out", counted, rk.sinks.Parquet(out))
        return job.start(spark, storage=storage, restore=restore, config=QUICK)

    def expected(upto: Mapping[str, int]) -> Counter[Key]:
        """The history, and what follows of each split from where it began."""
        return every({"old": 2} | upto) - every({"a": 1, "b": 9})

    handle = begun(Counters({"a": 4}, bounded=False, begin=1))
    until(lambda: shown(out) == expected({"a": 4}))
    saved = handle.stop(savepoint=str(tmp_path / "saves")).savepoint
    again = Counters({"a": 6, "b": 10}, bounded=False, begin=9)
    handle = begun(again)
    until(lambda: shown(out) == expected({"a": 6, "b": 10}))
    assert handle.stop(drain=True).state == "DRAINED"
    other, beside = Counters({"a": 5}, bounded=False), tmp_path / "beside"
    handle = begun(other, storage=str(tmp_path / "other"), out=beside, restore=saved)
    until(lambda: shown(beside) == Counter({("a", 4): 1}))
    handle.stop()
    assert ("a", None) not in (*again.asked, *other.asked)


WRONG_PARTS: dict[str, Callable[[], Any]] = {
    "first": lambda: rk.sources.Hybrid(Counters({}), Counters({}, bounded=False)),  # type: ignore[arg-type]
    "then": lambda: rk.sources.Hybrid(rk.Files("old"), rk.Stream(lambda spark: spark.range(1))),  # type: ignore[arg-type]
    "bounded": lambda: rk.sources.Hybrid(rk.Files("old"), Counters({})),
}


@pytest.mark.parametrize("wrong", WRONG_PARTS)
def test_parts_that_cannot_follow_each_other_are_refused(wrong: str) -> None:
    with pytest.raises(DefinitionError, match=wrong) as caught:
        WRONG_PARTS[wrong]()
    assert caught.value.code == "ARGUMENT_INVALID"


def test_a_history_that_is_continued_is_read_by_one_subtask_and_is_not_idle(tmp_path: Path) -> None:
    job = rk.Job("counters")
    both = rk.sources.Hybrid(rk.Files(str(tmp_path)), then=Counters({}, bounded=False))
    with pytest.raises(DefinitionError, match="IDLE_AFTER_NEEDLESS"):
        job.source("idle", both, event_time="ts", watermark="1 minute", idle_after="1 minute")
    counters = job.source("counters", both)

    @job.task(counters, parallelism=2)
    def counted(frame: DataFrame) -> DataFrame:
        return frame

    job.sink("out", counted, rk.sinks.Parquet(tmp_path / "out"))
    with pytest.raises(DefinitionError, match="continues a history"):
        job.graph()


def test_parts_with_other_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).toDF("n").write.parquet(str(tmp_path / "old"))
    job = job_of(rk.sources.Hybrid(rk.Files(str(tmp_path / "old")), then=Counters({}, bounded=False)), tmp_path / "out")
    with pytest.raises(DefinitionError, match="the history has the columns"):
        job.start(spark, storage=str(tmp_path / "storage"), config=QUICK).wait()
