"""A job on Azure, Google or HDFS lives through kills, and a driver that was replaced there does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.testing.crash import Moment
from tests.crash.bucket_kit import TELLING, BucketWorld
from tests.crash.kit import CrashWorld
from tests.crash.lives import kill_at, overtake

pytestmark = pytest.mark.crash


@pytest.fixture(params=["on_azure", "on_google", "on_hdfs"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> CrashWorld:
    request.getfixturevalue(request.param)
    return BucketWorld(tmp_path).fill()


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: CrashWorld, text: str
) -> None:
    kill_at(spark, world, Moment.parse(text), live=False)


@pytest.mark.parametrize("moment", ["manifest.create/before", "sink.commit/before"])
@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_paused_in_a_checkpoint_changes_nothing_and_says_that_it_was_fenced(
    spark: SparkSession, world: CrashWorld, moment: str
) -> None:
    overtake(spark, world, moment)
