"""The power fails: a driver is killed, and its disk loses any part of what was not forced; the job is run on, and its
output is compared.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.kit import CrashWorld
from tests.crash.lives import resume
from tests.crash.power import lose
from tests.crash.victim import Victim

JOB_FILE = Path(__file__).with_name("power_job_file.py")
SECONDS_OF_LIFE = 9

TELLING = "record.create/before:2"
"""A batch is evaluated and staged, and none of that is forced."""

MOMENTS = (
    "record.create/after",
    TELLING,
    "record.create/after:2",
    "spark.commit/before:2",
    "end.create/after",
    "manifest.create/after",
    "sink.commit/after",
    "committed.create/after",
    "inbox.admit/after:2",
)


@pytest.fixture
def powered(world: CrashWorld) -> CrashWorld:
    world.job_file = JOB_FILE  # type: ignore[misc]
    return world


def lose_power(world: CrashWorld, seed: int) -> list[str]:
    return lose(world.root / "images", (Path(world.storage), *world.outs.values()), random.Random(seed))


@pytest.mark.slow
def test_a_job_survives_a_loss_of_power_at_a_telling_step(spark: SparkSession, powered: CrashWorld) -> None:
    lost = at_a_step(spark, powered, TELLING, seed=1)
    assert any("/spark/" in path for path in lost)


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_survives_a_loss_of_power_at_any_step(
    spark: SparkSession, powered: CrashWorld, moment: str, seed: int
) -> None:
    at_a_step(spark, powered, moment, seed=seed)


def at_a_step(spark: SparkSession, world: CrashWorld, moment: str, seed: int) -> list[str]:
    victim = Victim(world, "--kill-at", moment, live=False)
    assert victim.wait() < 0, victim.log.read_text()[-3000:]
    assert any((world.root / "images").glob("0*")), "its disk was listened to"
    lost = lose_power(world, seed)
    resume(spark, world, live=False)
    return lost


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(20))
def test_a_job_survives_a_loss_of_power_at_any_time(spark: SparkSession, powered: CrashWorld, seed: int) -> None:
    chance = random.Random(seed)
    live = chance.random() < 0.5
    Victim(powered, live=live).kill_after(chance.random() * SECONDS_OF_LIFE)
    lose_power(powered, seed)
    resume(spark, powered, live=live)
