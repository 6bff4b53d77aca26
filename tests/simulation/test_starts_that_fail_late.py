"""Starts that have copied the state into a new lineage, and fail then: what they leave does not add up."""

from __future__ import annotations

import pytest

from rekindle.errors import ControlError, RekindleError
from rekindle.runtime.client import ControlRequest
from rekindle.sinks.owners import Claim
from rekindle.storage import layout
from rekindle.testing.memory_store import MemoryStore
from tests.simulation.test_started_again import one_task
from tests.simulation.world import RowSink, World


class Taken(RowSink):
    """A sink whose target belongs to another job."""

    def claim(self, claim: Claim) -> None:
        """See `TwoPhaseSink`."""
        raise ControlError("JOB_RUNNING", job=claim.owner)


def stopped() -> World:
    """A job that was stopped, and has a checkpoint."""
    world = World(one_task(100), seed=1, calm=True)

    def stop() -> None:
        world.scheduler.pause(5)
        world.ask(ControlRequest(verb="stop"))
        world.scheduler.pause(10_000)

    world.run(world.plan.settings, stop)
    assert world.results == ["STOPPED"]
    return world


def lineages(world: World) -> set[int]:
    """Return the lineages of which there are folders."""
    store, above = world.store, layout.tasks("simulated")
    parts = [f"{above}/{uid}/{part}" for uid in store.names(above) for part in store.names(f"{above}/{uid}")]
    return {int(name) for part in parts for name in store.names(part)}


def fail_late(world: World) -> None:
    """Start from the newest checkpoint; the target of a sink is taken."""
    sinks = dict(world.sinks)
    world.sinks |= {uid: Taken() for uid in sinks}
    with pytest.raises(RekindleError) as caught:
        world.run(world.plan.settings, restore=world.storage.checkpoints()[0])
    assert caught.value.code == "JOB_RUNNING"
    world.sinks |= sinks


def test_restores_that_fail_late_leave_one_copy_of_the_state_besides_the_last() -> None:
    world = stopped()
    first = lineages(world)
    for _ in range(5):
        fail_late(world)
    newest = world.storage.latest_run()
    assert newest is not None and newest.lineage == newest.run
    assert lineages(world) == {*first, newest.run - 1, newest.run}

    result = world.run(world.plan.settings)
    assert result is not None and result.state == "FINISHED"
    assert world.shown() == world.expected() and world.all_read()


def test_a_lineage_stays_whose_driver_may_only_be_paused() -> None:
    world = stopped()
    fail_late(world)
    paused = world.storage.latest_run()
    assert paused is not None and isinstance(world.store, MemoryStore)
    world.store.delete(layout.result("simulated", paused.run))
    for _ in range(3):
        fail_late(world)
    assert paused.run in lineages(world)
