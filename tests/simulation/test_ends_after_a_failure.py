"""A batch whose record was created although its creation failed: an end right after it leaves none of its rows out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.runtime.client import ControlRequest
from rekindle.storage import layout
from rekindle.storage.documents.runs import Result
from rekindle.testing.crash import fail
from tests.simulation.world import Plan, World

DRAIN, STOP = ControlRequest(verb="stop", drain=True), ControlRequest(verb="stop")


def live_job(restart_delay: str) -> Plan:
    return Plan(
        graph=JobGraph(
            name="ending",
            sources=(Source(uid="rows", bounded=False, event_time="ts", watermark="4 seconds"),),
            tasks=(Task(uid="all", inputs=("rows",), event_time="ts"),),
            sinks=(Sink(uid="all_out", task="all", kind="Fake"),),
        ),
        files={},
        speed={"all": 1_000.0},
        windowed=frozenset(),
        live={"rows": 1.0},
        settings={"checkpoint.interval": "0", "restart.delay": restart_delay, "restart.attempts": 9},
    )


def failing_at(world: World, nth: int, then: Callable[[], None]) -> None:
    """Let the creation of the n-th batch record fail once it has been done, as where its answer is lost."""
    step, reached = world.scheduler.step, []

    def failing_step(name: str) -> None:
        step(name)
        if name == "record.create/after":
            reached.append(name)
            if len(reached) == nth:
                then()
                fail(name)

    world.scheduler.step = failing_step  # type: ignore[method-assign]


def ended_after_it(world: World, wanted: ControlRequest, waits_s: float) -> Result | None:
    """Ask for an end so long after the third batch has failed; the task is started again ten seconds after that."""
    failed: list[bool] = []
    failing_at(world, 3, lambda: failed.append(True))

    def ask() -> None:
        world.scheduler.pause(600, lambda: bool(failed))
        world.scheduler.pause(waits_s)
        world.ask(wanted)

    result = world.run(world.plan.settings, ask)
    assert failed
    return result


@pytest.mark.parametrize("waits_s", [0, 1, 30])
def test_a_drain_commits_its_rows(waits_s: int) -> None:
    world = World(live_job("10 seconds"), seed=1, calm=True)

    result = ended_after_it(world, DRAIN, waits_s)

    assert result is not None and result.state == "DRAINED"
    end = world.storage.end(layout.subtask("ending", "all", 0, 1))
    assert end is not None and end.batch == end.batch_before_flush >= 2
    assert world.shown() == world.expected()


@pytest.mark.parametrize("waits_s", [0, 1, 30])
def test_a_stop_commits_its_rows_and_the_next_run_those_that_follow(waits_s: int) -> None:
    world = World(live_job("10 seconds"), seed=1, calm=True)

    result = ended_after_it(world, STOP, waits_s)

    assert result is not None and result.state == "STOPPED"
    assert world.shown() == world.expected()
    result = world.run(world.plan.settings, lambda: (world.scheduler.pause(5), world.ask(DRAIN)))
    assert result is not None and result.state == "DRAINED"
    assert world.shown() == world.expected()
