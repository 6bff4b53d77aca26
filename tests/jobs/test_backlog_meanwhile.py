"""While one task computes its history as a batch, the others run: checkpoints are taken, and commit their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.storage import layout
from tests.crash.pipeline_kit import Gate
from tests.jobs.backlog_kit import (
    Pipeline,
    expected,
    folder_of,
    have_read_all,
    make,
    output,
    records,
    sessions,
    storage_of,
    stream_of,
    tumbling,
)
from tests.jobs.kit import DDL, QUICK, World, committed, rows, until

CONFIG = {**QUICK, "backlog.mode": "batch"}


def job_of(world: World, pipeline: Pipeline, gate: Gate, held: str = "true") -> rk.Job:
    """A task with a history, of which the gate holds some rows up, and a task without."""

    def delayed(history: Any, live: Any) -> Any:
        return pipeline(gate(history, held), live)

    delayed.__name__ = pipeline.__name__
    job = make({"": world}, "batch", (delayed,), "1 minute")
    events = job.source("events", rk.Stream(lambda spark: stream_of(str(world.live), {}, spark)))

    @job.task(events)
    def copied(events: Any) -> Any:
        return events.select("k", "v")

    job.sink("copied_out", copied, rk.sinks.Parquet(world.out / "copied"))
    return job


class Minutes(rk.SplitSource):
    """The rows of two hours, once."""

    schema = DDL
    bounded = False
    poll_every = "200 ms"

    def splits(self) -> list[str]:
        return ["all"]

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[Any, Any, bool]:
        return (spark.createDataFrame(rows(4, 122), DDL) if position is None else None), 1, False


def hybrid_job_of(world: World, gate: Gate, held: str) -> rk.Job:
    """The same with one source, which has the history and what continues it."""
    job = rk.Job("batch")
    both = job.source("both", rk.sources.Hybrid(world.files(), then=Minutes()), event_time="ts", watermark="1 minute")
    events = job.source("events", rk.Stream(lambda spark: stream_of(str(world.live), {}, spark)))

    @job.task(both, uid="tumbling")
    def counted(both: Any) -> Any:
        return gate(both, held).groupBy(F.window("ts", "1 hour"), "k").count()

    @job.task(events)
    def copied(events: Any) -> Any:
        return events.select("k", "v")

    job.sink("counted_out", counted, rk.sinks.Parquet(world.out / "counted"))
    job.sink("copied_out", copied, rk.sinks.Parquet(world.out / "copied"))
    return job


@pytest.mark.usefixtures("one_file_a_batch")
@pytest.mark.parametrize("hybrid", [False, True], ids=["two_sources", "hybrid"])
def test_periodic_checkpoints_may_wait_for_the_end_of_a_history(
    spark: SparkSession, tmp_path: Path, hybrid: bool
) -> None:
    world, gate = World(tmp_path), Gate(tmp_path / "gate")
    world.add_history(rows(0, 30), rows(1, 30), rows(2, 30, "x"))
    world.add_live(rows(4, 122))

    config = {"checkpoint.interval": "50 ms", "checkpoint.interval_during_backlog": "0", "backlog.mode": "stream"}
    config["input.target_batch_duration"] = "1 ms"
    held = "k = 'x'"
    job = hybrid_job_of(world, gate, held) if hybrid else job_of(world, tumbling, gate, held)
    handle = job.start(spark, storage=world.storage, config={**QUICK, **config})
    gate.await_held()
    storage = storage_of(world, "batch")
    before = storage.last_record(folder_of("batch", tumbling))
    assert before is not None
    assert sum(read.files for read in before.inputs.values()) == 2
    taken = storage.checkpoints()  # before its task had started
    for number in range(1, 6):  # the other task goes on, for much longer than the interval
        world.add_live(rows(6 + number, 1))
        until(lambda number=number: storage.last_record(layout.subtask("batch", "copied", 0, 1)).batch >= number)
    assert storage.checkpoints() == taken
    gate.open()
    until(lambda: storage.checkpoints() != taken)
    first = storage.manifest(max(taken, default=0) + 1)
    assert first is not None
    assert first.tasks["tumbling"][0].batch > before.batch
    handle.cancel()


@pytest.mark.parametrize("pipeline", [tumbling, sessions])
def test_checkpoints_and_savepoints_are_taken_meanwhile(
    spark: SparkSession, tmp_path: Path, pipeline: Pipeline
) -> None:
    world, gate = World(tmp_path), Gate(tmp_path / "gate")
    world.add_history(rows(0, 90), rows(2, 60))
    world.add_live(rows(4, 122))

    handle = job_of(world, pipeline, gate).start(spark, storage=world.storage, config=CONFIG)
    gate.await_held()
    until(lambda: len(committed(world.out / "copied")) == 122)
    handle.checkpoint()
    savepoint = handle.savepoint(str(tmp_path / "savepoints"))
    assert records(world, "batch", (pipeline,)) == [None]
    assert handle.cancel().state == "CANCELED"
    gate.open()

    # The job resumes from a checkpoint without the history; the savepoint begins another job.
    other = World(tmp_path / "other")
    other.history, other.live, other.data = world.history, world.live, world.data
    world.add_live(rows(6.05, 150))
    for place, restore in ((world, None), (other, savepoint.path)):
        handle = job_of(place, pipeline, gate).start(spark, storage=place.storage, config=CONFIG, restore=restore)
        until(lambda place=place: have_read_all({"": place}, (pipeline,)))
        handle.stop(drain=True)
        assert handle.wait().state == "DRAINED"
        assert output(spark, place, "batch", pipeline) == expected(spark, {"": place, "other_": place}, pipeline)
