"""Stop, savepoint, drain, cancel, and what a job goes on from, on Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import ControlError, RestoreError
from rekindle.runtime.steps import heard_by
from rekindle.spark.query.passing import has_found_nothing
from rekindle.spark.query.query import Query
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, World, at, committed, has_read, rows, until

RESTS = {"restart.delay": "1 hour", "restart.delay_max": "1 hour"}
"""A task that has failed is not started again."""


def storage_of(world: World, name: str = "hourly") -> JobStorage:
    return JobStorage(open_store(world.storage), name)


def tree(savepoint: str) -> dict[str, bytes]:
    """What a savepoint consists of."""
    root = Path(savepoint.removeprefix("file://"))
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_stopped_job_reads_nothing_again_and_a_savepoint_starts_it_elsewhere(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 90), rows(5, 90), rows(3, 90))
    world.add_live(rows(100, 60))
    handle = world.hourly().start(spark, storage=world.storage, config=QUICK)
    until(lambda: handle.status().tasks[0].inputs["history"].ended)
    answer = handle.stop(savepoint=str(world.root / "savepoints"))
    result = handle.wait()
    assert result is not None and result.state == answer.state == "STOPPED"
    assert result.savepoint == answer.savepoint is not None
    (made,) = (one for one in handle.status().history if one.path == result.savepoint)
    copied = [path for path in Path(result.savepoint.removeprefix("file://")).rglob("*") if path.is_file()]
    assert made.size_bytes == sum(path.stat().st_size for path in copied if path.name != "manifest.json") > 0
    records = storage_of(world).records(f"hourly/tasks/count/0/{1:06d}")

    # A copy of its last checkpoint, which needs no Spark, is the same.
    at_rest = handle.savepoint(str(world.root / "savepoints")).path
    assert at_rest != result.savepoint
    assert tree(at_rest) == tree(result.savepoint)

    # In place: the next batch is the next batch.
    handle = world.hourly().start(spark, storage=world.storage, config=QUICK)
    world.add_live(rows(102, 60))
    until(lambda: has_read(handle, 2))
    assert handle.status().tasks[0].batch > records[-1]
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()

    # Elsewhere: another storage, another query, the same rows from the same cut; its output goes somewhere else.
    whole = world.output()
    world.out = world.root / "elsewhere-out"
    elsewhere = str(world.root / "elsewhere")
    handle = world.hourly().start(spark, storage=elsewhere, restore=at_rest, config=QUICK)
    until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    late = world.output()
    assert late and late <= whole, "what the original yields behind the savepoint, the fork yields too"
    assert {start for start, _, _ in late} >= {at(102)}


def test_a_drained_job_goes_on_only_if_allowed_and_later_rows_are_not_late(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 60), rows(2, 60))
    handle = world.hourly(history=False).start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()

    again = world.hourly(history=False).start(spark, storage=world.storage).wait()
    assert (again.state, again.already_ended) == ("DRAINED", True)
    with pytest.raises(RestoreError, match="JOB_DRAINED"):
        world.hourly(history=False).start(spark, storage=world.storage, restore=str(again.checkpoint))

    handle = world.hourly(history=False).start(spark, storage=world.storage, config=QUICK, allow_drained=True)
    world.add_live(rows(4, 60), rows(6, 60))
    until(lambda: has_read(handle, 4))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()


class Refusing(rk.sinks.Parquet):
    """A sink that prepares nothing while its folder has a neighbour of this name."""

    def prepare(self, df: Any, batch: Any) -> Any:
        if Path(f"{self.path}.refused").exists():
            raise RuntimeError("no luck")
        return super().prepare(df, batch)


@pytest.mark.parametrize("config", [RESTS, {}], ids=["while it waits", "while it tries"])
def test_a_drain_waits_for_a_batch_that_fails_says_so_and_ends_once_the_cause_is_gone(
    spark: SparkSession, world: World, config: dict[str, str]
) -> None:
    world.add_live(rows(0, 60))
    job = rk.Job("failing")
    live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")

    @job.task(live)
    def counted(live: Any) -> Any:
        return live.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

    job.sink("out", counted, Refusing(world.out))
    handle = job.start(spark, storage=world.storage, config={**QUICK, **config})
    until(lambda: handle.status().tasks[0].batch == 1)  # the rows, and the watermark that follows them
    refused = Path(f"{world.out}.refused")
    refused.touch()
    world.add_live(rows(2, 60))
    until(lambda: handle.status().restarts > 0)

    with pytest.raises(ControlError, match="no luck") as drain:
        handle.stop(drain=True)

    assert drain.value.code == "DRAIN_FAILING"
    assert handle.status().state == "STOPPING"
    refused.unlink()
    if config:
        handle.cancel()  # it would wait for an hour; nothing was flushed yet, so nothing is left of the drain
        handle = job.start(spark, storage=world.storage, config=QUICK)
        until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    result = handle.wait()
    assert (result.state, result.notes) == ("DRAINED", ())
    assert world.output() == world.expected()


def test_a_pipeline_that_has_been_quiet_is_drained_without_a_restart(spark: SparkSession, world: World) -> None:
    job = rk.Job("quiet")
    live = job.source("live", world.stream(), event_time="ts", watermark="1 minute")
    kept = job.task(live, uid="keep", event_time="ts")(lambda rows: rows.where("v > 0"))
    hours = job.task(kept, uid="hours")(
        lambda rows: rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
    )
    job.sink("out", hours, rk.sinks.Parquet(world.out))
    world.add_live(rows(0, 90), rows(3, 30))
    handle = job.start(spark, storage=world.storage, config={**QUICK, "restart.attempts": "0"})
    until(lambda: world.has_hour(0))
    until(lambda: all(map(has_found_nothing, spark.streams.active)))

    assert handle.stop(drain=True).state == "DRAINED"
    assert world.output() == world.expected()


def test_a_rollback_refuses_a_sink_that_is_ahead_and_repeats_only_what_was_allowed(
    spark: SparkSession, world: World
) -> None:
    world.add_live(rows(0, 60))
    config = {**QUICK, "checkpoint.interval": "0", "checkpoint.retained": "10"}
    handle = world.hourly(history=False).start(spark, storage=world.storage, config=config)
    until(lambda: has_read(handle, 1))
    first = handle.checkpoint().number
    world.add_live(rows(1, 60), rows(2, 60), rows(3, 60))
    until(lambda: has_read(handle, 4))
    handle.stop()
    handle.wait()
    before = world.output()
    assert before

    with pytest.raises(RestoreError, match="SINK_AHEAD"):
        world.hourly(history=False).start(spark, storage=world.storage, restore=str(first))

    handle = world.hourly(history=False).start(
        spark, storage=world.storage, restore=str(first), allow_sink_ahead=True, config=config
    )
    until(lambda: has_read(handle, 4))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected() + before, "what was committed behind the checkpoint came twice"


def test_a_cancel_is_durable_at_once_while_a_batch_hangs_and_a_stop_waits(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 10))
    hangs, release, over = threading.Event(), threading.Event(), threading.Event()

    class Slow(rk.sinks.Parquet):
        def prepare(self, df, batch):  # type: ignore[no-untyped-def]
            hangs.set()
            release.wait(300)
            try:
                return super().prepare(df, batch)
            finally:
                over.set()

    job = rk.Job("slow")
    source = job.source("live", world.stream())
    task = job.task(source, uid="same")(lambda live: live)
    job.sink("out", task, Slow(world.out))
    handle = job.start(spark, storage=world.storage, config=QUICK)
    assert hangs.wait(300)
    refused: list[str] = []

    def ask_to_stop() -> None:
        with pytest.raises(ControlError) as error:
            handle.stop()
        refused.append(error.value.code)

    stop = threading.Thread(target=ask_to_stop)
    stop.start()
    until(lambda: handle.status().state == "STOPPING")

    handle.cancel()

    assert storage_of(world, "slow").state() == "CANCELED"
    result = handle.wait(120)
    assert result is not None and result.state == "CANCELED"
    stop.join(120)
    assert refused == ["CANCELED_MEANWHILE"]
    release.set()
    assert over.wait(300)
    handle = job.start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    handle.stop(drain=True)
    handle.wait()
    assert len(committed(world.out)) == 10


def test_a_savepoint_that_cannot_be_written_leaves_the_job_running(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 60))
    handle = world.hourly(history=False).start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    blocked = world.root / "file"
    blocked.write_text("not a directory")

    with pytest.raises(rk.RekindleError) as savepoint:
        handle.savepoint(str(blocked))
    assert savepoint.value.code == "SAVEPOINT_FAILED"
    with pytest.raises(rk.RekindleError) as stop:
        handle.stop(savepoint=str(blocked))
    assert stop.value.code == "STOP_FAILED"

    until(lambda: handle.status().tasks[0].status == "running")
    world.add_live(rows(2, 60))
    until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()
    assert at(2) in {start for start, _, _ in world.output()}


def test_windows_that_were_due_at_a_stop_come_out_with_the_next_start_without_new_data(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_live(rows(0, 180))
    job = world.hourly(history=False)
    handles: list[rk.JobHandle] = []
    asked, held = threading.Event(), threading.Event()
    wait = Query.wait

    def waits(self: Query, until: Callable[[], bool]) -> None:
        held.set()  # `stop_behind` has said so before
        wait(self, until)

    monkeypatch.setattr(Query, "wait", waits)

    def stop_in_the_first_batch(step: str) -> None:
        if step == "spark.commit/before" and not asked.is_set():
            asked.set()
            until(lambda: bool(handles))
            threading.Thread(target=handles[0].stop, daemon=True).start()
            until(lambda: handles[0].status().tasks[0].status == "suspending")
            assert held.wait(300)

    by_hand = {"checkpoint.interval": "0"}
    handles.append(heard_by(stop_in_the_first_batch, job.start)(spark, storage=world.storage, config=by_hand))
    result = handles[0].wait()
    assert result is not None and result.state == "STOPPED"
    assert asked.is_set()
    assert not world.output()

    handle = world.hourly(history=False).start(spark, storage=world.storage, config=QUICK)
    until(lambda: world.has_hour(0) and world.has_hour(1), seconds=120)
    handle.cancel()
    handle.wait()
