"""Subtasks that share a source and channels, with a fault at every durable step; then run on, and compared.

As `test_pipeline_faults` does it; the second life goes on with other subtasks than the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by
from rekindle.testing.crash import WHEN, Moment
from tests.crash.kit import CONFIG, persist
from tests.crash.lives import faults_of, kill_at
from tests.crash.parallel_kit import FILES, ParallelWorld
from tests.crash.pipeline_kit import SMALL_BATCHES
from tests.crash.report import Report
from tests.crash.test_pipeline_faults import NOT_IN_THESE_LIVES, ONLY_WHERE_IT_IS_STOPPED
from tests.jobs.kit import until

NOT_ALWAYS = {"segment.copy", "mark.write", "mark.admit"}
"""Whether something is in flight when it is stopped is left open; no task here has a second input to hold back."""

MOMENTS = tuple(
    Moment(step, when, 2)
    for step in ("split.assign", "inbox.admit", "segment.write", "record.create", "end.create")
    for when in WHEN
)

MANY_BATCHES = {**CONFIG, **SMALL_BATCHES}


@pytest.fixture
def world(tmp_path: Path, one_file_a_batch: None) -> ParallelWorld:
    return ParallelWorld(tmp_path).fill()


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    with Report("parallel", MOMENTS).written() as report:
        yield report


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_parallel_subtasks_live_through_a_fault_at_every_step_and_through_a_change_of_their_number(
    spark: SparkSession, world: ParallelWorld, when: str
) -> None:
    faults = faults_of(when, 1, NOT_IN_THESE_LIVES - {"split.assign", "segment.copy"})

    def start(clean: int, shape: int, **options: str) -> JobHandle:
        return heard_by(faults, world.parallel(clean, shape).start)(
            spark, storage=world.storage, config=MANY_BATCHES, **options
        )

    def read_some_and_stop(handle: JobHandle) -> None:
        until(lambda: handle.wait(0) is not None or some_is_read(handle))
        handle.stop()

    def start_otherwise() -> JobHandle:
        documents = world.documents()
        run, lineage, newest = documents.latest_run(), documents.lineage(), documents.newest_manifest()
        assert run is not None and lineage is not None and newest is not None
        # Once a run is claimed, its restore is carried through without being asked for again.
        begun = run.restore_from is not None or lineage.restored_from is not None
        return start(2, 3) if begun else start(2, 3, restore=str(newest.checkpoint))

    persist(lambda: start(3, 2), "STOPPED", read_some_and_stop)
    persist(start_otherwise, "FINISHED")

    world.check()
    assert {uid: len(found) for uid, found in world.manifest().tasks.items()} == {"clean": 2, "shape": 3, "hourly": 1}
    assert {moment.step for moment in faults.waiting} <= ONLY_WHERE_IT_IS_STOPPED | NOT_ALWAYS


@pytest.mark.crash
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_driver_of_parallel_subtasks_killed_at_a_step_is_resumed_without_loss(
    spark: SparkSession, world: ParallelWorld, moment: Moment, report: Report
) -> None:
    report.at(moment, lambda: kill_at(spark, world, moment, live=False))


def some_is_read(handle: JobHandle) -> bool:
    read = [one.inputs["history"].position for one in handle.status().tasks if "history" in one.inputs]
    return sum(position["files"] for position in read if position) >= FILES // 4
