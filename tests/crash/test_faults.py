"""A fault at every durable step, before it and after it, in this process: the job is run on, and nothing shows.

One storage lives through all the faults of a test, one after the other: each moment fails once, the job (or the task,
by its own restart) is started again, gets as far as the next one, and so on to its end. `test_kills` takes them one by
one.
"""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import SparkSession

from rekindle.job import JobHandle
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.testing.crash import ALL_MOMENTS, Moment, Moments
from tests.crash.kit import CONFIG, OF_PIPELINES, CrashWorld, persist, read_all

NOT_IN_THESE_LIVES = {"sink.abort", *OF_PIPELINES}
"""Another driver has to be quicker for that: `test_rivals`. For the others see `test_pipeline_faults`."""


def faults_of(when: str, nth: int) -> Moments:
    return Moments(
        Moment(moment.step, when, nth)
        for moment in ALL_MOMENTS
        if moment.when == when and moment.step not in NOT_IN_THESE_LIVES
    )


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_ends_by_itself_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: CrashWorld, when: str, nth: int
) -> None:
    faults = faults_of(when, nth)

    persist(lambda: world.job(live=False).start(spark, storage=world.storage, config=CONFIG, steps=faults), "FINISHED")

    world.check(live=False)
    if nth == 1:
        assert {moment.step for moment in faults.waiting} <= {
            "answer.create",
            "drain.create",
            "mark.admit",
            "mark.write",
            "request.create",
            "segments.copy",
        }


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_is_stopped_moved_and_drained_lives_through_a_fault_at_every_step(
    spark: SparkSession, world: CrashWorld, when: str, nth: int
) -> None:
    faults = faults_of(when, nth)
    elsewhere = str(world.root / "elsewhere")

    def start() -> JobHandle:
        return world.job().start(spark, storage=world.storage, config=CONFIG, steps=faults)

    def save_and_stop(handle: JobHandle) -> None:
        read_all(handle)
        handle.stop(savepoint=str(world.root / "savepoints"))

    def drain(handle: JobHandle) -> None:
        handle.stop(drain=True)

    savepoint = persist(start, "STOPPED", save_and_stop).savepoint
    before = world.outputs()
    persist(start, "DRAINED", drain)
    world.check()

    for folder in (world.out, world.second):
        shutil.rmtree(folder)

    def start_elsewhere() -> JobHandle:
        # Once a run is claimed, its restore is carried through without being asked for again.
        begun = JobStorage(open_store(elsewhere), "crash").latest_run() is not None
        restore = None if begun else savepoint
        return world.job().start(spark, storage=elsewhere, restore=restore, config=CONFIG, steps=faults)

    persist(start_elsewhere, "DRAINED", drain)
    expected = world.expected()
    for found, already in zip(world.outputs(), before, strict=True):
        assert found + already == expected
    if nth == 1:
        assert not faults.waiting, "these were never reached"
