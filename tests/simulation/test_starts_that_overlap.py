"""Two starts of one job: whatever one does between the other's decision and its claim, nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rekindle.config import Config
from rekindle.errors import ControlError
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.driver import Driver
from rekindle.storage import layout
from rekindle.storage.documents.runs import Result
from tests.simulation.cooperative import Killed
from tests.simulation.world import Plan, SimulatedEngine, World

QUICK = {"checkpoint.interval": "1 s", "checkpoint.retained": 2, "input.target_batch_duration": "1 ms"}


def new_world() -> World:
    """A history of 40 files of one row, one a batch."""
    plan = Plan(
        graph=JobGraph(
            name="simulated",
            sources=(Source(uid="files", bounded=True, event_time="ts"),),
            tasks=(Task(uid="task", inputs=("files",), event_time="ts"),),
            sinks=(Sink(uid="task_out", task="task", kind="Fake"),),
        ),
        files={"files": [[("files", number, 10_000_000 + number)] for number in range(40)]},
        speed={"task": 10},
        windowed=frozenset({"task"}),
        live={},
        settings=QUICK,
        file_bytes=10**9,
    )
    return World(plan, 1, calm=True)


def stops_after(world: World, seconds: float) -> Callable[[], None]:
    def stop() -> None:
        world.scheduler.pause(seconds)
        world.ask(ControlRequest(verb="stop"))

    return stop


def dies_after(world: World, seconds: float) -> Callable[[], None]:
    def die() -> None:
        world.scheduler.pause(seconds)
        world.scheduler.kill()

    return die


@pytest.mark.parametrize("has_run", [False, True])
def test_a_job_that_finishes_while_another_start_is_made_is_not_run_again(has_run: bool) -> None:
    world = new_world()
    if has_run:
        stopped = world.run(QUICK, stops_after(world, 2))
        assert stopped is not None and stopped.state == "STOPPED"

    result = world.run(QUICK, before_claim=lambda: world.run(QUICK))

    first = world.storage.latest_run()
    assert first is not None and first.run == 1 + has_run, "the second start claims nothing"
    assert result is not None and result.state == "FINISHED"
    assert world.results[-1] == "FINISHED" and world.shown() == world.expected() and world.all_read()


@pytest.mark.parametrize("ends", [stops_after, dies_after])
@pytest.mark.parametrize("seconds", [0.3, 1.5, 2.5, 3.5])
def test_a_start_goes_on_from_what_another_did_before_its_claim(ends: Callable[..., object], seconds: float) -> None:
    world = new_world()

    result = world.run(QUICK, before_claim=lambda: world.run(QUICK, ends(world, seconds)))  # type: ignore[arg-type]

    assert result is not None and result.state == "FINISHED"
    assert world.shown() == world.expected() and world.all_read()


def test_of_two_starts_at_once_the_later_is_refused_and_the_first_goes_on() -> None:
    world = new_world()
    with world.stood_in():
        first, second = (world.launch(Config.of(QUICK)) for _ in range(2))
        assert first.prepare(None) is None and second.prepare(None) is None, "neither sees the other yet"
        driver = first.begin(SimulatedEngine(world))
        assert isinstance(driver, Driver)

        with pytest.raises(ControlError, match="JOB_ALREADY_RUNNING"):
            second.begin(SimulatedEngine(world))

        assert driver.run().state == "FINISHED"
    world.scheduler.bury()
    run = world.storage.latest_run()
    assert run is not None and run.run == 1
    assert world.shown() == world.expected()


def test_a_run_that_finds_the_job_ended_under_its_claim_says_so_and_does_nothing() -> None:
    """A driver that was thought dead records that it has finished, between the other's decision and its claim."""
    world = new_world()
    assert world.run(QUICK, dies_after(world, 1)) is None
    told = Result(run=1, state="FINISHED", ended_ms=1, checkpoint=7)

    def claims(name: str) -> None:
        if name == "run.create/before":
            world.storage.create(layout.result("simulated", 1), told)

    world.scheduler.step = claims  # type: ignore[method-assign]
    result = world.run(QUICK)

    assert result == told
    recorded = world.storage.result(2)
    assert recorded is not None and (recorded.state, recorded.checkpoint, recorded.began) == ("FINISHED", 7, False)
    assert world.storage.state() == "FINISHED"
    again = world.run(QUICK)
    assert again == told and world.storage.fence.newer_than(2) is None, "it stays finished"


def test_a_run_that_finds_another_storage_under_its_claim_ends_and_the_next_begins_there() -> None:
    """A driver that was thought dead opens its lineage, between the other's decision and its claim."""
    world = new_world()

    def dies(name: str) -> None:
        if world.scheduler.dead or name == "lineage.create/before":
            world.scheduler.kill()
            raise Killed

    step, world.scheduler.step = world.scheduler.step, dies  # type: ignore[method-assign]
    assert world.run(QUICK) is None
    twin = new_world()
    twin.run(QUICK)
    late = twin.storage.lineage()
    assert late is not None

    world.scheduler.step = step  # type: ignore[method-assign]
    result = world.run(QUICK, before_claim=lambda: world.storage.create(layout.lineage("simulated", 1), late))

    overtaken, last = world.storage.result(2), world.storage.run(3)
    assert overtaken is not None and overtaken.state == "CANCELED" and not overtaken.began and overtaken.notes
    assert last is not None and last.lineage == 1, "it goes on in the lineage that came late"
    assert result is not None and result.state == "FINISHED" and world.shown() == world.expected()
