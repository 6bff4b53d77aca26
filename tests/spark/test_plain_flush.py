"""Plain queries, stopped somewhere on some version of Spark: what was in their state comes out, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RekindleError
from rekindle.spark.plain.flush import FlushResult
from tests.jobs.kit import until
from tests.plain import queries
from tests.plain.kit import ARCHIVES, COUNTED, Left, names, of, said
from tests.versions import older_than

QUICK = ("spark-3.5-windows-hdfs", "spark-4.0-windows-rocksdb", "spark-4.3-windows-log2")
"""What is flushed in CI; the others are there for `make soak`."""

NEW_LOG = "spark-4.3-windows-log2"
"""With version 2 of the log of offsets, which Spark 4.2 has first."""


def marks(case: str) -> list[pytest.MarkDecorator]:
    """Which runs a case belongs to."""
    return [*([] if case in QUICK else [pytest.mark.slow]), *([pytest.mark.since("4.2")] if case == NEW_LOG else [])]


EVERY = [
    pytest.param(archive, name, id=case, marks=marks(case))
    for archive in ARCHIVES
    for name in names(archive)
    for case in (f"{archive.stem}-{name}",)
]


@pytest.mark.parametrize(("archive", "name"), EVERY)
def test_what_was_left_in_the_state_comes_out_and_the_checkpoint_is_as_it_was(
    spark: Any, tmp_path: Path, archive: Path, name: str
) -> None:
    left = Left(archive, name, tmp_path)
    before = left.files()
    result = rk.flush(left.build, str(left.checkpoint), spark=spark)
    assert result.complete and result.left == 0 and result.unfinished_batch is None
    assert result.row_count > 0
    assert said(left.emitted) + said(of(result.rows)) == left.expected(spark)
    assert left.files() == before


@pytest.mark.skipif(not older_than("4.2"), reason="this Spark can read it")
def test_a_log_that_is_newer_than_this_spark_is_refused(spark: Any, tmp_path: Path) -> None:
    left = Left(next(one for one in ARCHIVES if one.stem == "spark-4.3"), "windows-log2", tmp_path)
    before = left.files()
    with pytest.raises(RekindleError) as refused:
        rk.flush(left.build, str(left.checkpoint), spark=spark)
    assert refused.value.code == "SPARK_CHECKPOINT_NEWER"
    assert left.files() == before


# --- queries stopped here ---------------------------------------------------------------------------------------------


class Query:
    """A plain query in a folder, run for some files."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.checkpoint = spark, str(folder), str(folder / "checkpoint")
        self.emitted: list[Any] = []
        self.fails_at: int | None = None
        self.mode = "append"

    def build(self, spark: Any) -> Any:
        return queries.windows(queries.stream(spark, self.folder))

    def run(self, *files: str) -> None:
        """Read so many more files, or as many as there are before it fails."""
        queries.put(self.folder, *files)
        query = self.start(availableNow=True)
        try:
            query.awaitTermination()
        except StreamingQueryException:
            assert self.fails_at is not None

    def start(self, **trigger: Any) -> Any:
        def keep(frame: Any, batch: int) -> None:
            if batch == self.fails_at:
                raise RuntimeError("the sink is gone")
            self.emitted.extend(of(frame))

        writer = self.build(self.spark).writeStream.foreachBatch(keep).option("checkpointLocation", self.checkpoint)
        return writer.outputMode(self.mode).trigger(**trigger).start()

    def expected(self) -> Any:
        return said(of(queries.windows(self.spark.read.schema(queries.SCHEMA).json(f"{self.folder}/in"))))


@pytest.fixture(scope="module")
def stopped(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Query:
    """A query that stopped between two batches; not to be run any more."""
    query = Query(spark, tmp_path_factory.mktemp("stopped"))
    query.run("0.json", "1.json")
    return query


@pytest.fixture(scope="module")
def unfinished(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Query:
    """A query that died in a batch which reads the third file; not to be run any more."""
    query = Query(spark, tmp_path_factory.mktemp("unfinished"))
    query.run("0.json", "1.json")
    query.fails_at = int(max(path.name for path in Path(query.checkpoint, "commits").glob("[0-9]*"))) + 1
    query.run("2.json")
    return query


def refusal(call: Callable[[], Any]) -> RekindleError:
    with pytest.raises(RekindleError) as raised:
        call()
    return raised.value


def test_the_batch_in_which_a_query_died_is_finished_first_and_kept_apart(
    spark: Any, unfinished: Query, tmp_path: Path
) -> None:
    result = rk.flush(unfinished.build, unfinished.checkpoint, spark=spark, out=str(tmp_path / "rest"))
    assert result.unfinished_batch == unfinished.fails_at
    assert result.unfinished_row_count == 0, "the windows that the third file closes come behind it"
    assert said(unfinished.emitted) + said(of(result.rows)) == unfinished.expected()
    assert pq.read_table(tmp_path / "rest" / "flushed").num_rows == result.row_count
    assert pq.read_table(tmp_path / "rest" / "unfinished").num_rows == 0
    again = refusal(lambda: rk.flush(unfinished.build, unfinished.checkpoint, spark=spark, out=str(tmp_path / "rest")))
    assert again.code == "SAVEPOINT_TARGET_EXISTS"


def test_a_batch_whose_files_are_gone_is_not_taken_for_an_empty_one(
    spark: Any, unfinished: Query, tmp_path: Path
) -> None:
    file = Path(unfinished.folder, "in", "2.json")
    hidden = file.rename(tmp_path / "2.json")
    try:
        error = refusal(lambda: rk.flush(unfinished.build, unfinished.checkpoint, spark=spark))
    finally:
        hidden.rename(file)
    assert (error.code, error.parameters["path"]) == ("UNFINISHED_BATCH_UNREADABLE", str(file))


def test_files_that_were_read_need_not_be_there_any_more(spark: Any, stopped: Query, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    elsewhere = Query(spark, tmp_path)
    result = rk.flush(elsewhere.build, stopped.checkpoint, spark=spark)
    assert said(stopped.emitted) + said(of(result.rows)) == stopped.expected()


def test_a_query_with_other_sources_or_another_state_is_refused(spark: Any, stopped: Query) -> None:
    def two_sources(spark: Any) -> Any:
        return queries.windows(queries.stream(spark, stopped.folder).union(queries.stream(spark, stopped.folder)))

    def other_kind(spark: Any) -> Any:
        rate = spark.readStream.format("rate").load()
        return queries.windows(
            rate.select(F.col("timestamp").alias("ts"), F.lit("a").alias("k"), F.col("value").alias("v"))
        )

    def other_key(spark: Any) -> Any:
        return queries.windows(queries.stream(spark, stopped.folder).withColumn("k", F.length("k")))

    def other_step(spark: Any) -> Any:
        return queries.stream(spark, stopped.folder).withWatermark("ts", "1 hour").dropDuplicates(["ts", "k"])

    for build in (two_sources, other_kind, other_key, other_step):
        error = refusal(lambda build=build: rk.flush(build, stopped.checkpoint, spark=spark))
        assert error.code == "SPARK_CHECKPOINT_DIFFERS", (build.__name__, str(error))


def test_what_is_no_query_is_refused(spark: Any, stopped: Query) -> None:
    def batch(spark: Any) -> Any:
        return spark.range(1)

    def fails(spark: Any) -> Any:
        raise ValueError("no such topic")

    for build, reason in ((batch, "a batch DataFrame"), (fails, "ValueError: no such topic")):
        error = refusal(lambda build=build: rk.flush(build, stopped.checkpoint, spark=spark))
        assert error.code == "FLUSH_FUNCTION_INVALID" and reason in error.message


def test_modes_in_which_nothing_is_held_back_are_refused(spark: Any, stopped: Query) -> None:
    def unbounded(spark: Any) -> Any:
        return queries.stream(spark, stopped.folder).groupBy("k").count()

    def flush(build: Any, mode: str) -> str:
        return refusal(lambda: rk.flush(build, stopped.checkpoint, spark=spark, output_mode=mode)).code

    assert flush(stopped.build, "complete") == "FLUSH_MODE_REFUSED"
    assert flush(stopped.build, "update") == "FLUSH_MODE_REFUSED"
    assert flush(unbounded, "append") == "FLUSH_REFUSED"


@pytest.mark.slow
def test_timers_of_a_user_come_out_in_update_mode_too(spark: Any, tmp_path: Path) -> None:
    class Counted(Query):
        def build(self, spark: Any) -> Any:
            return queries.counted(queries.watermarked(queries.stream(spark, self.folder)), self.mode)

    query = Counted(spark, tmp_path)
    query.mode = "update"
    query.run("0.json", "1.json")
    result = rk.flush(query.build, query.checkpoint, spark=spark, output_mode="update")
    assert said(query.emitted) + said(of(result.rows)) == said(COUNTED)
    assert result.row_count == 1, "that of the other key had fired already"


@pytest.mark.since("4.0")
def test_timers_that_set_timers_all_fire_where_the_session_does_not_count_its_state(spark: Any, tmp_path: Path) -> None:
    class Relayed(Query):
        def build(self, spark: Any) -> Any:
            return queries.relayed(queries.watermarked(queries.stream(spark, self.folder)))

    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "false")
    query = Relayed(session, tmp_path)
    query.run("0.json", "1.json")
    result = rk.flush(query.build, query.checkpoint, spark=session)
    assert result.complete
    assert said(query.emitted) + said(of(result.rows)) == said(queries.RELAYED)


def test_a_place_without_a_checkpoint_is_refused(spark: Any, stopped: Query, tmp_path: Path) -> None:
    assert refusal(lambda: rk.flush(stopped.build, str(tmp_path), spark=spark)).code == "SPARK_CHECKPOINT_MISSING"


def test_a_query_that_runs_is_not_flushed(spark: Any, tmp_path: Path) -> None:
    running = Query(spark, tmp_path)
    queries.put(running.folder, "0.json")
    query = running.start(processingTime="1 day")
    try:
        until(lambda: bool(list(Path(running.checkpoint).glob("commits/[0-9]*"))))
        assert (
            refusal(lambda: rk.flush(running.build, running.checkpoint, spark=spark)).code == "SPARK_CHECKPOINT_IN_USE"
        )
    finally:
        query.stop()


def test_a_query_that_writes_while_it_is_flushed_was_no_stopped_one(spark: Any, stopped: Query, tmp_path: Path) -> None:
    moving = tmp_path / "checkpoint"
    shutil.copytree(stopped.checkpoint, moving)
    last = max(int(path.name) for path in moving.glob("offsets/[0-9]*"))

    def build(spark: Any) -> Any:
        shutil.copy(moving / "offsets" / str(last), moving / "offsets" / str(last + 1))
        return stopped.build(spark)

    assert refusal(lambda: rk.flush(build, str(moving), spark=spark)).code == "SPARK_CHECKPOINT_IN_USE"


@pytest.mark.slow
def test_sources_that_have_names_are_distinguished_by_these(spark: Any, tmp_path: Path) -> None:
    conf = {
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        "spark.sql.streaming.offsetLog.formatVersion": "2",
    }
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)

        class Named(Query):
            name = "bids"

            def build(self, spark: Any) -> Any:
                reader = spark.readStream.schema(queries.SCHEMA).name(self.name)
                return queries.windows(reader.json(f"{self.folder}/in"))

        named = Named(spark, tmp_path)
        named.run("0.json", "1.json")
        result = rk.flush(named.build, named.checkpoint, spark=spark)
        assert said(named.emitted) + said(of(result.rows)) == named.expected()
        named.name = "asks"
        assert refusal(lambda: rk.flush(named.build, named.checkpoint, spark=spark)).code == "SPARK_CHECKPOINT_DIFFERS"
    finally:
        for key in conf:
            spark.conf.unset(key)


def test_rows_are_shown_as_spark_writes_them(spark: Any) -> None:
    rows = spark.sql(
        "SELECT struct(timestamp'2025-01-01 10:00:00' AS start, date'1500-01-01' AS day) AS window, 1.50BD AS k,"
        " 2 AS k, X'00FF' AS bytes, CAST(NULL AS int) AS gone, map('a', array(1)) AS map, true AS yes"
    )
    counts = {"row_count": 1, "unfinished_row_count": 0, "batch": 1, "watermark_ms": 0, "rounds": 1, "left": 0}
    result = FlushResult(rows=rows, unfinished_rows=None, unfinished_batch=None, complete=True, out=None, **counts)
    shown = [["{2025-01-01 10:00:00, 1500-01-01}", "1.50", "2", "00FF", "NULL", "{a -> [1]}", "true"]]
    assert result.texts(20) == shown
    assert result.texts(0) == []
