"""Jobs that go on where plain queries stopped: what they write is what those would have written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RekindleError
from rekindle.storage.job_storage import JobStorage, jobs
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, until
from tests.plain import queries
from tests.plain.kit import ARCHIVES, Left, names, of, said
from tests.servers.kafka import KafkaServer, why_no_connector

STREAMS: dict[str, tuple[tuple[str, str, Callable[[Any], Any]], ...]] = {
    "windows": (("rows", "ts", lambda rows: rows),),
    "joined": (("rows", "ts", lambda rows: rows), ("others", "ts2", queries.second)),
    "timers": (("rows", "ts", lambda rows: rows),),
}
"""Query → its inputs: name, event time, and what is made of the rows."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "windows": queries.hourly,
    "joined": queries.near,
    "timers": queries.counted,
}
"""Query → what it does with them, once they have their watermarks."""


def job_of(name: str, left: Left, out: Path) -> rk.Job:
    """The query as a job."""
    job = rk.Job("adopted")
    folder = str(left.folder)
    sources = [
        job.source(
            uid,
            rk.Stream(lambda spark, made=made: made(queries.stream(spark, folder))),
            event_time=event_time,
            watermark=queries.DELAY,
        )
        for uid, event_time, made in STREAMS[name]
    ]
    task = job.task(*sources, uid="task")(FUNCTIONS[name])
    job.sink("out", task, rk.sinks.Parquet(out))
    return job


def positions(handle: rk.JobHandle) -> list[Any]:
    """How far the sources are read."""
    inputs = [each for task in handle.status().tasks for each in task.inputs.items()]
    return [each.position for uid, each in inputs if not uid.startswith(("one", "two"))]


def drained(spark: Any, job: rk.Job, storage: str, end: Any) -> None:
    """Run the job until all its sources are read up to there, and end it."""
    handle = job.start(spark, storage=storage, config=QUICK)
    until(lambda: all(at == end for at in positions(handle)))
    handle.stop(drain=True)
    result = handle.wait()
    assert result is not None and result.state == "DRAINED", result


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(RekindleError) as raised:
        call()
    return raised.value.code


def left_by(version: str, name: str, folder: Path) -> Left:
    archive = next(archive for archive in ARCHIVES if archive.stem == f"spark-{version}")
    return Left(archive, next(each for each in names(archive) if each.startswith(name)), folder)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        pytest.param("4.0", "joined", marks=pytest.mark.slow),
        pytest.param("4.3", "joined", marks=pytest.mark.slow),
        pytest.param("4.0", "timers", marks=pytest.mark.slow),
        pytest.param("4.3", "timers", marks=pytest.mark.slow),
    ],
)
def test_an_adopted_query_goes_on_as_it_would_have_itself(spark: Any, tmp_path: Path, version: str, name: str) -> None:
    left = left_by(version, name, tmp_path)
    left.move_in()
    before = left.files()
    job, storage = job_of(name, left, tmp_path / "out"), str(tmp_path / "storage")

    adopted = job.adopt(str(left.checkpoint), "task", spark=spark, storage=storage)
    assert adopted.positions == {uid: {"logOffset": 1} for uid, _, _ in STREAMS[name]}
    assert adopted.watermark_ms > 0 and adopted.unfinished_batch is None
    expected = left.go_on(spark, "3.json")
    drained(spark, job, storage, {"logOffset": 2})

    assert said(of(spark.read.parquet(str(tmp_path / "out")))) == said(expected)
    assert left.files() == before


def test_a_query_that_stopped_in_a_batch_is_adopted_and_reads_that_batch_again(spark: Any, tmp_path: Path) -> None:
    left = left_by("3.5", "windows", tmp_path)
    left.move_in()
    unfinished = left.stop_in_a_batch("2.json")
    job, storage = job_of("windows", left, tmp_path / "out"), str(tmp_path / "storage")

    adopted = job.adopt(str(left.checkpoint), "task", spark=spark, storage=storage)
    assert (adopted.unfinished_batch, adopted.positions) == (unfinished, {"rows": {"logOffset": 1}})
    again = job.adopt(str(left.checkpoint), "task", spark=spark, storage=storage)
    assert not Path(adopted.savepoint).exists() and Path(again.savepoint).exists(), "until it has run"
    expected = left.go_on(spark, "3.json")
    drained(spark, job, storage, {"logOffset": 3})

    assert said(of(spark.read.parquet(str(tmp_path / "out")))) == said(expected)
    assert refusal(lambda: job.adopt(str(left.checkpoint), "task", spark=spark, storage=storage)) == "ADOPT_JOB_HAS_RUN"


def test_the_slower_of_two_adoptions_is_to_be_run_again_and_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    left = left_by("4.3", "windows-log2", tmp_path)
    left.move_in()
    job, storage, quicker = job_of("windows", left, tmp_path / "out"), str(tmp_path / "storage"), list[str]()
    slow = rk.Job("adopted")
    ((uid, event_time, made),) = STREAMS["windows"]
    stream = rk.Stream(lambda spark: made(queries.stream(spark, str(left.folder))))
    source = slow.source(uid, stream, event_time=event_time, watermark=queries.DELAY)

    @slow.task(source, uid="task")
    def windows(rows: Any) -> Any:
        if not quicker:
            quicker.append("")
            quicker[0] = job.adopt(str(left.checkpoint), "task", spark=spark, storage=storage).savepoint
        return FUNCTIONS["windows"](rows)

    slow.sink("out", windows, rk.sinks.Parquet(tmp_path / "out"))
    arguments: dict[str, Any] = {"spark": spark, "storage": storage}

    assert refusal(lambda: slow.adopt(str(left.checkpoint), "task", **arguments)) == "ADOPT_OVERTAKEN"
    assert [str(path) for path in Path(storage, "_savepoints").iterdir()] == quicker
    again = slow.adopt(str(left.checkpoint), "task", **arguments)
    shutil.rmtree(again.savepoint)
    assert refusal(lambda: slow.adopt(str(left.checkpoint), "task", **arguments)) == "ADOPT_SAVEPOINT_GONE"


def test_what_does_not_fit_is_refused_and_nothing_is_written(spark: Any, tmp_path: Path) -> None:
    left = left_by("4.3", "windows-rocksdb", tmp_path)
    storage = str(tmp_path / "storage")

    def adopt(job: rk.Job, task: str = "task", checkpoint: Path = left.checkpoint) -> str:
        return refusal(lambda: job.adopt(str(checkpoint), task, spark=spark, storage=storage))

    job = job_of("windows", left, tmp_path / "out")
    assert adopt(job) == "SPARK_CHECKPOINT_DIFFERS", "its files lie elsewhere, so that all would be new"
    left.move_in()
    assert adopt(job, "tusk") == "ADOPT_TASK_UNKNOWN"
    assert adopt(job_of("joined", left, tmp_path / "out")) == "SPARK_CHECKPOINT_DIFFERS"
    assert adopt(job, checkpoint=tmp_path) == "SPARK_CHECKPOINT_MISSING"
    ids = left_by("4.3", "windows-state2", tmp_path)
    ids.move_in()
    assert adopt(job_of("windows", ids, tmp_path / "out"), checkpoint=ids.checkpoint) == "PROGRESS_FORMAT_UNKNOWN"

    files = rk.Job("files")
    source = files.source("files", rk.Files(f"{left.folder}/in", format="json", schema=queries.SCHEMA), event_time="ts")
    files.sink("out", files.task(source, uid="task")(queries.hourly), rk.sinks.Parquet(tmp_path / "out"))
    assert adopt(files) == "ADOPT_TASK_UNFIT"
    assert not Path(storage).exists()


def test_an_adoption_that_was_cut_short_leaves_a_new_job(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = left_by("4.3", "windows-log2", tmp_path)
    left.move_in()
    job, storage = job_of("windows", left, tmp_path / "out"), str(tmp_path / "storage")
    with monkeypatch.context() as patch:
        patch.setattr("rekindle.spark.plain.adoption._claim", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            job.adopt(str(left.checkpoint), "task", spark=spark, storage=storage)
    assert jobs(open_store(storage)) == []
    adopted = job.adopt(str(left.checkpoint), "task", spark=spark, storage=storage)
    kept = JobStorage(open_store(storage), "adopted")
    assert kept.state() == "STOPPED" and kept.lineage() is None
    assert adopted.batch == 2


@pytest.mark.slow
def test_two_tasks_adopt_a_query_each_and_a_third_reads_what_one_writes_from_now_on(spark: Any, tmp_path: Path) -> None:
    one, two = left_by("4.0", "windows-hdfs", tmp_path / "1"), left_by("4.3", "windows-log2", tmp_path / "2")
    job, storage = rk.Job("adopted"), str(tmp_path / "storage")
    for name, left in (("one", one), ("two", two)):
        left.move_in()
        folder = str(left.folder)
        source = job.source(
            f"rows-{name}",
            rk.Stream(lambda spark, folder=folder: queries.stream(spark, folder)),
            event_time="ts",
            watermark=queries.DELAY,
        )
        task = job.task(source, uid=name)(queries.hourly)
        job.sink(f"out-{name}", task, rk.sinks.Parquet(tmp_path / name))
    copied = job.task(task, uid="copied")(lambda windows: windows.filter("v > 0"))
    job.sink("out-copied", copied, rk.sinks.Parquet(tmp_path / "copied"))

    for name, left in (("two", two), ("one", one)):
        job.adopt(str(left.checkpoint), name, spark=spark, storage=storage)
    expected = {name: left.go_on(spark, "3.json") for name, left in (("one", one), ("two", two))}
    drained(spark, job, storage, {"logOffset": 2})

    for name, rows in (*expected.items(), ("copied", expected["two"])):
        assert said(of(spark.read.parquet(str(tmp_path / name)))) == said(rows), name


@pytest.mark.slow
@pytest.mark.skipif(why_no_connector() is not None, reason=str(why_no_connector()))
def test_a_query_on_a_topic_is_flushed_without_its_broker_and_adopted_with_it(
    spark: Any, kafka: KafkaServer, tmp_path: Path
) -> None:
    topic, checkpoint = "adopted", tmp_path / "checkpoint"
    kafka.make_topic(topic, partitions=1)

    def send(*files: str) -> None:
        rows = [row for name in files for row in queries.ROWS[name]]
        values = [json.dumps({"ts": f"2025-01-01T{time}:00Z", "k": k, "v": v}) for time, k, v in rows]
        kafka.send(topic, [(None, value, 1_735_689_600_000) for value in values])

    def parsed(messages: Any) -> Any:
        row = F.from_json(F.col("value").cast("string"), queries.SCHEMA)
        return messages.select(row.alias("row")).select("row.*")

    def query(spark: Any, bootstrap: str = kafka.bootstrap, topic: str = topic) -> Any:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return queries.windows(parsed(spark.readStream.format("kafka").options(**options).load()))

    def run(checkpoint: Path) -> list[Any]:
        emitted: list[Any] = []

        def keep(frame: Any, batch: int) -> None:
            emitted.extend(of(frame))

        writer = query(spark).writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return emitted

    send("0.json", "1.json")
    run(checkpoint)
    shutil.copytree(checkpoint, tmp_path / "copy")
    nowhere = rk.flush(lambda spark: query(spark, "127.0.0.1:1"), str(checkpoint), spark=spark)
    assert said(of(nowhere.rows)) == said(of(rk.flush(query, str(checkpoint), spark=spark).rows))
    assert nowhere.row_count > 0

    def job_on(topic: str) -> rk.Job:
        job = rk.Job("adopted")
        source = rk.sources.Kafka(kafka.bootstrap, topic, transform=parsed)
        bids = job.source("bids", source, event_time="ts", watermark=queries.DELAY)
        job.sink("out", job.task(bids, uid="task")(queries.hourly), rk.sinks.Parquet(tmp_path / "out"))
        return job

    job, storage = job_on(topic), str(tmp_path / "storage")
    other = job_on("another")
    refused = refusal(lambda: other.adopt(str(checkpoint), "task", spark=spark, storage=storage))
    assert refused == "SPARK_CHECKPOINT_DIFFERS"
    adopted = job.adopt(str(checkpoint), "task", spark=spark, storage=storage)
    assert adopted.positions == {"bids": {topic: {"0": 6}}}

    send("3.json")
    expected = run(tmp_path / "copy")
    expected += of(rk.flush(query, str(tmp_path / "copy"), spark=spark).rows)
    drained(spark, job, storage, {topic: {"0": 10}})
    assert said(of(spark.read.parquet(str(tmp_path / "out")))) == said(expected)
