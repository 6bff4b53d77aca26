"""How long a driver has been at work: the time that its protocol and its timers go by.

It is no time of day. The machine's clock may be set, forward or back, and an interval of the job must not follow it.
What people read in documents comes from that clock (`system_clock`), and nothing is decided by it. Nor does a
driver count the time in which it did not run (SIGSTOP, a suspended machine, a paused container): nothing that it waits
for had a chance to happen then, so no time-out may run out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_S = 1.0
"""The most that passes between two looks. The loop looks twenty times a second; where it is held up for longer, by a
storage that answers slowly, its timers go slower too."""


Clock = Callable[[], int]
"""Milliseconds since the epoch: for people to read."""


def system_clock() -> int:
    """Return the machine's time, ms since the epoch."""
    return round(time.time() * 1000)


class Elapsed:
    """Counts from its first look on.

    Args:
        clock: shows seconds; may be set forward or back at any time.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or time.monotonic
        self._looked_s: float | None = None
        self._passed_s = 0.0

    def now_ms(self) -> int:
        """Look, and return what has passed, in milliseconds."""
        now_s = self._clock()
        if self._looked_s is not None:
            self._passed_s += min(max(now_s - self._looked_s, 0.0), MOST_S)
        self._looked_s = now_s
        return round(self._passed_s * 1000)
