"""A custom source with a fault, or a kill, at every step of a read: each row once, and little is asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime.steps import heard_by
from rekindle.testing.crash import WHEN, Moment, Moments
from tests.crash.custom_kit import SUBTASKS, CustomWorld
from tests.crash.kit import CONFIG, persist
from tests.crash.lives import kill_at

STEPS = ("splits.give", "segments.write", "read.create", "inbox.admit", "record.create")

NOT_DURABLE = {("segments.write", "before"), ("segments.write", "after"), ("read.create", "before")}
"""What a fault takes back of a read: it is asked for again."""


@pytest.fixture
def world(tmp_path: Path) -> CustomWorld:
    return CustomWorld(tmp_path)


@pytest.mark.slow
def test_a_fault_at_every_step_of_a_read_repeats_no_more_than_what_was_not_durable(
    spark: SparkSession, world: CustomWorld
) -> None:
    faults = Moments(Moment(step, when, 2 if step == "inbox.admit" else 1) for step in STEPS for when in WHEN)
    start = heard_by(faults, world.job().start)

    persist(lambda: start(spark, storage=world.storage, config=CONFIG), "FINISHED")

    world.check()
    assert not faults.waiting, "each of them was reached"
    # A fault takes a read back, and those that other subtasks are at while their driver ends.
    assert world.asked_again() <= len(NOT_DURABLE) * SUBTASKS


@pytest.mark.crash
@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("moment", [f"{step}/{when}" for step in STEPS for when in WHEN])
def test_a_driver_that_is_killed_in_a_read_is_resumed_without_loss(
    spark: SparkSession, world: CustomWorld, moment: str, nth: int
) -> None:
    step, when = moment.split("/")
    if step == "splits.give":
        nth = 1  # there is one of them
    kill_at(spark, world, Moment(step, when, nth), live=False)
    # One that dies takes back at most the read that each subtask is at.
    assert world.asked_again() <= SUBTASKS
