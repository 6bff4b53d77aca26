"""How a subtask spends its time: in a batch, in one that waits for room in its channels, or in none."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

IDLE, BUSY, HELD = "idle", "busy", "held"


class _Spent(NamedTuple):
    doing: str
    since_s: float
    busy_s: float
    held_s: float

    def until(self, now_s: float) -> _Spent:
        """The same, with the time up to now."""
        span_s = now_s - self.since_s
        return self._replace(
            since_s=now_s,
            busy_s=self.busy_s + (span_s if self.doing == BUSY else 0),
            held_s=self.held_s + (span_s if self.doing == HELD else 0),
        )


class Occupation:
    """The time of one subtask; changed by one thread at a time, and read by any.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Replaced as a whole, so that who reads it sees one moment.
        self._spent = _Spent(IDLE, clock(), 0, 0)

    def enter(self, doing: str) -> None:
        """From now on it does this."""
        self._spent = self._spent.until(self._clock())._replace(doing=doing)

    @property
    def busy_ms(self) -> int:
        """Return how long it was in batches, the one under way included."""
        return round(1000 * self._spent.until(self._clock()).busy_s)

    @property
    def held_ms(self) -> int:
        """How long its batches have waited for room."""
        return round(1000 * self._spent.until(self._clock()).held_s)
