"""A history that is computed as a batch, with a fault, or a kill, at every step of that: each row once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by
from rekindle.storage import layout
from rekindle.testing.crash import Moment, Moments
from tests.crash.kit import CONFIG, CrashWorld, persist
from tests.crash.lives import read_and_drain
from tests.crash.victim import FEW_CHECKPOINTS, Victim

BATCH = {"backlog.mode": "batch"}

MOMENTS = (
    "prelude.create/before",
    "prelude.create/after",
    "progress.write/before",
    "progress.write/after",
    "sink.prepare/before",
    "sink.prepare/after:2",
    "record.create/before",
    "record.create/after",
    "storage.delete/before",
    "storage.delete/after",
    "spark.commit/before",
    "spark.commit/after",
    "record.create/after:2",
)


@pytest.fixture
def world(tmp_path: Path) -> CrashWorld:
    return CrashWorld(tmp_path).fill()


def goes_on(spark: SparkSession, world: CrashWorld, mode: str) -> None:
    def start() -> JobHandle:
        return world.job().start(spark, storage=world.storage, config={**CONFIG, "backlog.mode": mode})

    persist(start, "DRAINED", lambda handle: read_and_drain(world, handle))
    world.check()


def is_decided(world: CrashWorld) -> bool:
    return world.documents().prelude(layout.subtask(world.name, "count", 0, 1)) is not None


def test_a_fault_at_every_step_of_it_loses_nothing(spark: SparkSession, world: CrashWorld) -> None:
    faults = Moments(map(Moment.parse, MOMENTS))
    start = heard_by(faults, world.job().start)

    persist(
        lambda: start(spark, storage=world.storage, config={**CONFIG, **BATCH}),
        "DRAINED",
        lambda handle: read_and_drain(world, handle),
    )

    world.check()
    assert not faults.waiting, "each of them was reached"
    assert is_decided(world)


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["batch", "stream"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_is_killed_in_it_is_resumed_in_either_mode(
    spark: SparkSession, world: CrashWorld, moment: str, mode: str
) -> None:
    victim = Victim(world, "--kill-at", moment, live=True, config={**FEW_CHECKPOINTS, **BATCH})
    code = victim.wait()
    assert code == -signal.SIGKILL, f"exit code {code}:\n{victim.log.read_text()[-3000:]}"

    goes_on(spark, world, mode)

    recorded = moment.partition("/")[0] in {"storage.delete", "spark.commit"} or moment.startswith(
        "record.create/after"
    )
    assert is_decided(world) == (mode == "batch" or recorded)
