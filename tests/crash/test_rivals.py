"""A driver that was thought dead wakes up after another has taken over: what it still does is harmless."""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.errors import ControlError, RekindleError
from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by
from rekindle.testing.crash import Moment, Moments, StepFailedError
from tests.crash.kit import CONFIG, CrashWorld, persist
from tests.crash.lives import FENCED, Paused, freeze_after, overtake, read_and_drain
from tests.crash.victim import FEW_CHECKPOINTS, Victim


@pytest.mark.parametrize(
    "moment",
    [
        "manifest.create/before",
        "storage.delete/before",
        *(pytest.param(f"{step}/before", marks=pytest.mark.crash) for step in ("sink.commit", "committed.create")),
    ],
)
@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_paused_in_a_checkpoint_changes_nothing_and_says_that_it_was_fenced(
    spark: SparkSession, world: CrashWorld, moment: str
) -> None:
    overtake(spark, world, moment)


@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_paused_before_it_cleans_leaves_what_its_successor_needs(
    spark: SparkSession, world: CrashWorld
) -> None:
    def start(**options) -> JobHandle:
        return world.job().start(spark, storage=world.storage, config=CONFIG, **options)

    # A first run leaves staged rows that no record names.
    failing = {**CONFIG, "restart.attempts": "0"}
    first = heard_by(Moments([Moment("sink.prepare", "after")]), world.job().start)(
        spark, storage=world.storage, config=failing
    )
    result = first.wait()
    assert result is not None and result.state == "FAILED"

    paused, started = Paused("sink.clean/before"), []
    starting = threading.Thread(target=lambda: started.append(heard_by(paused.steps, start)()))
    starting.start()
    with paused:
        persist(start, "STOPPED", lambda handle: (world.read_all(handle), handle.stop()))
    starting.join(300)

    with pytest.raises(ControlError, match=FENCED):
        started[0].wait(60)
    persist(start, "DRAINED", lambda handle: read_and_drain(world, handle))
    world.check()
    assert not [*world.out.glob(".rekindle/*/*/0*")], "what the first run has left is cleaned in the end"


@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_paused_before_its_result_may_still_tell_it(spark: SparkSession, world: CrashWorld) -> None:
    def start(**options) -> JobHandle:
        return world.job().start(spark, storage=world.storage, config=CONFIG, **options)

    paused = Paused("result.create/before")
    old = heard_by(paused.steps, start)()

    def stop() -> None:
        with contextlib.suppress(RekindleError):
            world.read_all(old)
            old.stop()

    asking = threading.Thread(target=stop)
    asking.start()
    with paused:
        persist(start, "STOPPED", lambda handle: (world.read_all(handle), handle.stop()))
    asking.join(300)

    # It had come to its end before the other began, and only the word of it was missing.
    result = old.wait(60)
    assert result is not None and result.state == "STOPPED"
    persist(start, "DRAINED", lambda handle: read_and_drain(world, handle))
    world.check()


@pytest.mark.parametrize(
    "moment",
    [
        "record.create/before",
        *(pytest.param(f"{step}/before", marks=pytest.mark.crash) for step in ("inbox.admit", "manifest.create")),
    ],
)
@pytest.mark.usefixtures("thought_dead")
def test_a_process_that_was_suspended_and_wakes_up_changes_nothing_and_says_that_it_was_fenced(
    spark: SparkSession, world: CrashWorld, moment: str
) -> None:
    def start() -> JobHandle:
        return world.job(live=False).start(spark, storage=world.storage, config=CONFIG)

    old = Victim(world, "--pause-at", moment, live=False)
    old.wait_until_paused()
    persist(start, "FINISHED")

    old.wake()

    assert old.wait() == 1
    assert FENCED in old.log.read_text()
    world.check(live=False)


@pytest.mark.usefixtures("thought_dead")
def test_what_a_suspended_process_had_staged_is_kept_and_counts_if_its_record_is_the_first(
    spark: SparkSession, world: CrashWorld
) -> None:
    old = Victim(world, "--pause-at", "record.create/before:2", live=False)
    old.wait_until_paused()
    paused = Paused("sink.prepare/before")
    new = heard_by(paused.steps, world.job(live=False).start)(spark, storage=world.storage, config=FEW_CHECKPOINTS)
    with paused:
        old.wake()
        assert old.wait() == 1
    result = new.wait(60)

    assert result is not None and result.state == "FINISHED", result
    assert paused.steps.reached["sink.abort/after"], "it was the old one's record that stood"
    world.check(live=False)


@pytest.mark.crash  # most of a minute, and its processes race on a busy machine
@pytest.mark.usefixtures("thought_dead")
def test_a_record_that_comes_after_its_batch_was_held_back_by_a_stop_is_the_one_that_counts(
    spark: SparkSession, world: CrashWorld
) -> None:
    def start(**options) -> JobHandle:
        return world.job().start(spark, storage=world.storage, config=FEW_CHECKPOINTS, **options)

    def fail_each_batch(name: str) -> None:
        if name == "sink.prepare/before":
            raise StepFailedError(name)

    old = Victim(world, "--pause-at", "record.create/before", live=True)
    old.wait_until_paused()
    new = heard_by(fail_each_batch, start)()
    new.stop()
    result = new.wait(60)
    assert result is not None and result.state == "STOPPED"
    assert [*Path(world.storage).rglob("offsets/0")], "it keeps the plan of the batch that the old one is at"

    old.wake()
    assert old.wait() == 1

    persist(start, "DRAINED", lambda handle: read_and_drain(world, handle))
    world.check()


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("thought_dead")
def test_a_driver_that_is_frozen_at_any_moment_and_wakes_late_loses_nothing_and_doubles_nothing(
    spark: SparkSession, world: CrashWorld, seed: int
) -> None:
    print(freeze_after(spark, world, random.Random(seed)))  # shown by -rP
