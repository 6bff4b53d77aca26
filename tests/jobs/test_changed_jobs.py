"""A job that is not as it was goes on where it can, and nothing is lost or there twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pyspark
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RestoreError
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.crash.pipeline_kit import Gate
from tests.jobs.kit import DDL, QUICK, World, committed, rows, until, write

Query = Callable[..., Any]


def same(frame: Any) -> Any:
    return frame


def job(world: World, *, query: Query = same, counted: Query | None = None, name: str = "job") -> rk.Job:
    """A live stream → `read` → `count`, which counts its keys and so has state."""
    made = rk.Job(name)
    read = made.task(made.source("live", world.stream()), uid="read")(query)
    count = made.task(read, uid="count", output_mode="update")(counted or (lambda frame: frame.groupBy("k").count()))
    made.sink("counts", count, keep(world, "counts"))
    return made


def keep(world: World, name: str) -> rk.sinks.Foreach:
    """A sink that appends what it gets to a file."""

    def write(frame: Any, batch: Any) -> None:
        folder = world.root / name
        folder.mkdir(exist_ok=True)
        lines = [f"{row['k']}={row['count']}" for row in frame.collect()]
        written = folder / batch.key.replace("/", "+")
        written.write_text("\n".join(lines))
        written.rename(f"{written}.txt")

    return rk.sinks.Foreach(write)


def counts(world: World) -> Counter[str]:
    """The highest count that was put out for each key."""
    found: Counter[str] = Counter()
    for file in (world.root / "counts").glob("*.txt"):
        for line in file.read_text().splitlines():
            key, _, count = line.partition("=")
            found[key] = max(found[key], int(count))
    return found


def lives(spark: SparkSession, made: rk.Job, world: World, done: Callable[[], bool], **start: Any) -> None:
    """Run it until something is committed, and stop it."""
    handle = made.start(spark, **({"storage": world.storage, "config": QUICK} | start))
    until(lambda: done() or not handle.is_running())
    handle.stop()
    assert handle.wait().state == "STOPPED"


@pytest.mark.spark
def test_a_renamed_task_goes_on_with_its_state_and_its_channels(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 10, keys="a"))
    lives(spark, job(world), world, lambda: counts(world)["a"] == 10)

    def renamed() -> rk.Job:
        made = rk.Job("job")
        task = made.task(made.source("live", world.stream()), uid="parse", was="read")(same)
        counted = made.task(task, uid="per_key", was="count", output_mode="update")(
            lambda frame: frame.groupBy("k").count()
        )
        made.sink("counts", counted, keep(world, "counts"))
        return made

    said = renamed().check(storage=world.storage)
    assert (said.beginning, [task.fate for task in said.tasks]) == ("restores", ["resumes", "resumes"])
    assert [(one.uid, one.what) for one in said.graph] == [("parse", "was read"), ("per_key", "was count")]
    world.add_live(rows(0, 5, keys="a"))
    lives(spark, renamed(), world, lambda: counts(world)["a"] == 15)
    world.add_live(rows(0, 5, keys="ab"))
    lives(spark, renamed(), world, lambda: counts(world)["b"] == 2)
    assert counts(world) == {"a": 18, "b": 2}


@pytest.mark.spark
def test_columns_of_a_channel_come_go_and_widen_while_rows_are_in_it(spark: SparkSession, world: World) -> None:
    """What is in flight was written with the columns that were."""
    narrow = lambda frame: frame.select("k", F.col("v").cast("int").alias("v"))  # noqa: E731
    world.add_live(rows(0, 5, keys="a"), rows(0, 5, keys="a"))
    canceled_in_flight(spark, world, narrow)

    def counted(frame: Any) -> Any:
        known = F.when(F.col("w").isNull(), F.lit("in flight")).otherwise(F.col("w"))
        return frame.groupBy(F.concat("k", F.lit("/"), known).alias("k")).agg(F.sum("v").alias("count"))

    wide = job(
        world, query=lambda frame: (same if WIDENS else narrow)(frame).withColumn("w", F.lit("new")), counted=counted
    )
    world.add_live(rows(0, 5, keys="a"))
    lives(spark, wide, world, lambda: len(counts(world)) == 2)
    assert counts(world) == {"a/in flight": 10, "a/new": 5}

    other = job(world, query=lambda frame: frame.select("k", F.lit(1).alias("w"), "v"), counted=counted)
    refused = caught(spark, other, world)
    assert refused.code == "OUTPUT_CHANGED"
    assert "Column 'w' that task 'read' puts into its channels was string, and is now integer" in str(refused)


@pytest.mark.spark
def test_sinks_come_go_and_become_others_and_prepared_rows_are_not_forgotten(spark: SparkSession, world: World) -> None:
    def made(**sinks: Any) -> rk.Job:
        job = rk.Job("job")
        task = job.task(job.source("live", world.stream()), uid="read")(same)
        for uid, sink in sinks.items():
            job.sink(uid, task, sink)
        return job

    def parquet(name: str) -> rk.sinks.Parquet:
        return rk.sinks.Parquet(world.root / name)

    def keys(name: str) -> Counter[str]:
        return Counter(row["k"] for row in committed(world.root / name))

    world.add_live(rows(0, 3, keys="a"))
    lives(spark, made(one=parquet("one")), world, lambda: keys("one")["a"] == 3)
    world.add_live(rows(0, 3, keys="b"))
    both = made(one=parquet("one"), two=parquet("two"))
    assert [(one.uid, one.what) for one in both.check(storage=world.storage).graph] == [("two", "is new to task read")]
    lives(spark, both, world, lambda: keys("two")["b"] == 3)

    # Rows are prepared for `two`, and a checkpoint would commit them.
    world.add_live(rows(0, 3, keys="c"))
    handle = both.start(spark, storage=world.storage, config={**QUICK, "checkpoint.interval": "0"})
    until(lambda: (handle.status().tasks[0].batch or 0) >= 2)
    handle.cancel()
    handle.wait()
    for without in (made(one=parquet("one")), made(one=parquet("one"), two=rk.sinks.Foreach(lambda *_: None))):
        refused = caught(spark, without, world)
        assert refused.code == "SINK_UNSETTLED" and "sink 'two'" in str(refused)

    lives(spark, both, world, lambda: keys("two")["c"] == 3)
    world.add_live(rows(0, 3, keys="d"))
    replaced = made(two=keep_keys(world, "three"))
    assert [(one.uid, one.what) for one in replaced.check(storage=world.storage).graph] == [
        ("one", "is gone"), ("two", "was Parquet, and is now Foreach"),
    ]  # fmt: skip
    lives(spark, replaced, world, (world.root / "three").exists)
    assert (keys("one"), keys("two")) == ({"a": 3, "b": 3, "c": 3}, {"b": 3, "c": 3})
    assert [file.read_text() for file in (world.root / "three").iterdir()] == ["ddd"]


@pytest.mark.spark
def test_a_job_with_another_name_starts_from_a_savepoint_if_that_is_allowed(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 10, keys="a"))
    lives(spark, job(world), world, lambda: counts(world)["a"] == 10)
    checkpoint = str(max((world.root / "storage/job/checkpoints").iterdir()))
    other = job(world, name="other")
    refused = caught(spark, other, world, restore=checkpoint)
    assert refused.code == "JOB_DIFFERENT" and "--allow-other-name" in refused.next_step

    world.add_live(rows(0, 5, keys="a"))
    lives(spark, other, world, lambda: counts(world)["a"] == 15, restore=checkpoint, allow_other_name=True)
    world.add_live(rows(0, 5, keys="a"))
    lives(spark, other, world, lambda: counts(world)["a"] == 20)


@pytest.mark.spark
def test_sinks_go_back_with_the_checkpoint_and_another_query_writes_the_rows_once_more(
    spark: SparkSession, world: World
) -> None:
    def made(suffix: str) -> rk.Job:
        job = rk.Job("job")
        task = job.task(job.source("live", world.stream()), uid="read")(
            lambda frame: frame.withColumn("k", F.concat("k", F.lit(suffix)))
        )
        job.sink("files", task, rk.sinks.Parquet(world.root / "files"))
        job.sink("table", task, rk.sinks.Delta(world.root / "table"))
        return job

    def written() -> list[Counter[str]]:
        table = DeltaTable(world.root / "table").to_pyarrow_table().to_pylist()
        return [Counter(row["k"] for row in found) for found in (committed(world.root / "files"), table)]

    config = {**QUICK, "checkpoint.retained": "1000"}
    world.add_live(rows(0, 3, keys="a"))
    lives(spark, made(""), world, lambda: bool(committed(world.root / "files")), config=config)
    good = JobStorage(open_store(world.storage), "job").checkpoints()[0]
    world.add_live(rows(0, 3, keys="b"), rows(0, 3, keys="c"))
    bad = lambda: Counter(row["k"] for row in committed(world.root / "files"))["c-bad"] == 3  # noqa: E731
    lives(spark, made("-bad"), world, bad, config=config)
    assert written() == [{"a": 3, "b-bad": 3, "c-bad": 3}] * 2

    said = made("").check(storage=world.storage, restore=good, rewind_sinks=True)
    assert [(one.sink, one.kind, one.rows) for one in said.rewinds] == [("files", "Parquet", 6), ("table", "Delta", 6)]
    mended = lambda: Counter(row["k"] for row in committed(world.root / "files"))["c"] == 3  # noqa: E731
    lives(spark, made(""), world, mended, restore=good, rewind_sinks=True, config=config)
    assert written() == [{"a": 3, "b": 3, "c": 3}] * 2
    assert caught(spark, made(""), world, restore=good + 1).code == "CHECKPOINT_REWOUND"


def union(world: World, *inputs: str, mode: str = "union") -> rk.Job:
    """Counts of keys over these inputs: streams, the history, and a task that reads the stream `apart`."""

    def stream(name: str) -> rk.Stream:
        folder = world.root / name
        folder.mkdir(exist_ok=True)
        return rk.Stream(_stream(str(folder)))

    made = rk.Job("job")
    reads = made.task(made.source("apart", stream("apart")), uid="read")(same)
    made.sink("read", reads, rk.sinks.Parquet(world.root / "read"))
    known = {"read": reads}

    def count(*frames: Any) -> Any:
        if mode == "join":
            return frames[0].join(frames[1].select("k"), "k").select("k", F.lit(1).alias("count"))
        return reduce(lambda one, other: one.unionByName(other), frames).groupBy("k").count()

    given = [
        known.get(uid) or made.source(uid, rk.Files(str(world.history)) if uid == "history" else stream(uid))
        for uid in inputs
    ]
    task = made.task(*given, uid="count", output_mode="append" if mode == "join" else "update")(count)
    made.sink("counts", task, keep(world, "counts"))
    return made


def drop(world: World, **keys: str) -> None:
    """Put five rows of a key into each of these streams."""
    for name, key in keys.items():
        write(world.root / name, f"{time.time_ns()}.parquet", rows(0, 5, keys=key))


@pytest.mark.spark
def test_inputs_come_go_and_change_places_and_each_is_read_once(spark: SparkSession, world: World) -> None:
    def until_counted(**expected: int) -> Callable[[], bool]:
        return lambda: all(counts(world)[key] >= count for key, count in expected.items())

    made = union(world, "live")
    drop(world, live="a", apart="x")
    lives(spark, made, world, until_counted(a=5))

    world.add_history(rows(0, 7, keys="h"))
    more = union(world, "history", "more", "read", "live")
    said = more.check(spark, storage=world.storage)
    assert [one.what for one in said.graph] == ["reads history now", "reads more now", "reads read now"]
    assert (said.beginning, said.refused) == ("restores", False)
    assert {one.uid: one.fate for one in said.sources}["more"] == "begins"
    drop(world, live="a", more="b", apart="c")
    lives(spark, more, world, until_counted(a=10, b=5, c=5, h=7))
    assert counts(world) == {"a": 10, "b": 5, "c": 5, "h": 7}, "of `read`, what came before is not kept"

    drop(world, live="a", more="b", apart="c")
    lives(spark, union(world, "live", "read", "more", "history"), world, until_counted(a=15, b=10, c=10))

    refused = caught(spark, union(world, "live", "more"), world)
    assert refused.code == "INPUT_NOT_RESTORED" and "task 'count' reads read, history" in str(refused)
    joined = caught(spark, union(world, "live", "more", mode="join"), world, allow_non_restored_state=True)
    assert joined.code == "STATE_OPERATORS_CHANGED"

    drop(world, live="a", more="b", apart="c")
    lives(
        spark, union(world, "live", "more"), world, until_counted(a=20, b=15), allow_non_restored_state=True
    )  # fmt: skip
    drop(world, live="a")
    lives(spark, union(world, "live", "more"), world, until_counted(a=25))
    assert counts(world) == {"a": 25, "b": 15, "c": 10, "h": 7}


@pytest.mark.spark
def test_windows_go_on_when_a_stream_with_an_event_time_is_added_before_the_others(
    spark: SparkSession, world: World
) -> None:
    """Watermark rows are sources too, and get other numbers with their inputs."""

    def made(*names: str) -> rk.Job:
        job = rk.Job("job")
        given = []
        for name in names:
            folder = str(world.root / name)
            Path(folder).mkdir(exist_ok=True)
            source = rk.Files(folder) if name == "history" else rk.Stream(_stream(folder))
            late = {} if name == "history" else {"watermark": "4 seconds"}
            given.append(job.source(name, source, event_time="ts", **late))
        task = job.task(*given, uid="count")(
            lambda *frames: (
                reduce(lambda one, other: one.unionByName(other), frames)
                .groupBy(F.window("ts", "1 hour"), "k")
                .agg(F.sum("v").alias("v"))
            )
        )
        job.sink("out", task, rk.sinks.Parquet(world.out))
        return job

    world.add_history(rows(0, 90))
    world.add_live(rows(1, 120))
    handle = made("history", "live").start(spark, storage=world.storage, config=QUICK)
    until(lambda: world.has_hour(0))
    handle.stop()
    handle.wait()

    write(world.root / "more", "1.parquet", later := rows(3, 90, keys="d"))
    world.data += later
    world.add_live(rows(3, 60))
    handle = made("more", "history", "live").start(spark, storage=world.storage, config=QUICK)
    until(lambda: (handle.status().tasks[0].inputs["more"].position or {}).get("logOffset", -1) >= 0)
    until(lambda: (handle.status().tasks[0].inputs["live"].position or {}).get("logOffset", -1) >= 1)
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()


@pytest.mark.spark
def test_what_has_finished_has_no_new_readers_and_an_input_that_is_used_twice_stays_alone(
    spark: SparkSession, world: World
) -> None:
    def made(*, reader: bool = False, inputs: tuple[str, ...] = ("live",)) -> rk.Job:
        job = rk.Job("job")
        past = job.task(job.source("history", rk.Files(str(world.history))), uid="past")(same)
        job.sink("past", past, rk.sinks.Parquet(world.root / "past"))
        known = {"live": job.source("live", world.stream()), "past": past}

        @job.task(*(known[uid] for uid in inputs), uid="count", output_mode="update")
        def count(live: Any, *others: Any) -> Any:
            return reduce(lambda one, other: one.unionByName(other), [live, live, *others]).groupBy("k").count()

        job.sink("counts", count, keep(world, "counts"))
        if reader:
            read = job.task(past, uid="reader")(same)
            job.sink("read", read, rk.sinks.Parquet(world.root / "read"))
        return job

    def has_finished() -> bool:
        storage = JobStorage(open_store(world.storage), "job")
        newest = storage.newest_manifest()
        return newest is not None and "past" in newest.finished_tasks

    world.add_history(rows(0, 3, keys="h"))
    world.add_live(rows(0, 4, keys="a"))
    lives(spark, made(), world, lambda: counts(world)["a"] == 8 and has_finished())
    last = str(JobStorage(open_store(world.storage), "job").checkpoints()[0])
    for changed in (made(reader=True), made(inputs=("live", "past"))):
        for start in ({}, {"restore": last}):
            refused = caught(spark, changed, world, **start)
            assert refused.code == "FINISHED_TASK_READ" and "'past'" in str(refused), (refused, start)

    (world.root / "more").mkdir()
    twice = rk.Job("job")
    past = twice.task(twice.source("history", rk.Files(str(world.history))), uid="past")(same)
    twice.sink("past", past, rk.sinks.Parquet(world.root / "past"))
    more = twice.source("more", rk.Stream(_stream(str(world.root / "more"))))
    count = twice.task(twice.source("live", world.stream()), more, uid="count", output_mode="update")(
        lambda live, more: live.unionByName(live).unionByName(more).groupBy("k").count()
    )
    twice.sink("counts", count, keep(world, "counts"))
    refused = caught(spark, twice, world)
    assert refused.code == "INPUTS_CHANGED" and "its query uses an input twice" in str(refused)
    world.add_live(rows(0, 1, keys="a"))
    lives(spark, made(), world, lambda: counts(world)["a"] == 10)


def _stream(folder: str) -> Callable[[Any], Any]:
    return lambda spark: spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(folder)


WIDENS = int(pyspark.__version__.split(".")[0]) >= 4


def keep_keys(world: World, name: str) -> rk.sinks.Foreach:
    """A sink that notes the keys of each batch that has any."""

    def write(frame: Any, batch: Any) -> None:
        found = "".join(row["k"] for row in frame.collect())
        if found:
            (world.root / name).mkdir(exist_ok=True)
            (world.root / name / batch.key.replace("/", "+")).write_text(found)

    return rk.sinks.Foreach(write)


def caught(spark: SparkSession, made: rk.Job, world: World, **start: Any) -> RestoreError:
    """What a start is refused with."""
    with pytest.raises(RestoreError) as refused:
        made.start(spark, storage=world.storage, config=QUICK, **start)
    return refused.value


def canceled_in_flight(spark: SparkSession, world: World, query: Query) -> None:
    """Let `read` write two batches while `count` is held in its first, and cancel."""
    gate = Gate(world.root / "gate")
    made = job(world, query=query, counted=lambda frame: gate(frame).groupBy("k").count())
    handle = made.start(spark, storage=world.storage, config={**QUICK, "checkpoint.interval": "0"})
    gate.await_held()
    until(lambda: any(task.uid == "read" and (task.batch or 0) >= 1 for task in handle.status().tasks))
    handle.cancel()
    gate.open()
    assert handle.wait().state == "CANCELED"
