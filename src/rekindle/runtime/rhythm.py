"""The intervals of the looks of the driver's loop: longer, the longer nothing happens to its job.

If a look is a request that costs money, a job that waits for rows for hours should cost next to nothing. So a tenth of
the time in which nothing has happened passes between two looks, within bounds. Any event makes them frequent again at
once. If looks are free, their interval is constant.
"""

from __future__ import annotations

from rekindle.runtime.pauses import Pauses

_PART_OF_SILENCE = 0.1


class Rhythm:
    """The interval of one repeated action.

    Args:
        pace: pace of the store (`Store.pace`).
        every_s: the pause while something happens, on a store of pace 1.
        at_rest_s: the longest pause, likewise.
    """

    def __init__(self, pace: int, every_s: float, at_rest_s: float) -> None:
        self._every_s = every_s * pace
        self._at_rest_s = max(at_rest_s * pace, self._every_s) if pace > 1 else self._every_s
        self._done_s = float("-inf")
        #: time until the next action if nothing happens until then, in seconds
        self.pause_s = 0.0

    def is_due(self, now_s: float, happened_s: float) -> bool:
        """Return True if the action is due now, and count it as done.

        Args:
            happened_s: time of the last event.
        """
        pause_s = self._every_s if happened_s > self._done_s else self.pause_s
        if now_s < self._done_s + pause_s:
            return False
        self._done_s = now_s
        self.pause_s = min(max(self._every_s, _PART_OF_SILENCE * (now_s - happened_s)), self._at_rest_s)
        return True


def rhythms(pace: int, pauses: Pauses) -> tuple[Rhythm, Rhythm]:
    """Return the rhythms of a driver's looks at requests and of its heartbeats, on a store of this pace."""
    return (
        Rhythm(pace, pauses.control_s, pauses.control_at_rest_s),
        Rhythm(pace, pauses.heartbeat_s, pauses.heartbeat_at_rest_s),
    )
