"""The working time of a driver: its protocol and its timers use this time.

It is not the time of day. The machine's clock may be set, forward or back, and an interval of the job must not follow
it. Times in documents come from that clock (`system_clock`): people read them, and nothing is decided by them. A driver
also does not count the time in which it did not run (SIGSTOP, a suspended machine, a paused container): nothing that it
waits for could happen then, so no time-out may run out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_S = 1.0
"""The longest time that is counted between two looks, in seconds. The loop looks twenty times a second; if a slow
storage holds it up for longer, its timers run slower, too."""


Clock = Callable[[], int]
"""A clock: it returns milliseconds since the epoch, for people to read."""


def system_clock() -> int:
    """Return the machine's time, ms since the epoch."""
    return round(time.time() * 1000)


class Elapsed:
    """A count of the time since its first look.

    Args:
        clock: returns seconds; may be set forward or back at any time. None: `time.monotonic`.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or time.monotonic
        self._looked_s: float | None = None
        self._passed_s = 0.0

    def now_ms(self) -> int:
        """Look at the clock, and return the time that has passed, in milliseconds."""
        now_s = self._clock()
        if self._looked_s is not None:
            self._passed_s += min(max(now_s - self._looked_s, 0.0), MOST_S)
        self._looked_s = now_s
        return round(self._passed_s * 1000)
