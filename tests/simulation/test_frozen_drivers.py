"""Drivers that are frozen between any two acts, taken for dead, and wake up while others are at work."""

from __future__ import annotations

import re

import pytest

import rekindle.spark.query.planned
from rekindle.progress import directory
from rekindle.storage.port import Store
from tests.simulation.lives import live


@pytest.mark.parametrize("seed", [*range(3), 51, 67, 145, 207, 351, 692, 826])
def test_a_life_full_of_drivers_that_wake_up_ends_well(seed: int) -> None:
    live(seed, freezes=True)


ENDS = ("/end.json", "/drain.json", "checkpoints/")
"""Files that end something."""


@pytest.mark.parametrize("file", ENDS)
@pytest.mark.parametrize("seed", [0, 267, 309, 312, 456])
def test_a_life_in_which_drivers_wake_up_to_end_something_ends_well(seed: int, file: str) -> None:
    live(seed, freezes=file)


@pytest.mark.slow
@pytest.mark.parametrize("file", ENDS)
@pytest.mark.parametrize("seed", range(1, 500))
def test_many_lives_in_which_drivers_wake_up_to_end_something_end_well(seed: int, file: str) -> None:
    live(seed, freezes=file)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000))
def test_many_lives_full_of_drivers_that_wake_up_end_well(seed: int) -> None:
    live(seed, freezes=True)


def test_such_lives_find_a_plan_that_is_replaced_while_a_driver_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executors then put the state of the old batch in the place of the new one's."""
    unplant = directory.unplant

    def replaceable(store: Store, folder: str, keep: int | None = None) -> tuple[int, ...]:
        return unplant(store, folder)

    monkeypatch.setattr(rekindle.spark.query.planned, "unplant", replaceable)
    # The first finds it with the draws of today; others do where a change of the code has moved those.
    assert any(_loses_or_repeats(seed) for seed in (51, *range(400)))


def _loses_or_repeats(seed: int) -> bool:
    try:
        live(seed, freezes=True)
    except AssertionError as broken:
        return re.search(r"lost|twice", str(broken)) is not None
    return False
