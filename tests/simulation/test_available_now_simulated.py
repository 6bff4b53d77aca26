"""Runs of what is available now, one after the other: each stops by itself, and together they read all, once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from rekindle.runtime.client import ControlRequest
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from tests.simulation.lives import Plans, bad_times
from tests.simulation.test_custom_sources_simulated import custom_plan
from tests.simulation.world import Plan, World, random_plan

_MOST_S = 20_000


def live_by_schedule(seed: int, plan_of: Plans = random_plan) -> World:
    """The life of a seed whose runs read what is available when they begin; some are killed, or asked for things."""
    chance = random.Random(seed)
    plan = plan_of(chance, 4)
    if chance.random() < 0.5:
        plan = replace(plan, windowed=frozenset())
    world = World(plan, seed)
    scheduler, kills = world.scheduler, chance.choice((0.0, 0.002, 0.01))
    for number in range(chance.randint(3, 8)):
        is_quiet = world.is_calm = number % 2 == 0
        scheduler.kill_at_a_write = 0 if is_quiet else kills
        world.available_now = True
        there = _there(world)
        began_s = scheduler.now_s
        result = world.run(plan.settings, None if is_quiet else lambda: bad_times(world, chance, freezes=False))
        if result is not None and result.state in ("FINISHED", "DRAINED"):
            break
        assert result is None or result.state in ("STOPPED", "CANCELED"), f"{result}"
        if is_quiet:
            assert result is not None and result.state == "STOPPED", f"{result}"
            assert scheduler.now_s < began_s + _MOST_S
            _check_stopped(world, there)
        scheduler.pause(chance.choice((1, 60, 600)))
    else:
        scheduler.kill_at_a_write, world.is_calm, world.available_now = 0, True, False
        result = world.run(plan.settings, lambda: _drain(world))
        assert result is not None and result.state in ("DRAINED", "FINISHED"), f"{result}"
    assert world.shown() == world.expected(), f"{world.results}"
    assert not world.read_again and not world.engine.late
    return world


def _drain(world: World) -> None:
    world.scheduler.pause(10)
    world.ask(ControlRequest(verb="stop", drain=True))


def _there(world: World) -> dict[str, int]:
    """Live source → the number of its newest row."""
    return {uid: int((world.scheduler.now_s - 1_000) * rate) - 1 for uid, rate in world.plan.live.items()}


def _check_stopped(world: World, there: dict[str, int]) -> None:
    """All that was there is read, and all that was read has come through, but for what windows hold."""
    read, lineage = Counter[str](), world.storage.lineage()
    assert lineage is not None
    for task in world.plan.graph.tasks:
        record = world.storage.last_record(layout.subtask(world.storage.job, task.uid, 0, lineage.lineage))
        for uid in there.keys() & set(task.inputs):
            position = record.inputs[uid] if record else InputPosition()
            at = position.offset["logOffset"] if position.offset else -1
            assert at >= there[uid], f"{task.uid} has read {uid} to {at}, and {there[uid]} was there: {world.results}"
            read[uid] += 1
    assert all(uid in read for uid in there)
    if not world.plan.windowed:
        assert world.shown() == world.expected(), f"{world.results}"
    assert world.all_read() or world.plan.custom, "of what has an end, all was there"


def _has_a_stream(seed: int) -> bool:
    plan: Plan = random_plan(random.Random(seed))
    return bool(plan.live)


@pytest.mark.parametrize("seed", [seed for seed in range(60) if _has_a_stream(seed)][:14])
def test_runs_by_schedule_read_what_is_there_and_stop(seed: int) -> None:
    live_by_schedule(seed)


@pytest.mark.parametrize("seed", range(4))
def test_runs_by_schedule_of_a_custom_source_read_what_is_there_and_stop(seed: int) -> None:
    live_by_schedule(seed, custom_plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 1_000))
def test_many_runs_by_schedule_read_what_is_there_and_stop(seed: int) -> None:
    live_by_schedule(seed)
