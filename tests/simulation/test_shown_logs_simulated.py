"""Lives in a storage where looks are paid for: drivers beat rarely, are rung for, and show copies of logs to Spark."""

from __future__ import annotations

import pytest

from tests.simulation.lives import live

PACE = 10


@pytest.mark.parametrize("seed", range(4))
def test_a_life_where_looks_are_paid_for_ends_well(seed: int) -> None:
    live(seed, pace=PACE)


@pytest.mark.parametrize("seed", range(4, 8))
def test_one_full_of_drivers_that_wake_up_ends_well_too(seed: int) -> None:
    live(seed, freezes=True, pace=PACE)


@pytest.mark.slow
@pytest.mark.parametrize("freezes", [False, True])
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_lives_where_looks_are_paid_for_end_well(seed: int, freezes: bool) -> None:
    live(seed, freezes=freezes, pace=PACE)
