"""A job in a bucket lives through faults and kills as any other, and a driver that was replaced does no harm there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime.steps import heard_by
from rekindle.testing.crash import ALL_MOMENTS, Moment, Moments
from tests.crash.bucket_kit import TELLING, BucketWorld, StatelessWorld
from tests.crash.kit import CONFIG, OF_OTHERS, CrashWorld, persist
from tests.crash.lives import kill_at, overtake, read_and_drain

pytestmark = pytest.mark.crash

RARE = {*OF_OTHERS, "sink.abort", "segments.copy", "request.create", "answer.create", "reserve.create"}
"""Steps that this job does not reach by itself, or whose faults are the client's. A bucket needs no reserve."""

SHORT = "FileSystemBasedCheckpointFileManager"
"""What writes the files of a query without state in a bucket of S3."""


@pytest.fixture
def world(on_s3: None, tmp_path: Path) -> CrashWorld:
    return BucketWorld(tmp_path).fill()


@pytest.fixture
def stateless(on_s3: None, tmp_path: Path) -> StatelessWorld:
    world = StatelessWorld(tmp_path)
    world.fill()
    return world


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, text: str
) -> None:
    kill_at(spark, world, Moment.parse(text), live=False)


def test_a_history_and_a_live_stream_arrive_exactly_through_a_fault_at_every_step(
    spark: SparkSession, world: CrashWorld
) -> None:
    faults = Moments([moment for moment in ALL_MOMENTS if moment.step not in RARE])
    persist(
        lambda: heard_by(faults, world.job().start)(spark, storage=world.storage, config=CONFIG),
        "DRAINED",
        lambda handle: read_and_drain(world, handle),
    )
    world.check()
    assert not faults.waiting


@pytest.mark.parametrize(
    "text", ["record.create/before", "record.create/after:2", "spark.commit/before:2", "spark.commit/after:2"]
)
def test_a_driver_of_a_job_without_state_killed_between_sparks_own_writes_is_resumed_without_loss(
    spark: SparkSession, stateless: StatelessWorld, text: str
) -> None:
    kill_at(spark, stateless, Moment.parse(text), live=True)
    assert stateless.managers <= {SHORT}, "none where the killed driver had recorded all batches"


def test_a_job_without_state_arrives_exactly_through_a_fault_at_every_step(
    spark: SparkSession, stateless: StatelessWorld
) -> None:
    faults = Moments([moment for moment in ALL_MOMENTS if moment.step not in {*RARE, "progress.write"}])
    persist(
        lambda: heard_by(faults, stateless.job().start)(spark, storage=stateless.storage, config=CONFIG),
        "DRAINED",
        lambda handle: read_and_drain(stateless, handle),
    )
    stateless.check()
    assert not faults.waiting
    assert stateless.managers == {SHORT}


@pytest.mark.parametrize("moment", ["manifest.create/before", "sink.commit/before", "storage.delete/before"])
@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_paused_in_a_checkpoint_changes_nothing_and_says_that_it_was_fenced(
    spark: SparkSession, world: CrashWorld, moment: str
) -> None:
    overtake(spark, world, moment)


@pytest.mark.parametrize("moment", ["manifest.create/before", "sink.commit/before"])
@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_of_a_job_without_state_changes_nothing_while_its_query_runs_beside_another(
    spark: SparkSession, stateless: StatelessWorld, moment: str
) -> None:
    overtake(spark, stateless, moment)
    assert stateless.managers == {SHORT}
