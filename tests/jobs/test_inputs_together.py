"""Several inputs, one input several times, several sinks: read once, evaluated once, from one cut."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks import SinkBatch, TwoPhaseSink
from tests.jobs.kit import DDL, QUICK, UTC, World, committed, has_read, rows, until

Frame = Any


def contents(frame: Frame) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, frame.collect()))


def union_of_parts(history: Frame, live: Frame) -> Frame:
    """Each input twice, in one stream of rows."""
    both = history.filter("k = 'a'").unionByName(history.filter("k <> 'a'"))
    both = both.unionByName(live.filter("v = 2")).unionByName(live.filter("v <> 2"))
    return both.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"), F.count("*").alias("n"))


def join_with_itself(history: Frame, live: Frame) -> Frame:
    """Each input twice, with columns of their own."""
    both = history.unionByName(live)
    later = both.select(F.col("ts").alias("later"), F.col("k").alias("other"), F.col("v").alias("w"))
    near = F.expr("k = other and later > ts and later <= ts + interval 5 minutes")
    return both.join(later, near).select("ts", "k", "v", "later", "w")


def with_a_table(history: Frame, live: Frame) -> Frame:
    names = history.sparkSession.createDataFrame([("a", "A"), ("b", "B")], "k string, name string")
    return live.unionByName(history).join(names, "k", "left").select("ts", "k", "v", "name")


PIPELINES = (union_of_parts, join_with_itself, with_a_table)


@pytest.mark.usefixtures("one_file_a_batch")
def test_an_input_that_is_read_twice_is_read_from_one_position_also_in_a_new_lineage(
    spark: SparkSession, world: World
) -> None:
    config = {**QUICK, "input.target_batch_duration": "1 ms"}
    world.add_history(rows(0, 30), rows(2, 30), rows(1, 30), rows(0, 5))
    world.add_live(rows(3, 30), rows(4, 30))
    folder = str(world.history)

    def job_of(pipeline: Any) -> rk.Job:
        job = rk.Job(pipeline.__name__)
        history = job.source(
            "history", rk.Batch(lambda session: session.read.parquet(folder).repartition(3)), event_time="ts"
        )
        live = job.source("live", world.stream(), event_time="ts", watermark="1 minute")
        job.sink("out", job.task(history, live, uid="work")(pipeline), rk.sinks.Parquet(world.out / job.name))
        return job

    def begin_and_stop(pipeline: Any) -> str:
        handle = job_of(pipeline).start(spark, storage=world.storage, config=config)
        # In the middle of the history, most likely.
        until(lambda: handle.status().tasks[0].inputs["history"].position["files"] >= 1)
        savepoint = handle.stop(savepoint=str(world.root / "savepoints")).savepoint
        handle.wait()
        assert savepoint
        return savepoint

    def go_on_elsewhere(pipeline: Any, savepoint: str) -> str:
        elsewhere = str(world.root / "elsewhere")
        handle = job_of(pipeline).start(
            spark, storage=elsewhere, restore=savepoint, config=config, allow_shared_target=True
        )
        until(lambda: handle.status().tasks[0].inputs["history"].ended and has_read(handle, 3))
        handle.stop(drain=True)
        return handle.wait().state

    with ThreadPoolExecutor(len(PIPELINES)) as pool:
        savepoints = list(pool.map(begin_and_stop, PIPELINES))
        world.add_live(rows(6, 30))
        assert set(pool.map(go_on_elsewhere, PIPELINES, savepoints)) == {"DRAINED"}

    frames = [spark.read.schema(DDL).parquet(str(place)) for place in (world.history, world.live)]
    for pipeline in PIPELINES:
        found = contents(spark.read.parquet(str(world.out / pipeline.__name__)))
        expected = contents(pipeline(*frames))
        assert (expected - found, found - expected) == (Counter(), Counter()), pipeline.__name__


def test_streams_of_one_task_have_each_their_own_position_in_whatever_order_they_are_used(
    spark: SparkSession, world: World
) -> None:
    world.add_live(rows(0, 20))
    few, many = world.stream(), world.root / "many"
    world.live = many
    many.mkdir()
    world.add_live(rows(0, 10), rows(0.5, 10), rows(1, 10))
    lots = world.stream()
    job = rk.Job("streams")
    left = job.source("few", few, event_time="ts", watermark="1 minute")
    right = job.source("many", lots, event_time="ts", watermark="1 minute")

    @job.task(left, right, uid="join")
    def join(few: Frame, many: Frame) -> Frame:
        renamed = few.select(F.col("ts").alias("t"), F.col("k").alias("l"))
        return many.unionByName(many.filter("false")).join(renamed, F.expr("ts = t and k = l")).select("ts", "k")

    job.sink("out", join, rk.sinks.Parquet(world.out))
    handle = job.start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1, "few") and has_read(handle, 3, "many"))
    positions = {uid: item.position for uid, item in handle.status().tasks[0].inputs.items()}
    handle.stop(drain=True)
    handle.wait()
    assert positions == {"few": {"logOffset": 0}, "many": {"logOffset": 2}}
    assert len(committed(world.out)) == 10


def test_several_sinks_are_written_from_one_evaluation(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.add_history(rows(0, 20), rows(1, 20))
    log = tmp_path / "evaluated"
    log.mkdir()
    place = str(log)

    def note(value):
        import os
        import uuid

        with open(os.path.join(place, uuid.uuid4().hex), "w"):
            pass
        return value

    job = rk.Job("several")
    source = job.source("in", rk.Files(str(world.history)), event_time="ts")

    @job.task(source, uid="same")
    def same(frame: Frame) -> Frame:
        return frame.select("ts", F.udf(note, "int")("v").alias("v"), F.expr("uuid()").alias("id"), F.rand().alias("r"))

    for number in range(3):
        job.sink(f"out{number}", same, rk.sinks.Parquet(world.root / "outs" / str(number)))
    assert job.start(spark, storage=world.storage).wait().error is None

    first, *others = [contents(spark.read.parquet(str(world.root / "outs" / str(number)))) for number in range(3)]
    assert others == [first, first]
    assert sum(first.values()) == len({row[2] for row in first}) == 40
    assert len(list(log.iterdir())) == 40, "each row went through the function once"


class Table(TwoPhaseSink):
    """A user's own sink: a JSON file that holds the last value of each key; takes every output mode."""

    kind: ClassVar[str] = "Table"
    output_modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")

    def __init__(self, path: Path, *, replace: bool) -> None:
        self.path = path
        self.replace = replace
        self.finished = self.closed = False

    def prepare(self, df: Frame, batch: SinkBatch) -> Sequence[dict[str, Any]]:
        return [{"batch": batch.batch, "rows": 1, "values": {row["k"]: row["n"] for row in df.collect()}}]

    def commit(self, committables: Sequence[dict[str, Any]], permit: CommitPermit) -> None:
        values = json.loads(self.path.read_text()) if self.path.exists() else {}
        for one in sorted(committables, key=lambda one: one["batch"]):
            values = one["values"] if self.replace else {**values, **one["values"]}
        self.path.write_text(json.dumps(values))

    def abort(self, committables: Sequence[dict[str, Any]]) -> None:
        pass

    def finish(self) -> None:
        self.finished = True

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_users_own_sink_takes_the_output_modes_it_says_and_others_are_refused_by_name(
    spark: SparkSession, world: World, mode: str
) -> None:
    world.add_history(rows(0, 30), rows(1, 7))
    sinks = []

    def job_of() -> rk.Job:
        job = rk.Job(mode)
        # No event time: these modes have no need to wait for the end of anything.
        source = job.source("in", rk.Files(str(world.history)))
        live = job.source("live", world.stream())
        task = job.task(source, live, uid="count", output_mode=mode)(
            lambda frame, live: frame.unionByName(live).groupBy("k").agg(F.count("*").alias("n"))
        )
        sinks.append(Table(world.root / "table.json", replace=mode == "complete"))
        job.sink("table", task, sinks[-1])
        return job

    handle = job_of().start(spark, storage=world.storage, config=QUICK)
    until(lambda: handle.status().tasks[0].inputs["in"].ended)
    handle.stop()
    handle.wait()
    world.add_live(rows(5, 3, "z"))
    handle = job_of().start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"

    assert json.loads((world.root / "table.json").read_text()) == Counter(key for _, key, _ in world.data)
    assert sinks[-1].finished and sinks[-1].closed
    job = job_of()
    job.sink("files", rk.defining.TaskHandle(job, "count", lambda: None), rk.sinks.Parquet(world.out))  # type: ignore[arg-type,return-value]
    with pytest.raises(DefinitionError) as error:
        job.start(spark, storage=world.storage)
    assert error.value.code == "OUTPUT_MODE_UNSUPPORTED"
    assert "It takes: append" in error.value.next_step


def test_a_batch_of_no_rows_ends_and_holds_nothing_back(spark: SparkSession, world: World) -> None:
    calls = []

    def nothing(session: SparkSession) -> Frame:
        calls.append(1)
        return session.createDataFrame([], DDL)

    def job_of(name: str, *, live: bool) -> rk.Job:
        job = rk.Job(name)
        inputs = [job.source("nothing", rk.Batch(nothing), event_time="ts")]
        if live:
            inputs.append(job.source("live", world.stream(), event_time="ts", watermark="1 minute"))
        task = job.task(*inputs, uid="union")(
            lambda *frames: (
                (frames[0].unionByName(frames[1]) if live else frames[0])
                .groupBy(F.window("ts", "1 hour"), "k")
                .agg(F.sum("v").alias("v"))
            )
        )
        job.sink("out", task, rk.sinks.Parquet(world.out))
        return job

    alone = job_of("alone", live=False).start(spark, storage=world.storage).wait()
    assert (alone.state, alone.error, committed(world.out)) == ("FINISHED", None, [])
    world.out = world.root / "beside"

    world.add_live(rows(0, 60), rows(2, 60))
    handle = job_of("beside", live=True).start(spark, storage=world.storage, config=QUICK)
    until(lambda: world.has_hour(0))
    handle.stop()
    handle.wait()
    handle = job_of("beside", live=True).start(spark, storage=world.storage, config=QUICK)
    world.add_live(rows(4, 60))
    until(lambda: world.has_hour(2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()
    assert len(calls) == 2, "once for each job, not again on the resume"


def test_an_input_that_a_task_takes_twice_can_be_joined_with_itself_and_ends(spark: SparkSession, world: World) -> None:
    """Beside another one, whose place among Spark's sources the repeated one must not take."""
    world.add_history(rows(0, 30), rows(1, 30))
    other = World(world.root / "other")
    other.add_history(rows(0, 20), rows(1, 20), rows(2, 20))
    job = rk.Job("twice")
    first = job.source("first", world.files(), event_time="ts")
    second = job.source("second", other.files(), event_time="ts")

    @job.task(first, first, second)
    def pairs(left: Frame, right: Frame, second: Frame) -> Frame:
        joined = left.join(right, (left.k == right.k) & (left.ts == right.ts)).select(left.ts, left.k, right.v)
        return joined.unionByName(second)

    @job.task(first, second)
    def union(first: Frame, second: Frame) -> Frame:
        return first.unionByName(first).unionByName(second)

    job.sink("pairs", pairs, rk.sinks.Parquet(world.out / "pairs"))
    job.sink("union", union, rk.sinks.Parquet(world.out / "union"))
    job.sink(
        "both", job.task(union, union, uid="both")(lambda a, b: a.unionByName(b)), rk.sinks.Parquet(world.root / "b")
    )

    assert job.start(spark, storage=world.storage, config=QUICK).wait().state == "FINISHED"

    one, two = Counter((ts, k, v) for ts, k, v in world.data), Counter((ts, k, v) for ts, k, v in other.data)
    found = {name: _rows(world.root / "out" / name) for name in ("pairs", "union")}
    assert found == {"pairs": one + two, "union": one + one + two}
    assert _rows(world.root / "b") == found["union"] + found["union"]


def _rows(folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter((row["ts"].replace(tzinfo=UTC), row["k"], row["v"]) for row in committed(folder))


def test_an_input_that_a_task_makes_nothing_of_is_refused_and_one_that_spark_prunes_is_read(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 30))
    other = World(world.root / "other")
    other.add_history(rows(0, 20), rows(1, 20))

    def job_of(name: str, function: Any) -> rk.Job:
        job = rk.Job(name)
        used = job.source("used", world.files(), event_time="ts")
        ignored = job.source("ignored", other.files())
        job.sink("out", job.task(used, ignored, uid="work")(function), rk.sinks.Parquet(world.out / name))
        return job

    with pytest.raises(DefinitionError) as caught:
        job_of("ignores", lambda used, ignored: used).start(spark, storage=world.storage)
    assert (caught.value.code, caught.value.parameters) == ("INPUT_IGNORED", {"task": "work", "input": "ignored"})

    pruned = job_of("prunes", lambda used, ignored: used.unionByName(ignored.filter("1 = 0")))
    assert pruned.start(spark, storage=world.storage, config=QUICK).wait().state == "FINISHED"
    assert _rows(world.out / "prunes") == Counter(world.data)
