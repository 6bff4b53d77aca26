"""The time of a subtask, by occupation: in a batch, in a batch that waits for room in its channels, or idle.

Idle, it looks for rows now and then. How long a look takes is known only if it takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from rekindle.storage.documents.status import TaskStatusDocument

IDLE, BUSY, HELD = "idle", "busy", "held"


class _Spent(NamedTuple):
    doing: str
    since_s: float
    busy_s: float
    held_s: float
    #: busy and held time when the batch under way began
    before_s: float = 0

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
        #: time at which the look under way was first noticed; None: none is, as far as is known
        self._look_s: float | None = None

    def enter(self, doing: str) -> None:
        """Count the time from now on as this occupation."""
        spent = self._spent.until(self._clock())
        before_s = spent.busy_s + spent.held_s if spent.doing == IDLE else spent.before_s
        self._spent = spent._replace(doing=doing, before_s=before_s)
        self._look_s = None

    def looks(self, still: bool) -> None:
        """Note that it is at a look for rows, and if it was at one before, at the same; or that it is at none."""
        if not still:
            self._look_s = None
        elif self._look_s is None:
            self._look_s = self._clock()

    @property
    def busy_ms(self) -> int:
        """The time in batches, the one under way included, in ms."""
        return round(1000 * self._spent.until(self._clock()).busy_s)

    @property
    def held_ms(self) -> int:
        """The time in which its batches have waited for room, in ms."""
        return round(1000 * self._spent.until(self._clock()).held_s)

    @property
    def batch_so_far_ms(self) -> int | None:
        """The time of the batch under way, in ms; None: none is."""
        spent = self._spent.until(self._clock())
        return None if spent.doing == IDLE else round(1000 * (spent.busy_s + spent.held_s - spent.before_s))

    @property
    def look_so_far_ms(self) -> int | None:
        """The time of the look for rows under way since it was noticed, in ms; None: none was."""
        look_s = self._look_s
        return None if look_s is None else round(1000 * (self._clock() - look_s))


def confirmed_until(
    confirmed_ms: int | None, latest_ms: int | None, tasks: Iterable[TaskStatusDocument], now_ms: int
) -> int | None:
    """Return when there was last nothing to add to the newest checkpoint, where that is known; ms.

    A batch under way adds something, however long it takes: since it began, no look has confirmed the checkpoint. And a
    look that does not end, because a source does not answer, has found nothing out.

    Args:
        confirmed_ms: the last look that found nothing recorded since; None: there was none.
        latest_ms: the time of the checkpoint.
    """
    if confirmed_ms is None:
        return None
    begun_ms = now_ms - max((task.batch_so_far_ms or task.look_so_far_ms or 0 for task in tasks), default=0)
    return max(min(confirmed_ms, begun_ms), latest_ms or 0)
