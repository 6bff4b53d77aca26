"""The power fails, again and again: any part of what was not forced is lost, and no row is lost or there twice."""

from __future__ import annotations

import contextlib

import pytest

from rekindle.errors import RekindleError
from rekindle.storage import layout
from rekindle.storage.forcing import Force, Forces, force_of
from rekindle.testing.volatile_store import VolatileStore
from tests.simulation.lives import live, live_with_power_failures

_TELLING = [28, 87, 1225]
"""Lives that have found a fault: torn logs of sources that were copied into the new lineage."""


@pytest.mark.parametrize("seed", [0, *_TELLING])
def test_a_life_with_power_failures_ends_well(seed: int) -> None:
    live_with_power_failures(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 2_000))
def test_many_lives_with_power_failures_end_well(seed: int) -> None:
    live_with_power_failures(seed)


@pytest.mark.parametrize("seed", [*range(3), 76, 448, 869])
def test_a_life_on_two_machines_that_share_a_storage_ends_well(seed: int) -> None:
    """Each finds runs of the other that may have been cut off, whose drivers may only be frozen."""
    live(seed, freezes=True, machines=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 1_000))
def test_many_lives_on_two_machines_that_share_a_storage_end_well(seed: int) -> None:
    live(seed, freezes=True, machines=2)


class Unsaid(VolatileStore):
    """A storage that does not say when it has lost its power."""

    boot_id = ""


def test_such_lives_find_a_start_that_resumes_what_is_torn() -> None:
    with pytest.raises((RekindleError, AssertionError)):
        live_with_power_failures(0, made=Unsaid)


MISSED = {
    ("job.create", Force.NOTHING): 6,
    ("run.create", Force.NOTHING): 1,
    ("result.create", Force.NOTHING): 9,
    ("manifest.create", Force.NOTHING): 0,
    ("manifest.create committed.create", Force.ITSELF): 10,
}
"""What is forced too little → a life that shows it."""


@pytest.mark.parametrize(("steps", "force", "seed"), [(steps, force, seed) for (steps, force), seed in MISSED.items()])
def test_such_lives_miss_what_is_not_forced(steps: str, force: Force, seed: int) -> None:
    with pytest.raises((RekindleError, AssertionError)):
        live_with_power_failures(seed, too_little(steps, force))


def too_little(steps: str, force: Force) -> Forces:
    """The forces, except of some steps."""

    def forces(path: str) -> Force:
        with contextlib.suppress(KeyError):
            if layout.step_of(path) in steps.split():
                return force
        return force_of(path)

    return forces
