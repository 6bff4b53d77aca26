"""What a broken job goes through until its end, whichever job it is: faults in this process, kills of another one."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rekindle.errors import ControlError, RekindleError
from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by
from rekindle.testing.crash import ALL_MOMENTS, Moment, Moments
from tests.crash.kit import CONFIG, BrokenWorld, persist
from tests.crash.victim import FEW_CHECKPOINTS, Victim
from tests.jobs.kit import until

FENCED = "DRIVER_FENCED"


def faults_of(when: str, nth: int, never: Collection[str]) -> Moments:
    """A fault at every step but those of `never`."""
    return Moments(
        Moment(moment.step, when, nth) for moment in ALL_MOMENTS if moment.when == when and moment.step not in never
    )


def run_to_its_end(spark: SparkSession, world: BrokenWorld, faults: Moments, config: Mapping[str, str]) -> None:
    """Without a live stream."""
    persist(
        lambda: heard_by(faults, world.job(live=False).start)(spark, storage=world.storage, config=config), "FINISHED"
    )
    world.check(live=False)


def stop_move_and_drain(
    spark: SparkSession, world: BrokenWorld, faults: Moments, config: Mapping[str, str], *, unaligned: bool = False
) -> None:
    """Stopped with a savepoint, resumed and drained; and in another storage, from the savepoint, drained as well.

    Args:
        unaligned: take another savepoint before, an unaligned one.
    """
    elsewhere, savepoints = str(world.root / "elsewhere"), str(world.root / "savepoints")

    def start() -> JobHandle:
        return heard_by(faults, world.job().start)(spark, storage=world.storage, config=config)

    def save_and_stop(handle: JobHandle) -> None:
        world.read_all(handle)
        if unaligned:
            handle.savepoint(savepoints, unaligned=True)
        handle.stop(savepoint=savepoints)

    def drain(handle: JobHandle) -> None:
        handle.stop(drain=True)

    savepoint = persist(start, "STOPPED", save_and_stop).savepoint
    before = world.outputs()
    persist(start, "DRAINED", drain)
    world.check()

    for folder in world.outs.values():
        shutil.rmtree(folder)

    def start_elsewhere() -> JobHandle:
        # Once a run is claimed, its restore is carried through without being asked for again.
        begun = world.documents(elsewhere).latest_run() is not None
        restore = None if begun else savepoint
        return heard_by(faults, world.job().start)(spark, storage=elsewhere, restore=restore, config=config)

    persist(start_elsewhere, "DRAINED", drain)
    world.check(already=before)


def read_and_drain(world: BrokenWorld, handle: JobHandle) -> None:
    """Drain once everything has been read."""
    world.read_all(handle)
    handle.stop(drain=True)


def kill_at(spark: SparkSession, world: BrokenWorld, moment: Moment, *, live: bool, **how: bool) -> str:
    """Kill a driver there, run the job on; returns what came of it, in a few words.

    Args:
        live: with a live stream.
        how: what else of the driver is as it seldom is, see `Victim`.
    """
    victim = Victim(world, "--kill-at", str(moment), live=live, **how)
    code = victim.wait()
    assert code == -signal.SIGKILL, f"exit code {code}:\n{victim.log.read_text()[-3000:]}"
    return resume(spark, world, live=live)


def kill_engine_at(spark: SparkSession, world: BrokenWorld, moment: Moment, *, live: bool, **how: bool) -> str:
    """Kill the JVM there, and not its driver, which goes on with another; returns what came of it, in a few words."""
    victim = Victim(world, "--kill-engine-at", str(moment), live=live, **how)
    code, log = victim.wait(), victim.log.read_text()
    if code == 1 and "[SPARK_DIED]" in log:
        return f"{resume(spark, world, live=live)}: it had not started yet"
    assert code == 0, f"exit code {code}:\n{log[-3000:]}"
    world.check(live=live)
    run = world.documents().latest_run()
    assert run is not None
    return f"exact, run {run.run}"


def kill_after(spark: SparkSession, world: BrokenWorld, seconds: float, *, live: bool) -> str:
    """Kill a driver so long after its job has begun, run the job on; returns what came of it."""
    ran = Victim(world, live=live).kill_after(seconds)
    outcome = resume(spark, world, live=live)
    return outcome if ran else f"it had ended; {outcome}"


def freeze_after(spark: SparkSession, world: BrokenWorld, chance: random.Random) -> str:
    """Suspend a driver at any moment, overtake it, and wake it while the other runs or later; returns what came of it.

    Its JVM is suspended with it, or goes on without it: then Spark may plan a batch that no one has asked it for.
    """
    with_engine, wakes = (
        chance.random() < 0.5,
        chance.choice(("while the other runs", "between two runs", "at the end")),
    )
    victim = Victim(world, live=True)
    ran = victim.freeze_after(chance.uniform(0, 4), with_engine=with_engine)

    def start() -> JobHandle:
        return world.job().start(spark, storage=world.storage, config=CONFIG)

    def wake(moment: str) -> None:
        if wakes == moment:
            victim.wake()

    try:
        if wakes != "at the end":
            other = start()
            until(lambda: other.wait(0) is not None or bool(other.status().tasks))
            time.sleep(chance.uniform(0, 2))
            wake("while the other runs")
            end(other)
            wake("between two runs")
        persist(start, "DRAINED", lambda handle: read_and_drain(world, handle))
        wake("at the end")
        code = victim.wait()
    finally:
        if victim.lives():
            victim.kill()
    log = victim.log.read_text()
    assert code == 0 or FENCED in log or "JOB_NOT_RUNNING" in log, f"exit code {code}:\n{log[-3000:]}"
    world.check()
    frozen = ("frozen with its JVM" if with_engine else "frozen, its JVM not") if ran else "it had ended"
    return f"exact, {frozen}, woken {wakes}, exit code {code}"


def end(handle: JobHandle) -> None:
    """Stop a job, unless it has been fenced or has ended meanwhile."""
    with contextlib.suppress(RekindleError):
        handle.stop()
        handle.wait(60)


def resume(spark: SparkSession, world: BrokenWorld, *, live: bool) -> str:
    """Run the job on to its end, in this process; returns in how many runs, and how, it has ended."""
    end = "DRAINED" if live else "FINISHED"
    then = (lambda handle: read_and_drain(world, handle)) if live else JobHandle.wait
    persist(lambda: world.job(live=live).start(spark, storage=world.storage, config=FEW_CHECKPOINTS), end, then)
    world.check(live=live)
    run = world.documents().latest_run()
    assert run is not None
    return f"exact, run {run.run}"


class Paused:
    """A driver of this process one thread of which is paused at a moment."""

    def __init__(self, moment: str) -> None:
        self._reached = threading.Event()
        self._wake = threading.Event()
        self.steps = Moments([Moment.parse(moment)], self._pause)

    def _pause(self, name: str) -> None:
        self._reached.set()
        assert self._wake.wait(120), "nobody has woken it"

    def __enter__(self) -> None:
        assert self._reached.wait(120), "the moment has not come"

    def __exit__(self, *_: object) -> None:
        self._wake.set()


def overtake(spark: SparkSession, world: BrokenWorld, moment: str) -> None:
    """A driver is paused at `moment` and thought dead; another goes on and stops; then the first one wakes up."""

    def start(**options: Any) -> JobHandle:
        return world.job().start(spark, storage=world.storage, config=CONFIG, **options)

    paused = Paused(moment)
    old = heard_by(paused.steps, start)()
    with paused:
        persist(start, "STOPPED", lambda handle: (world.read_all(handle), handle.stop()))

    with pytest.raises(ControlError, match=FENCED):
        old.wait(120)
    persist(start, "DRAINED", lambda handle: read_and_drain(world, handle))
    world.check()
