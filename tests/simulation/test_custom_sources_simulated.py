"""Custom sources in lives full of kills: each row once, and nothing is asked for again that was written down."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest.mock import patch

import pytest

from rekindle.channels.split_feed import SplitFeed
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.runtime.client import ControlRequest
from rekindle.spark.inputs.intake import Intake
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.testing.memory_store import MemoryStore
from tests.simulation.lives import Plans, live, live_with_power_failures
from tests.simulation.world import LIVE_DELAY, CustomPlan, Plan, World, random_plan


class WatchedStore(MemoryStore):
    """Notes which folders are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str] = []

    def delete_tree(self, folder: str) -> None:
        """See `Store`."""
        self.deleted.append(folder)
        super().delete_tree(folder)


def custom_plan(chance: random.Random, tasks_at_most: int) -> Plan:
    """A custom source → `reads` → `next`; beside a bounded source, where that is drawn."""
    bounded = chance.random() < 0.6
    splits = {
        f"p{number}": [(f"p{number}", row, 10_000_000 + 1_000 * row) for row in range(chance.choice((0, 1, 5, 30)))]
        for number in range(chance.choice((0, 1, 2, 5)))
    }
    beside = chance.random() < 0.3
    sources = (
        Source(
            uid="custom", bounded=bounded, divisible=True, event_time="ts", watermark=None if bounded else LIVE_DELAY
        ),
        *((Source(uid="files", bounded=True, event_time="ts"),) if beside else ()),
    )
    windowed = chance.random() < 0.5 and bounded
    parallelism = 1 if windowed else chance.choice((1, 2, 3))
    tasks = [Task(uid="reads", inputs=tuple(one.uid for one in sources), event_time="ts", parallelism=parallelism)]
    if chance.random() < 0.5:
        tasks.append(Task(uid="next", inputs=("reads",), event_time="ts", parallelism=chance.choice((1, 2))))
    graph = JobGraph(
        name="simulated",
        sources=sources,
        tasks=tuple(tasks),
        sinks=tuple(Sink(uid=f"{task.uid}_out", task=task.uid, kind="Fake") for task in tasks),
    )
    at_first = len(splits) if bounded else chance.randint(0, len(splits))
    kind = chance.choice(("", "", "list", "union", "broadcast"))
    drawn = random_plan(chance, 1)
    return replace(
        drawn,
        graph=graph,
        files={"files": [[("files", row, 10_000_000 + row)] for row in range(12)]} if beside else {},
        live={},
        speed={task.uid: chance.choice((2.0, 20.0, 1000.0)) for task in tasks},
        windowed=frozenset({"reads"} if windowed else ()),
        custom={"custom": CustomPlan(splits, bounded, at_first, kind)},
    )


def hybrid_plan(chance: random.Random, tasks_at_most: int) -> Plan:
    """A history, and a custom source without an end that continues it."""
    while True:
        plan = custom_plan(chance, tasks_at_most)
        if plan.files and not plan.custom["custom"].bounded:
            break
    sources = tuple(replace(one, follows="files") if one.uid == "custom" else one for one in plan.graph.sources)
    return replace(plan, graph=replace(plan.graph, sources=sources).with_single_subtasks())


@pytest.mark.parametrize("seed", range(8))
def test_a_life_of_a_source_that_continues_a_history_ends_well(seed: int) -> None:
    live(seed, plan=hybrid_plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 500))
def test_many_lives_of_sources_that_continue_histories_end_well(seed: int) -> None:
    live(seed, plan=hybrid_plan, freezes=seed % 3 == 0)


def test_such_lives_find_one_that_does_not_wait() -> None:
    begin = Intake._begin_to_read

    def at_once(intake: Intake) -> None:
        for item in intake._inputs:
            item.follows = None
        begin(intake)

    with patch.object(Intake, "_begin_to_read", at_once):
        assert any("before files has ended" in _broken(seed, hybrid_plan) for seed in range(20))


@pytest.mark.parametrize("seed", [*range(12), 833])
def test_a_life_of_a_custom_source_ends_well(seed: int) -> None:
    live(seed, plan=custom_plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 1_000))
def test_many_lives_of_custom_sources_end_well(seed: int) -> None:
    live(seed, plan=custom_plan)


@pytest.mark.parametrize("seed", range(10))
def test_a_life_in_which_drivers_wake_up_while_others_read_ends_well(seed: int) -> None:
    live(seed, freezes=True, plan=custom_plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 500))
def test_many_lives_in_which_drivers_wake_up_while_others_read_end_well(seed: int) -> None:
    live(seed, freezes=True, plan=custom_plan)


@pytest.mark.parametrize("seed", range(8))
def test_a_life_in_which_the_power_fails_ends_well(seed: int) -> None:
    live_with_power_failures(seed, plan=custom_plan)


def test_a_source_that_is_polled_and_has_nothing_fills_no_storage() -> None:
    """Its reads return DataFrames without rows, which Spark writes as files without rows."""
    drawn = random_plan(random.Random(1), 1)
    graph = JobGraph(
        name="simulated",
        sources=(Source(uid="custom", bounded=False, event_time="ts", watermark=LIVE_DELAY),),
        tasks=(Task(uid="reads", inputs=("custom",), event_time="ts"),),
        sinks=(Sink(uid="reads_out", task="reads", kind="Fake"),),
    )
    custom = {"custom": CustomPlan({"quiet": []}, bounded=False, at_first=1, empty_frames=True)}
    plan = replace(drawn, graph=graph, files={}, live={}, custom=custom, windowed=frozenset(), speed={"reads": 10.0})
    store = WatchedStore()
    world = World(plan, 1, calm=True, store=store)
    left = list[str]()

    def drain() -> None:
        world.scheduler.pause(60)
        left.extend(store.names(read_layout.reads(layout.subtask("simulated", "reads", 0, 1), "custom")))
        world.ask(ControlRequest(verb="stop", drain=True))

    result = world.run(plan.settings, drain)
    assert result is not None and result.state == "DRAINED"
    assert sum("/reads/custom/" in folder for folder in store.deleted) > 10, "it is polled"
    assert len(left) <= 1, "no more than the read that is under way"


def test_such_lives_find_a_read_that_is_forgotten_though_it_was_written_down() -> None:
    with patch.object(SplitFeed, "document", lambda *_: None):
        assert any("is read again" in _broken(seed) for seed in range(60))


def test_such_lives_find_a_position_that_is_ahead_of_the_rows() -> None:
    """A checkpoint that holds where the reader is, and not where the rows that it covers end."""
    reached = SplitFeed._reached

    def ahead(feed: SplitFeed, position: InputPosition) -> InputPosition:
        newest = feed.newest
        found = reached(feed, position)
        return replace(found, reader=newest.state) if newest else found

    with patch.object(SplitFeed, "_reached", ahead):
        assert any("lost" in _broken(seed) for seed in range(60))


def _broken(seed: int, plan: Plans = custom_plan) -> str:
    try:
        live(seed, plan=plan)
    except AssertionError as broken:
        return str(broken)
    except Exception as broken:
        return f"{type(broken).__name__}: {broken}"
    return ""
