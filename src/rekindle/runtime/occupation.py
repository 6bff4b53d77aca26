"""The time of a subtask, by occupation: in a batch, in a batch that waits for room in its channels, or idle."""

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
        """Return the same, with the time up to now counted."""
        span_s = now_s - self.since_s
        return self._replace(
            since_s=now_s,
            busy_s=self.busy_s + (span_s if self.doing == BUSY else 0),
            held_s=self.held_s + (span_s if self.doing == HELD else 0),
        )


class Occupation:
    """The time of one subtask; changed by one thread at a time, and read by any.

    Args:
        clock: returns seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Replaced as a whole, so that a reader sees one moment.
        self._spent = _Spent(IDLE, clock(), 0, 0)

    def enter(self, doing: str) -> None:
        """Count the time from now on as this occupation."""
        self._spent = self._spent.until(self._clock())._replace(doing=doing)

    @property
    def busy_ms(self) -> int:
        """The time in batches, the one under way included, in ms."""
        return round(1000 * self._spent.until(self._clock()).busy_s)

    @property
    def held_ms(self) -> int:
        """The time in which its batches have waited for room, in ms."""
        return round(1000 * self._spent.until(self._clock()).held_s)
