"""Nothing is lost, comes twice, or waits for ever, in lives that the real driver and the real channels live."""

from __future__ import annotations

import pytest

from tests.simulation.lives import live

LIVES = 60


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_life_full_of_kills_ends_well(seed: int) -> None:
    live(seed)
