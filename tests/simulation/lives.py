"""Lives from seeds."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from rekindle.errors import RekindleError
from rekindle.history import log
from rekindle.history.log import EVENTS
from rekindle.runtime.client import ControlRequest
from rekindle.storage.documents.runs import Result
from rekindle.storage.forcing import Forces, force_of
from rekindle.storage.savepoints import savepoints_in
from rekindle.testing.crash import StepFailedError
from rekindle.testing.volatile_store import VolatileStore
from tests.simulation.cooperative import Scheduler
from tests.simulation.watched import check_history
from tests.simulation.world import Plan, World, random_plan

Plans = Callable[[random.Random, int], Plan]
"""Makes a job of at most so many tasks."""

_MOST_RUNS = 60
_CALM_S = 20_000

_ENDS = (ControlRequest(verb="stop"), ControlRequest(verb="stop", drain=True))

_WISHES = (
    *(ControlRequest(verb="checkpoint"),) * 4,
    *(ControlRequest(verb="stop"),) * 2,
    ControlRequest(verb="cancel"),
    ControlRequest(verb="stop", drain=True),
)


def _saves_in(folder: str) -> tuple[ControlRequest, ...]:
    return tuple(
        ControlRequest(verb=verb, savepoint=folder, unaligned=unaligned)
        for verb in ("savepoint", "stop")
        for unaligned in (False, True)
    )


_FREEZES = (
    *((often, "") for often in (0.003, 0.01, 0.03)),
    *((0.1, "offsets"), (0.1, "state/"), (0.1, "batches/"), (0.1, "commits/"), (0.1, "inbox/"), (0.3, "checkpoints/")),
)
"""How likely a process is frozen at a write, and of which files; all, where none are named."""


def bad_times(world: World, chance: random.Random, freezes: bool, saves: str = "") -> None:
    """Beside a driver in the bad times: what is asked of it, and what befalls it."""
    scheduler = world.scheduler
    wishes = _saves_in(saves) if saves else _WISHES
    if scheduler.sleepers and chance.random() < 0.5:
        # Before its first batch, which may be one that another has planned, and is at.
        scheduler.pause(chance.choice((0.01, 0.1, 0.5)))
        world.ask(chance.choice(_ENDS))
    while True:
        scheduler.pause(chance.choice((0.1, 1, 10)))
        if freezes and chance.random() < 0.5:
            scheduler.thaw()
        if chance.random() < (0.7 if saves else 0.3):
            world.ask(chance.choice(wishes))
        elif chance.random() < 0.1:
            scheduler.kill()
        world.set_clock(chance)


def _calm(world: World, chance: random.Random, calm_s: float = _CALM_S) -> None:
    """Beside a driver in the good times: what has no end is drained."""
    scheduler = world.scheduler
    while scheduler.sleepers:
        scheduler.pause(chance.choice((0.1, 1, 10)))
        scheduler.thaw()
    scheduler.pause(60)
    began_s = scheduler.now_s
    while True:
        assert scheduler.now_s < began_s + calm_s, "it does not come to an end"
        if world.plan.is_endless:
            world.ask(ControlRequest(verb="stop", drain=True))
        scheduler.pause(500)


def live(
    seed: int,
    *,
    freezes: bool | str = False,
    machines: int = 0,
    plan: Plans = random_plan,
    pace: int = 1,
    saves: str = "",
) -> World:
    """The life of a seed; `AssertionError` where a promise is broken.

    Args:
        freezes: drivers are not only killed but frozen as well, taken for dead, and wake up when others are at work;
            a part of paths: mostly as they write such files.
        plan: makes the job to be lived.
        machines: each driver is on one of so many that share the storage; 0: where that is said of none.
        pace: of the storage: above 1 looks are paid for, and drivers copy the logs of inboxes to their own disks.
        saves: a folder for savepoints, of which some are asked for and started from; none without it.
    """
    chance = random.Random(seed)
    world = World(plan(chance, 2 if freezes else 4), seed, pace=pace)
    scheduler = world.scheduler
    # Apart, so that the lives of seeds stay what they were but for this.
    starts, places = random.Random(f"starts of {seed}"), random.Random(f"machines of {seed}")
    kills = chance.choice((0.0, 0.002, 0.01, 0.03)) * (0.1 if saves else 1)  # else hardly any savepoint comes about
    turmoil_runs = chance.randint(1, 12)
    freeze, scheduler.freeze_at = chance.choice(_FREEZES) if freezes else (0.0, "")
    if isinstance(freezes, str):
        freeze, scheduler.freeze_at = 0.3, freezes

    turmoil, calm = partial(bad_times, world, chance, bool(freezes), saves), partial(_calm, world, chance)
    for number in range(_MOST_RUNS):
        is_calm = world.is_calm = number >= turmoil_runs
        scheduler.kill_at_a_write = 0 if is_calm else kills
        scheduler.freeze_at_a_write = 0 if is_calm else freeze
        settings = {**world.plan.settings, "checkpoint.interval": "10 s"} if is_calm else world.plan.settings
        world.boot_id = f"{places.randint(1, machines)}" if machines else ""
        if not is_calm and chance.random() < 0.3:
            result = world.run(settings, turmoil, before_claim=partial(world.run, settings, turmoil))
        else:
            restore = None if is_calm or starts.random() < 0.4 else _newest(world)
            if saves and restore is not None:
                restore = _saved(saves, restore) or restore
            result = world.run(settings, calm if is_calm else turmoil, restore=restore)
        if result is not None and result.state in ("FINISHED", "DRAINED"):
            break
        assert result is None or result.state in ("STOPPED", "CANCELED"), f"{result}"
    else:
        raise AssertionError(f"it never ended: {world.results}")
    world.end_sleepers()
    _check(world, result)
    return world


def live_with_power_failures(
    seed: int, force_of: Forces = force_of, made: type[VolatileStore] = VolatileStore, plan: Plans = random_plan
) -> World:
    """The life of a seed in which the power fails, often: its process dies, and its storage loses what was not forced.

    Args:
        force_of: what a write forces; a test puts less here, to see that it is missed.
        made: the kind of storage.
        plan: makes the job to be lived.
    """
    chance = random.Random(seed)
    store = made(force_of, between=lambda: world.scheduler.step("force"))
    world = World(plan(chance, 3), seed, store=store)
    scheduler = world.scheduler
    starts = random.Random(f"starts of {seed}")
    kills, outages = chance.choice((0.002, 0.01, 0.03)), chance.choice((0.3, 0.7, 1.0))
    turmoil_runs = chance.randint(3, 12)
    turmoil, calm = partial(bad_times, world, chance, False), partial(_calm, world, chance)
    for number in range(_MOST_RUNS):
        is_calm = world.is_calm = number >= turmoil_runs
        scheduler.kill_at_a_write = 0 if is_calm else kills
        settings = {**world.plan.settings, "checkpoint.interval": "10 s"} if is_calm else world.plan.settings
        restore = None if is_calm or starts.random() < 0.7 else _newest(world)
        result = world.run(settings, calm if is_calm else turmoil, restore=restore)
        assert result is None or result.state in ("STOPPED", "CANCELED", "FINISHED", "DRAINED"), f"{result}"
        if not is_calm and chance.random() < outages:
            store.lose_power(chance)
            world.results.append("power lost")
        elif result is not None and result.state in ("FINISHED", "DRAINED"):
            break
    else:
        raise AssertionError(f"it never ended: {world.results}")
    _check(world, result, history=False)
    return world


def _has_met(scheduler: Scheduler, left: int) -> bool:
    return scheduler.faults_left < left


def _end_after_faults(world: World, chance: random.Random, calm: Callable[[], None]) -> None:
    """Beside a driver whose steps fail: ask for an end right after some of them, and then be calm."""
    scheduler = world.scheduler
    while left := scheduler.faults_left:
        scheduler.pause(500, partial(_has_met, scheduler, left))
        scheduler.pause(chance.choice((0, 0, 0.01, 0.1, 1)))
        world.ask(chance.choice(_ENDS) if chance.random() < 0.5 else ControlRequest(verb="checkpoint"))
    calm()


def live_with_faults(seed: int, calm_s: float = _CALM_S, *, ends: bool = False) -> World:
    """The life of a seed in which steps fail, a number of times, and nothing is killed: each run ends by itself.

    A task that fails is restarted in its process, and a driver that fails is started again, as a user would.

    Args:
        calm_s: how long a run may take.
        ends: a stop or a drain is asked for right after some faults.
    """
    chance = random.Random(seed)
    world = World(random_plan(chance), seed)
    scheduler = world.scheduler
    scheduler.fail_at_a_write = chance.choice((0.003, 0.01, 0.03, 0.1))
    scheduler.faults_left = chance.choice((1, 1, 2, 3, 5, 10, 30))
    settings = {**world.plan.settings, "checkpoint.interval": chance.choice(("1 s", "10 s"))}
    calm = partial(_calm, world, chance, calm_s)
    if ends:
        settings["restart.delay"] = chance.choice(("10 ms", "100 ms", "5 s"))
        world.engine.cleans_up_s = chance.choice((0, 0, 0.1, 5))
    for _ in range(_MOST_RUNS):
        met = len(scheduler.failed)
        try:
            result = world.run(settings, partial(_end_after_faults, world, chance, calm) if ends else calm)
        except (RekindleError, StepFailedError):
            if len(scheduler.failed) == met:
                raise
            continue
        assert result is not None
        if result.state in ("FINISHED", "DRAINED"):
            break
        if not (ends and result.state == "STOPPED"):
            assert result.state == "FAILED" and len(scheduler.failed) > met, f"{result}"
    else:
        raise AssertionError(f"it never ended: {world.results}")
    _check(world, result)
    failures = [one.row.message for one in log.read(world.storage, EVENTS) if one.row.kind == "task_failed"]
    unplanted = [message for message in failures if not any(step in message for step in scheduler.failed)]
    assert not unplanted, f"tasks failed of something else than the faults: {unplanted}"
    return world


def _check(world: World, result: Result, *, history: bool = True) -> None:
    shown = world.shown()
    for uid, rows in world.expected().items():
        assert shown[uid] == rows, f"{uid}: lost {rows - shown[uid]}, twice {shown[uid] - rows}: {world.results}"
    assert not world.read_again, world.read_again
    assert not world.engine.late, f"dropped as late: {world.engine.late}"
    if result.state == "FINISHED":
        assert world.all_read(), "a job that has finished has read all"
    if history:  # a loss of power may take some of it
        check_history(world.storage, world.cut_off, world.too_late)


def _saved(folder: str, checkpoint: int) -> str | None:
    """The savepoint of this checkpoint, if there is one."""
    found = (
        one.path for one in savepoints_in(folder) if one.manifest is not None and one.manifest.checkpoint == checkpoint
    )
    return next(found, None)


def _newest(world: World) -> int | None:
    """The newest checkpoint, where a start from it needs no permission."""
    manifest = world.storage.newest_manifest()
    return None if manifest is None or manifest.drained else manifest.checkpoint
