"""The power fails: a driver is killed, and its disk loses any part of what was not forced; the job is run again on a
machine that was started again, and its output is compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.kit import CONFIG, CrashWorld
from tests.crash.lives import resume
from tests.crash.power import lose
from tests.crash.victim import FEW_CHECKPOINTS, Victim

JOB_FILE = Path(__file__).with_name("power_job_file.py")
SECONDS_OF_LIFE = 9

TELLING = "record.create/before:2"
"""A batch is evaluated and staged, and none of that is forced."""

MOMENTS = (
    "record.create/after",
    "record.create/after:2",
    "spark.commit/before:2",
    "end.create/after",
    "manifest.create/before:2",
    "manifest.create/after",
    "manifest.create/after:2",
    "sink.commit/after",
    "committed.create/after",
    "committed.create/after:2",
    "inbox.admit/after:2",
)


class PoweredWorld(CrashWorld):
    """The job of the crash tests in a process whose disk is listened to."""

    job_file = JOB_FILE

    def lose_power(self, seed: int) -> list[str]:
        """Lose what was not forced, and start the machine again; returns what is not as it was."""
        lost = lose(self.root / "images", (Path(self.storage), *self.outs.values()), random.Random(seed))
        for path in Path(self.storage).glob("*/runs/*.json"):
            run = json.loads(path.read_text())
            if "boot_id" in run:
                path.write_text(json.dumps({**run, "boot_id": f"before {run['boot_id']}"}))
        return lost


@pytest.fixture
def powered(tmp_path: Path) -> PoweredWorld:
    world = PoweredWorld(tmp_path)
    world.fill()
    return world


def at_a_step(
    spark: SparkSession, world: PoweredWorld, moment: str, seed: int, *, live: bool, config: Mapping[str, str] = CONFIG
) -> list[str]:
    victim = Victim(world, "--kill-at", moment, live=live, config=config)
    assert victim.wait() < 0, victim.log.read_text()[-3000:]
    assert any((world.root / "images").glob("0*")), "its disk was listened to"
    lost = world.lose_power(seed)
    resume(spark, world, live=live)
    lineage = world.documents().lineage()
    assert lineage is not None and lineage.lineage > 1, "what it had done was not trusted"
    return lost


@pytest.mark.slow
def test_a_job_that_loses_power_before_its_first_checkpoint_begins_again(
    spark: SparkSession, powered: PoweredWorld
) -> None:
    lost = at_a_step(spark, powered, TELLING, seed=1, live=False, config=FEW_CHECKPOINTS)
    assert any("/spark/" in path for path in lost)
    assert any(".rekindle/" in path for path in lost), "what the sinks have staged"


@pytest.mark.slow
def test_a_job_that_loses_power_later_continues_from_its_last_checkpoint(
    spark: SparkSession, powered: PoweredWorld
) -> None:
    at_a_step(spark, powered, "record.create/before:3", seed=1, live=True)
    lineage = powered.documents().lineage()
    assert lineage is not None and lineage.restored_checkpoint


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_survives_a_loss_of_power_at_any_step(
    spark: SparkSession, powered: PoweredWorld, moment: str, seed: int
) -> None:
    at_a_step(spark, powered, moment, seed=seed, live=False)


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(20))
def test_a_job_survives_a_loss_of_power_at_any_time(spark: SparkSession, powered: PoweredWorld, seed: int) -> None:
    chance = random.Random(seed)
    live = chance.random() < 0.5
    config = chance.choice((CONFIG, FEW_CHECKPOINTS))
    Victim(powered, live=live, config=config).kill_after(chance.random() * SECONDS_OF_LIFE)
    powered.lose_power(seed)
    resume(spark, powered, live=live)
