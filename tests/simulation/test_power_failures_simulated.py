"""The power fails, again and again: any part of what was not forced is lost, and no row is lost or there twice."""

from __future__ import annotations

import contextlib

import pytest

from rekindle.errors import RekindleError
from rekindle.storage import layout
from rekindle.storage.forcing import Force, force_of
from tests.simulation.lives import live_with_power_failures

_TELLING = [85]
"""A life that has found a fault: a restore from a lineage whose last entry of a log was torn."""


@pytest.mark.parametrize("seed", [1, *_TELLING])
def test_a_life_with_power_failures_ends_well(seed: int) -> None:
    live_with_power_failures(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in range(2, 1_000) if seed not in _TELLING])
def test_many_lives_with_power_failures_end_well(seed: int) -> None:
    live_with_power_failures(seed)


MISSED = {
    ("run.create", Force.NOTHING): 0,
    ("files.freeze", Force.NOTHING): 0,
    ("inbox.admit", Force.NOTHING): 0,
    ("record.create", Force.NOTHING): 2,
    ("record.create", Force.ITSELF): 2,
    ("result.create", Force.NOTHING): 4,
    ("job.create", Force.NOTHING): 6,
    ("lineage.create", Force.NOTHING): 16,
    ("end.create", Force.NOTHING): 28,
}
"""What is forced too little → a life that shows it."""

_QUICK = ("run.create", "files.freeze", "inbox.admit", "record.create")


@pytest.mark.parametrize(
    ("step", "force", "seed"),
    [
        pytest.param(step, force, seed, marks=() if step in _QUICK else pytest.mark.slow)
        for (step, force), seed in MISSED.items()
    ],
)
def test_such_lives_miss_what_is_not_forced(step: str, force: Force, seed: int) -> None:
    def too_little(path: str) -> Force:
        with contextlib.suppress(KeyError):
            if layout.step_of(path) == step:
                return force
        return force_of(path)

    with pytest.raises((RekindleError, AssertionError)):
        live_with_power_failures(seed, too_little)
