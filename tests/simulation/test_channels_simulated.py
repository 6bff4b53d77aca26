"""Nothing is lost, comes twice, or waits for ever, in lives that the real driver and the real channels live."""

from __future__ import annotations

import pytest

from tests.simulation.lives import live


@pytest.mark.parametrize("seed", range(25))
def test_a_life_full_of_kills_ends_well(seed: int) -> None:
    live(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25, 1_000))
def test_many_lives_full_of_kills_end_well(seed: int) -> None:
    live(seed)
