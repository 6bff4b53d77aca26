"""A job in a bucket lives through faults and kills as any other, and a driver that was replaced does no harm there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime.steps import heard_by
from rekindle.testing.crash import ALL_MOMENTS, Moment, Moments
from tests.crash.bucket_kit import TELLING, BucketWorld
from tests.crash.kit import CONFIG, OF_OTHERS, CrashWorld, persist
from tests.crash.lives import kill_at, overtake, read_and_drain

pytestmark = pytest.mark.crash

RARE = {*OF_OTHERS, "sink.abort", "segments.copy", "request.create", "answer.create", "reserve.create"}
"""Steps that this job does not reach by itself, or whose faults are the client's. A bucket needs no reserve."""


@pytest.fixture
def world(on_s3: None, tmp_path: Path) -> CrashWorld:
    return BucketWorld(tmp_path).fill()


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


@pytest.mark.parametrize("moment", ["manifest.create/before", "sink.commit/before", "storage.delete/before"])
@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_paused_in_a_checkpoint_changes_nothing_and_says_that_it_was_fenced(
    spark: SparkSession, world: CrashWorld, moment: str
) -> None:
    overtake(spark, world, moment)
