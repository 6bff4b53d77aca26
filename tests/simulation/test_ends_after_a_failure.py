"""An end right after a batch has failed leaves none of its rows out, recorded or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.history import log
from rekindle.history.log import EVENTS
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


RECORDED, WRITTEN = "record.create/after", "sink.prepare/before"


def failing_at(world: World, where: str, nth: int, then: Callable[[], None]) -> None:
    """Let a step fail the n-th time."""
    step, reached = world.scheduler.step, []

    def failing_step(name: str) -> None:
        step(name)
        if name == where:
            reached.append(name)
            if len(reached) == nth:
                then()
                fail(name)

    world.scheduler.step = failing_step  # type: ignore[method-assign]


def ended_after_it(world: World, where: str, wanted: ControlRequest, waits_s: float) -> Result | None:
    """Ask for an end so long after the third batch has failed; the task is started again ten seconds after that."""
    failed: list[bool] = []
    failing_at(world, where, 3, lambda: failed.append(True))

    def ask() -> None:
        world.scheduler.pause(600, lambda: bool(failed))
        world.scheduler.pause(waits_s)
        world.ask(wanted)

    result = world.run(world.plan.settings, ask)
    assert failed
    return result


@pytest.mark.parametrize("waits_s", [0, 1, 30])
def test_a_drain_commits_the_rows_of_a_record_whose_creation_failed(waits_s: int) -> None:
    world = World(live_job("10 seconds"), seed=1, calm=True)

    result = ended_after_it(world, RECORDED, DRAIN, waits_s)

    assert result is not None and result.state == "DRAINED"
    end = world.storage.end(layout.subtask("ending", "all", 0, 1))
    assert end is not None and end.batch == end.batch_before_flush >= 2
    assert world.shown() == world.expected()


@pytest.mark.parametrize("waits_s", [0, 1, 30])
def test_a_stop_commits_them_and_the_next_run_those_that_follow(waits_s: int) -> None:
    world = World(live_job("10 seconds"), seed=1, calm=True)

    result = ended_after_it(world, RECORDED, STOP, waits_s)

    assert result is not None and result.state == "STOPPED"
    assert world.shown() == world.expected()
    result = world.run(world.plan.settings, lambda: (world.scheduler.pause(5), world.ask(DRAIN)))
    assert result is not None and result.state == "DRAINED"
    assert world.shown() == world.expected()


@pytest.mark.parametrize("wanted", [DRAIN, STOP], ids=["drain", "stop"])
def test_a_query_that_is_about_to_die_of_a_batch_is_not_taken_for_one_that_ran_dry(wanted: ControlRequest) -> None:
    world = World(live_job("10 seconds"), seed=1, calm=True)
    world.engine.cleans_up_s = 5

    result = ended_after_it(world, WRITTEN, wanted, 0)

    assert result is not None and result.state == ("DRAINED" if wanted is DRAIN else "STOPPED")
    assert "task_failed" in {one.row.kind for one in log.read(world.storage, EVENTS)}
    assert world.shown() == world.expected()
    assert result.notes == (), "a drain has read what the batch was to read; after a stop the next run reads it"
