"""A job that has tasks more, or fewer, than it had goes on from its last checkpoint, and nothing is lost by it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import JobError, RestoreError
from rekindle.runtime.steps import heard_by
from tests.jobs.kit import QUICK, World, committed, failing_at, rows, until

KEPT = {**QUICK, "checkpoint.retained": "1", "restart.attempts": "0"}


def job(world: World, *uids: str) -> rk.Job:
    """A live stream → `read` → a task for each of `uids`, which has a sink; `own` reads the history instead."""
    made = rk.Job("tasks")
    read = made.task(made.source("live", world.stream()), uid="read")(lambda frame: frame)
    for uid in uids:
        reads = made.source("history", world.files()) if uid == "own" else read
        task = made.task(reads, uid=uid, parallelism=2 if uid == "own" else 1)(lambda frame: frame)
        made.sink(f"{uid}_out", task, rk.sinks.Parquet(world.root / uid))
    return made


def keyed(world: World, keys: str) -> None:
    """A file of the live stream for each key."""
    world.add_live(*(rows(0, 10, keys=key) for key in keys))


def written(world: World, uid: str) -> Counter[str]:
    """Key → rows that a task has written."""
    return Counter(row["k"] for row in committed(world.root / uid))


def each(keys: str) -> Counter[str]:
    """All rows of the files with these keys, once."""
    return Counter(dict.fromkeys(keys, 10))


def runs(spark: SparkSession, world: World, made: rk.Job, keys: str, **start: Any) -> None:
    """Run it until those that read the stream have written up to the last of `keys`, then stop it."""
    readers = [task.uid for task in made._tasks if task.uid not in ("read", "own")]
    handle = made.start(spark, storage=world.storage, config=KEPT, **start)
    until(lambda: all(written(world, uid)[keys[-1]] for uid in readers))
    handle.stop()
    assert handle.wait().state == "STOPPED"


def refused(spark: SparkSession, world: World, made: rk.Job, code: str, **start: Any) -> str:
    with pytest.raises(RestoreError) as caught:
        made.start(spark, storage=world.storage, config=KEPT, **start)
    assert caught.value.code == code
    return str(caught.value)


def test_a_task_that_was_dropped_does_not_come_back_as_if_it_had_been_there(spark: SparkSession, world: World) -> None:
    keyed(world, "a")
    runs(spark, world, job(world, "early", "late"), "a")
    assert "late" in refused(spark, world, job(world, "early"), "STATE_NOT_RESTORED")

    said = job(world, "early").check(storage=world.storage, allow_non_restored_state=True)
    assert said.beginning == "restores"
    assert {task.uid: task.fate for task in said.tasks} == {"read": "resumes", "early": "resumes", "late": "dropped"}

    keyed(world, "bcd")
    runs(spark, world, job(world, "early"), "d", allow_non_restored_state=True)
    keyed(world, "efg")
    runs(spark, world, job(world, "early"), "g")  # allowed once: this is the job now
    assert not list((world.root / "storage/tasks/tasks/late").glob("*/*")), "what nobody needs is not kept"

    said = job(world, "early", "late").check(storage=world.storage)
    assert [(one.uid, one.what) for one in said.graph if one.uid == "late"] == [("late", "is new and reads read")]
    keyed(world, "h")
    runs(spark, world, job(world, "early", "late"), "h")
    assert written(world, "early") == each("abcdefgh")
    assert written(world, "late") == each("ah"), "it is new: what was written while it was gone is not kept"


def test_a_task_that_was_added_is_known_from_then_on_and_what_ran_goes_on(spark: SparkSession, world: World) -> None:
    keyed(world, "ab")
    runs(spark, world, job(world, "early"), "b")
    world.add_history(rows(0, 10, keys="x"), rows(1, 10, keys="y"))
    keyed(world, "c")
    runs(spark, world, job(world, "early", "own"), "c")
    assert "own" in refused(spark, world, job(world, "early"), "STATE_NOT_RESTORED")

    handle = job(world, "early", "own").start(spark, storage=world.storage, config=KEPT)
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert (written(world, "early"), written(world, "own")) == (each("abc"), each("xy"))


def test_behind_a_crash_nothing_is_lost_or_twice_when_a_task_is_dropped(spark: SparkSession, world: World) -> None:
    keyed(world, "abc")
    dies = failing_at("sink.commit/before")

    def dies_with_rows_of_both(name: str) -> None:
        manifests = (world.root / "storage/tasks/checkpoints").glob("*/manifest.json")
        if any("late_out" in json.loads(one.read_text())["transactions"] for one in manifests):
            dies(name)

    handle = heard_by(dies_with_rows_of_both, job(world, "early", "late").start)(
        spark, storage=world.storage, config=KEPT
    )
    assert handle.wait().state == "FAILED"
    said = refused(spark, world, job(world, "early"), "SINK_UNSETTLED", allow_non_restored_state=True)
    assert "Rows are prepared for sink 'late_out'" in said and "the sink is gone" in said

    runs(spark, world, job(world, "early", "late"), "c")
    keyed(world, "d")
    runs(spark, world, job(world, "early"), "d", allow_non_restored_state=True)
    assert (written(world, "early"), written(world, "late")) == (each("abcd"), each("abc"))


def test_without_a_checkpoint_there_is_nothing_to_go_on_from_with_other_tasks(
    spark: SparkSession, world: World
) -> None:
    keyed(world, "a")
    dies = failing_at("manifest.create/before")
    handle = heard_by(dies, job(world, "early", "late").start)(spark, storage=world.storage, config=KEPT)
    with pytest.raises(JobError, match=r"DRIVER_FAILED.*injected"):
        handle.wait()
    said = refused(spark, world, job(world, "early", "own"), "TASKS_CHANGED", allow_non_restored_state=True)
    assert "own is new; late is gone" in said

    runs(spark, world, job(world, "early", "late"), "a")
    assert (written(world, "early"), written(world, "late")) == (each("a"), each("a"))


def test_a_batch_run_that_failed_is_not_run_on_with_other_tasks(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 10))

    def batch(*uids: str) -> rk.Job:
        made = rk.Job("tasks")
        history = made.source("history", world.files())
        for uid in uids:
            made.sink(
                f"{uid}_out", made.task(history, uid=uid)(lambda frame: frame), rk.sinks.Parquet(world.root / uid)
            )
        return made

    start = {"storage": world.storage, "mode": "batch"}
    with pytest.raises(JobError, match=r"DRIVER_FAILED.*injected"):
        heard_by(failing_at("manifest.create/before"), batch("early", "late").start)(spark, **start).wait()
    with pytest.raises(RestoreError, match=r"TASKS_CHANGED.*late is gone"):
        batch("early").start(spark, **start, allow_non_restored_state=True).wait()

    assert batch("early", "late").start(spark, **start).wait().state == "FINISHED"
    assert len(committed(world.root / "early")) == len(committed(world.root / "late")) == 10
