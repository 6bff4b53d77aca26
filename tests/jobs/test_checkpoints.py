"""Checkpoints on Spark under the settings that change when they are taken, and what becomes of those that fail."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RekindleError, RestoreError
from rekindle.handle import JobHandle
from rekindle.spark.streaming.task import SparkTask
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.status import CheckpointStats
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.crash.pipeline_kit import Gate
from tests.jobs.kit import FLUSHED, QUICK, World, committed, has_read, rows, until

ALIGNED = {"checkpoint.mode": "aligned", "checkpoint.interval": "0"}
ONE_FILE = {"input.target_batch_duration": "1 ms"}


def three_tasks(world: World, gate: Gate | None = None) -> rk.Job:
    """`short` ends by itself; `first` passes a live stream on to `second`, which rows of the key z hold up."""
    job = rk.Job("three")
    history = job.source("history", world.files())
    live = job.source("live", world.stream())
    short = job.task(history, uid="short")(lambda frame: frame)
    first = job.task(live, uid="first")(lambda frame: frame)
    second = job.task(first, uid="second")(lambda frame: frame if gate is None else gate(frame, "k = 'z'"))
    job.sink("short_out", short, rk.sinks.Parquet(world.root / "short"))
    job.sink("second_out", second, rk.sinks.Parquet(world.out))
    return job


def statuses(handle: JobHandle) -> dict[str, str]:
    return {task.uid: task.status for task in handle.status().tasks}


def batch(handle: JobHandle, uid: str) -> int:
    return next(task.batch for task in handle.status().tasks if task.uid == uid)


def made(handle: JobHandle, status: str) -> list[CheckpointStats]:
    return [one for one in handle.status().history if one.status == status]


def end_the_short_task(handle: JobHandle) -> None:
    until(lambda: statuses(handle)["short"] in FLUSHED)
    handle.checkpoint()
    until(lambda: statuses(handle)["short"] == "closed")


def hold_up(world: World, handle: JobHandle, gate: Gate, files: int) -> None:
    """Let `second` meet a row that it waits for, while `first` goes on."""
    world.add_live(rows(files, 3, keys="z"))
    gate.await_held()
    until(lambda: batch(handle, "first") > batch(handle, "second"))


def manifest_of(world: World, number: int) -> Manifest:
    return read_manifest(open_store(f"{world.storage}/three/checkpoints/{number:09d}"), "")


def keys_and_values(folder: Path) -> Counter[tuple[str, int]]:
    return Counter((row["k"], row["v"]) for row in committed(folder))


def test_several_aligned_checkpoints_are_under_way_after_a_task_has_finished_and_each_can_be_started_from(
    spark: SparkSession, world: World, gate: Gate
) -> None:
    world.add_history(rows(0, 5))
    read_by_short = Counter((key, value) for _, key, value in world.data)
    world.add_live(rows(1, 4))
    config = {**ALIGNED, "checkpoint.max_concurrent": "3", "checkpoint.retained": "10"}
    handle = three_tasks(world, gate).start(spark, storage=world.storage, config=config)
    end_the_short_task(handle)
    hold_up(world, handle, gate, files=2)
    numbers: list[int] = []
    asking = []
    for pending in (1, 2, 3):
        thread = threading.Thread(target=lambda: numbers.append(handle.checkpoint().number))
        thread.start()
        asking.append(thread)
        until(lambda wanted=pending: len(made(handle, "in_progress")) == wanted)  # type: ignore[misc]
        before = batch(handle, "first")
        world.add_live(rows(10 * pending, 4 + pending))
        until(lambda wanted=before: batch(handle, "first") > wanted)  # type: ignore[misc]
    assert not numbers, "none is complete while the barriers wait in the channel"

    gate.open()
    for thread in asking:
        thread.join(300)
    until(lambda: not made(handle, "in_progress"))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    everything = Counter((key, value) for _, key, value in world.data) - read_by_short
    assert keys_and_values(world.out) == everything
    assert keys_and_values(world.root / "short") == read_by_short

    assert len(set(numbers)) == 3
    cuts = []
    for number in sorted(numbers):
        manifest = manifest_of(world, number)
        assert (manifest.finished_tasks, manifest.in_flight_bytes) == (("short",), 0)
        cuts.append(manifest.tasks["first"][0].batch)
    assert cuts == sorted(set(cuts)), "each has a place of its own in the channel"

    # The files of the stream after the cut of the one in the middle, and no other row, come from a start there.
    world.out = world.root / "again"
    path = f"{world.storage}/three/checkpoints/{sorted(numbers)[1]:09d}"
    handle = three_tasks(world).start(
        spark, storage=str(world.root / "elsewhere"), restore=path, config=QUICK, allow_shared_target=True
    )
    until(lambda: any(task.uid == "first" and task.inputs and has_read_all(task, 5) for task in handle.status().tasks))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert sum(keys_and_values(world.out).values()) == 6 + 7
    assert statuses(handle)["short"] == "closed"


def test_a_savepoint_has_no_state_of_a_finished_task_but_what_is_still_to_be_read_of_it(
    spark: SparkSession, world: World, gate: Gate
) -> None:
    """The history's windows are flushed while a row of the live stream holds up who reads both."""

    def windows_beside_a_stream(gate: Gate | None = None) -> rk.Job:
        job = rk.Job("beside")
        history = job.source("history", world.files(), event_time="ts")
        live = job.source("live", world.stream())

        @job.task(history, uid="past")
        def past(frame: DataFrame) -> DataFrame:
            return frame.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v")).select("k", "v")

        now = job.task(live, uid="now")(lambda frame: frame.select("k", "v"))

        @job.task(past, now, uid="both")
        def both(past: DataFrame, now: DataFrame) -> DataFrame:
            rows = past.unionByName(now)
            return rows if gate is None else gate(rows, "k = 'z'")

        job.sink("out", both, rk.sinks.Parquet(world.out))
        return job

    def files_of_past(savepoint: str) -> set[str]:
        folder = Path(savepoint, layout.savepoint_subtask("", "past", 0).strip("/"))
        return {path.name for path in folder.iterdir()}

    world.add_history(rows(0, 9), rows(1, 6))
    world.add_live(rows(0, 3, keys="z"))
    handle = windows_beside_a_stream(gate).start(spark, storage=world.storage, config={"checkpoint.interval": "0"})
    gate.await_held()
    until(lambda: statuses(handle)["past"] in FLUSHED)
    savepoint = handle.savepoint(str(world.root / "savepoints"), unaligned=True).path
    handle.cancel()
    gate.open()
    handle.wait()

    assert read_manifest(open_store(savepoint), "").finished_tasks == ("past",)
    assert files_of_past(savepoint) == {"batches", "schema.json", "segments"}

    # From the savepoint, and from one of what was started from it.
    windows = Counter({(key, value): 1 for key in "abc" for value in (3, 2)})
    for start, expected in enumerate((windows + Counter({("z", 1): 3}), Counter({("y", 1): 2}))):
        world.out, place = world.root / f"again-{start}", str(world.root / f"elsewhere-{start}")
        handle = windows_beside_a_stream().start(spark, storage=place, restore=savepoint, config=QUICK)
        until(lambda: statuses(handle)["past"] == "closed")  # noqa: B023
        until(lambda: keys_and_values(world.out) == expected)  # noqa: B023
        assert not Path(place, layout.spark_progress_dir(layout.subtask("beside", "past", 0, 1))).exists()
        savepoint = handle.savepoint(str(world.root / "savepoints")).path
        assert files_of_past(savepoint) == {"schema.json"}
        world.add_live(rows(0, 2, keys="y"))
        handle.stop(drain=start > 0)
        assert handle.wait().state == ("DRAINED" if start else "STOPPED")


def has_read_all(task: object, files: int) -> bool:
    position = task.inputs["live"].position  # type: ignore[attr-defined]
    return position is not None and position["logOffset"] >= files - 1


def test_a_checkpoint_that_expires_is_given_up_and_the_next_one_has_what_it_had(
    spark: SparkSession, world: World, gate: Gate
) -> None:
    world.add_history(rows(0, 5))
    world.add_live(rows(1, 4))
    config = {**ALIGNED, "checkpoint.timeout": "1 second", "checkpoint.tolerable_failures": "1000"}
    handle = three_tasks(world, gate).start(spark, storage=world.storage, config=config)
    hold_up(world, handle, gate, files=2)

    with pytest.raises(RekindleError, match="CHECKPOINT_EXPIRED") as expired:
        handle.checkpoint()

    assert expired.value.code == "CHECKPOINT_FAILED"
    (failed,) = made(handle, "failed")
    assert failed.failure is not None and failed.failure.startswith("CHECKPOINT_EXPIRED")
    assert not committed(world.out)
    gate.open()
    until(lambda: batch(handle, "second") == batch(handle, "first"))
    assert handle.checkpoint().number > failed.id
    assert sum(keys_and_values(world.out).values()) == 4 + 3
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert sum(keys_and_values(world.out).values()) == 4 + 3


def test_periodic_checkpoints_leave_the_least_pause_between_them(spark: SparkSession, world: World) -> None:
    world.add_live(rows(1, 4))
    config = {"checkpoint.interval": "100 ms", "checkpoint.min_pause": "1500 ms"}
    handle = world.hourly(history=False).start(spark, storage=world.storage, config=config)
    for wanted in range(1, 5):  # one that would say what the last one says is left out
        until(lambda wanted=wanted: len(made(handle, "completed")) >= wanted)  # type: ignore[misc]
        world.add_live(rows(wanted, 4))
    handle.cancel()
    handle.wait()

    done = sorted(made(handle, "completed"), key=lambda one: one.id)
    for before, after in itertools.pairwise(done):
        assert before.duration_ms is not None
        ended = before.triggered_at + before.duration_ms
        # The pause is kept by one clock and shown by another, which may be set back a little meanwhile.
        assert after.triggered_at - ended >= 1500 - 100, (before, after)


def test_a_task_that_is_closed_before_it_has_acknowledged_fails_that_checkpoint_at_once(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rekindle.spark.streaming.task import SparkTask

    world.add_history(rows(0, 5))
    world.add_live(rows(1, 4))
    config = {**ALIGNED, "checkpoint.max_concurrent": "2", "checkpoint.timeout": "1 hour"}
    handle = three_tasks(world).start(spark, storage=world.storage, config=config)
    until(lambda: statuses(handle)["short"] == "waiting_for_final_checkpoint")
    silent = {"second"}
    snapshot = SparkTask.snapshot

    def unless_silent(self: SparkTask, number: int) -> object:
        return None if self.status().uid in silent else snapshot(self, number)

    monkeypatch.setattr(SparkTask, "snapshot", unless_silent)
    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(handle.checkpoint().number)
        except RekindleError as error:
            answers.append(error)

    asking = [threading.Thread(target=ask), threading.Thread(target=ask)]
    asking[0].start()
    until(lambda: [one.acknowledged[0] for one in made(handle, "in_progress")] == [2])
    silent.add("short")
    asking[1].start()
    until(lambda: len(made(handle, "in_progress")) == 2)
    silent.remove("second")
    for thread in asking:
        thread.join(300)

    (complete,) = (one for one in answers if isinstance(one, int))
    (failed,) = (one for one in answers if isinstance(one, RekindleError))
    assert "TASK_FINISHED_MEANWHILE" in str(failed)
    assert manifest_of(world, complete).tasks["short"][0].end is not None
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert sum(keys_and_values(world.root / "short").values()) == 5


def test_without_checkpoints_after_a_finish_none_is_taken_and_the_rows_are_not_called_committed(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 5))
    world.add_live(rows(1, 4))
    off = {"checkpoint.interval": "0", "checkpoint.after_tasks_finish": "false"}
    handle = three_tasks(world).start(spark, storage=world.storage, config=off)
    end_the_short_task(handle)
    world.add_live(rows(2, 6))
    until(lambda: batch(handle, "second") >= 1)
    before = keys_and_values(world.out)

    with pytest.raises(RekindleError, match="TASKS_FINISHED_FEATURE_OFF"):
        handle.checkpoint()
    with pytest.raises(RekindleError, match="TASKS_FINISHED_FEATURE_OFF"):
        handle.stop()
    until(lambda: statuses(handle)["second"] == "running")
    assert keys_and_values(world.out) == before, "no checkpoint, no commit"
    handle.cancel()
    handle.wait()

    # With them nothing of it is lost.
    handle = three_tasks(world).start(spark, storage=world.storage, config=QUICK)
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert sum(keys_and_values(world.out).values()) == 4 + 6


def test_a_stop_that_fails_after_its_savepoint_ends_the_job_and_the_savepoint_can_be_started_from(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a sink raises in ``close()`` fails nothing, so the query has to fail here."""
    close = SparkTask.close

    def does_not_close(task: SparkTask) -> None:
        close(task)
        raise OSError("the server hung up")

    monkeypatch.setattr(SparkTask, "close", does_not_close)
    job = rk.Job("closing")
    live = job.source("live", world.stream())
    job.sink("out", job.task(live, uid="same")(lambda frame: frame), rk.sinks.Parquet(world.out))
    world.add_live(rows(0, 5))
    handle = job.start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))

    with pytest.raises(RekindleError, match="the server hung up") as stop:
        handle.stop(savepoint=str(world.root / "savepoints"))

    assert stop.value.code == "STOP_FAILED_AFTER_SAVEPOINT"
    savepoint = stop.value.parameters["savepoint"]
    recorded = JobStorage(open_store(world.storage), "closing").result(1)
    assert recorded is not None
    assert (recorded.state, recorded.savepoint) == ("FAILED", savepoint)
    assert recorded.error is not None and str(savepoint) in str(recorded.error)
    assert sum(keys_and_values(world.out).values()) == 5

    monkeypatch.undo()
    again = rk.Job("closing")
    live = again.source("live", world.stream())
    again.sink("out", again.task(live, uid="same")(lambda frame: frame), rk.sinks.Parquet(world.root / "again"))
    world.add_live(rows(1, 7))
    handle = again.start(spark, storage=str(world.root / "elsewhere"), restore=str(savepoint), config=QUICK)
    until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert sum(keys_and_values(world.root / "again").values()) == 7


def test_a_task_that_has_finished_gets_no_new_producer_that_has_not(spark: SparkSession, world: World) -> None:
    def two(*, more: bool) -> rk.Job:
        job = rk.Job("two")
        history = job.source("history", world.files())
        live = job.source("live", world.stream())
        lasts = job.task(live, uid="lasts")(lambda frame: frame)
        inputs = (history, lasts) if more else (history,)
        ends = job.task(*inputs, uid="ends")(lambda frame, *others: frame)
        job.sink("ends_out", ends, rk.sinks.Parquet(world.root / "ends"))
        job.sink("lasts_out", lasts, rk.sinks.Parquet(world.out))
        return job

    world.add_history(rows(0, 5))
    world.add_live(rows(1, 4))
    handle = two(more=False).start(spark, storage=world.storage, config=QUICK)
    until(lambda: statuses(handle)["ends"] == "closed")
    handle.stop()
    result = handle.wait()
    assert result is not None

    for restore in (None, str(result.checkpoint)):
        with pytest.raises(RestoreError) as refused:
            two(more=True).start(spark, storage=world.storage, restore=restore, config=QUICK)
        assert refused.value.code == "FINISHED_BEHIND_UNFINISHED", refused.value


@pytest.mark.parametrize(("parallelism", "code"), [(1, "PARTLY_FINISHED_ALL_TO_ALL"), (2, "PARTLY_FINISHED_POINTWISE")])
def test_a_task_that_has_finished_in_part_gets_no_new_producer(
    spark: SparkSession, world: World, gate: Gate, parallelism: int, code: str
) -> None:
    def job(*, more: bool) -> rk.Job:
        made = rk.Job("parts")
        history = made.source("history", world.files())
        inputs: tuple[object, ...] = (history,)
        if more:
            late = made.source("late", rk.Files(str(world.live)))
            feeds = made.task(late, uid="feeds", parallelism=parallelism)(lambda frame: frame)
            inputs = (history, feeds)
        wide = made.task(*inputs, uid="wide", parallelism=2)(lambda frame, *others: gate(frame, "k = 'z'"))
        made.sink("wide_out", wide, rk.sinks.Parquet(world.out))
        return made

    world.add_history(rows(0, 3, keys="z"), *(rows(hour, 2) for hour in range(1, 8)))
    world.add_live(rows(0, 3))
    handle = job(more=False).start(spark, storage=world.storage, config={"checkpoint.interval": "500 ms", **ONE_FILE})
    gate.await_held()
    until(lambda: "closed" in [task.status for task in handle.status().tasks if task.uid == "wide"])
    stopping = threading.Thread(target=handle.stop)
    stopping.start()
    until(lambda: handle.status().state == "STOPPING")
    gate.open()
    stopping.join(300)
    result = handle.wait()
    assert result is not None
    assert result.state == "STOPPED"

    for restore in (None, str(result.checkpoint)):
        with pytest.raises(RestoreError) as refused:
            job(more=True).start(spark, storage=world.storage, restore=restore, config=QUICK)
        assert refused.value.code == code, refused.value
