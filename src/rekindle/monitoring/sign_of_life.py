"""The signs of life of drivers, as seen by a monitor that looks again and again."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import Status
from rekindle.storage.liveness import has_moved, may_be_silent, silence_ms
from rekindle.storage.port import Store

BEATS_MS = 3_000
"""A few heartbeats on a store of pace 1: a driver that is well gives a sign of life within this time."""

_LATE = 1.2
"""A heartbeat may come this many times as late as the driver has said."""


class Pulse:
    """The signs of life that were seen of the driver of one job, and the time since the last one."""

    def __init__(self, store: Store, now_ms: Callable[[], int], elapsed_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        self._elapsed_ms = elapsed_ms
        self._first: Run | Status | None = None
        self._first_ms = 0
        #: time since it was seen to move, ms; None: it was not yet
        self.still_ms: int | None = None
        #: time to wait before a second look at it, since it looked old, ms; 0: nothing is in doubt
        self.doubtful_ms = 0

    def is_silent(self, driver: Run | Status) -> bool:
        """Return True if a driver that seems to run has given no sign of life for too long.

        A heartbeat that looks old is looked at twice, since clocks differ; one that looks young to a clock that differs
        is silent too when it does not move for long enough.
        """
        now_ms = self._elapsed_ms()
        first = self._first
        if first is None or has_moved(driver, first):
            self._first, self._first_ms = driver, now_ms
            self.still_ms = None if first is None else 0
        still_ms = now_ms - self._first_ms
        if self.still_ms is not None:
            self.still_ms = still_ms
        self.doubtful_ms = 0
        if still_ms >= silence_ms(self._store, driver):
            return True
        looks_old = may_be_silent(driver, self._store, self._now_ms())
        rests_ms = (driver.next_beat_ms or 0) if isinstance(driver, Status) else 0
        watched_ms = max(BEATS_MS * self._store.pace, round(rests_ms * _LATE))
        self.doubtful_ms = watched_ms if looks_old and still_ms < watched_ms else 0
        return looks_old and not self.doubtful_ms
