"""Two jobs go on from one place, side by side to their ends, and into the same folder: neither touches the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import RestoreError, SinkError
from rekindle.runtime.steps import heard_by
from tests.jobs.kit import World, rows, until

ASKED_FOR = {"checkpoint.interval": "1 hour"}
"""The only checkpoints are those that are asked for."""


def read(handle: rk.JobHandle, files: int) -> bool:
    """Whether so many files of the live stream were read, and all of the history, in a batch that the driver counts."""
    task = next(iter(handle.status().tasks), None)
    inputs = task.inputs if task is not None and task.batches else {}
    live, history = inputs.get("live"), inputs.get("history")
    return (
        live is not None
        and history is not None
        and history.ended
        and live.position is not None
        and live.position["logOffset"] >= files - 1
    )


@pytest.mark.parametrize("place", ["savepoint", "checkpoint"])
def test_two_jobs_go_on_from_one_place_side_by_side_and_neither_disturbs_the_other(
    spark: SparkSession, world: World, place: str
) -> None:
    world.add_history(rows(0, 130), rows(1, 90))
    world.add_live(rows(30, 90), rows(31, 90))
    original = world.hourly().start(spark, storage=world.storage, config=ASKED_FOR)
    until(lambda: read(original, 2))
    if place == "savepoint":
        origin = original.savepoint(str(world.root / "saves")).path
    else:
        origin = f"{world.storage}/hourly/checkpoints/{original.checkpoint().number:09d}"
    before = world.output()

    options: dict[str, Any] = {"storage": str(world.root / "other"), "restore": origin, "config": ASKED_FOR}
    with pytest.raises(SinkError) as taken:
        world.hourly().start(spark, **options)
    assert taken.value.code == "TARGET_TAKEN", "both would write the windows that are open"
    assert world.output() == before
    fork = world.hourly().start(spark, **options, allow_shared_target=True)
    world.add_live(rows(33, 90))
    until(lambda: read(original, 3) and read(fork, 3))
    fork.checkpoint()
    original.checkpoint()
    original.stop(drain=True)
    of_the_original = world.expected()
    world.add_live(rows(35, 90))
    until(lambda: read(fork, 4))
    fork.stop(drain=True)

    assert (original.wait().state, fork.wait().state) == ("DRAINED", "DRAINED")
    assert world.output() == of_the_original + (world.expected() - before)


def test_a_copy_that_begins_when_its_original_is_drained_is_refused_and_into_another_target_no_row_comes_twice(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 130))
    world.add_live(rows(30, 90))
    original = world.hourly().start(spark, storage=world.storage, config=ASKED_FOR)
    until(lambda: read(original, 1))
    saved = original.savepoint(str(world.root / "saves")).path
    before = world.output()
    original.stop(drain=True)
    assert original.wait().state == "DRAINED"
    drained = world.output()
    assert drained == world.expected() and drained - before, "windows were open in the savepoint"

    options: dict[str, Any] = {"storage": str(world.root / "other"), "restore": saved, "config": ASKED_FOR}
    with pytest.raises(SinkError) as taken:
        world.hourly().start(spark, **options)
    assert taken.value.code == "TARGET_TAKEN"
    assert world.output() == drained

    first, world.out = world.out, world.root / "try"
    copy = world.hourly().start(spark, **options)
    copy.stop(drain=True)
    assert copy.wait().state == "DRAINED"
    assert world.output() == drained - before
    world.out = first
    assert world.output() == drained


def test_a_fork_from_a_checkpoint_that_is_deleted_while_it_is_copied_is_refused_with_the_reason(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 130))
    world.add_live(rows(30, 90))
    # No checkpoint is taken but those asked for here: none replaces the origin before it is read.
    asked_for = ASKED_FOR | {"checkpoint.retained": "1"}
    original = world.hourly().start(spark, storage=world.storage, config=asked_for)
    until(lambda: read(original, 1))
    origin = Path(f"{world.storage}/hourly/checkpoints/{original.checkpoint().number:09d}")
    held_up = []

    def outlive(step: str) -> None:
        if step == "progress.write/before" and not held_up:
            held_up.append(step)
            world.add_live(rows(32, 60), rows(33, 60), rows(34, 60))
            until(lambda: original.checkpoint().number and not origin.exists())

    other = str(world.root / "other")
    with pytest.raises(RestoreError) as refused:
        heard_by(outlive, world.hourly().start)(spark, storage=other, restore=str(origin), config=ASKED_FOR)
    assert refused.value.code == "CHECKPOINT_REPLACED"

    # What was refused has left nothing behind that anybody goes on from.
    saved = original.savepoint(other).path
    fork = world.hourly().start(spark, storage=other, restore=saved, config=ASKED_FOR, allow_shared_target=True)
    for handle in (fork, original):
        handle.stop(drain=True)
        assert handle.wait().state == "DRAINED"
