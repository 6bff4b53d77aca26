"""The time a driver has been at work."""

from __future__ import annotations

from functools import partial

import pytest

from rekindle.runtime.elapsed import Elapsed


@pytest.mark.parametrize(
    ("clock_s", "passed_ms"),
    [
        ([5_000.0, 5_000.05, 5_000.1], [0, 50, 100]),
        ([5_000.0, 5_000.05, 8_600.0, 8_600.1], [0, 50, 1_050, 1_150]),
        ([5_000.0, 4_000.0, 4_000.5], [0, 0, 500]),
    ],
    ids=["looked at often", "paused for an hour", "set back"],
)
def test_time_passes_only_while_the_driver_looks(clock_s: list[float], passed_ms: list[int]) -> None:
    elapsed = Elapsed(partial(next, iter(clock_s)))
    assert [elapsed.now_ms() for _ in clock_s] == passed_ms
