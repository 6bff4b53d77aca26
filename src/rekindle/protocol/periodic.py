"""The time of the next periodic checkpoint.

Theory of operation
-------------------

Periodic checkpoints keep an interval, and a minimum pause after any other checkpoint. After a recovery the first batch
with rows for a sink does not wait for the interval: readers have waited since the crash, and see rows with a checkpoint
only. The pause is kept then, too.

This module does not know which checkpoints are taken, or why one is put off.
"""

from __future__ import annotations


class Periodic:
    """The times of periodic checkpoints, ms."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        #: time from which the next one may be taken
        self.due_ms = 0
        #: time before which none is taken, whatever happens
        self._pause_until_ms = 0
        #: True after a recovery until its first rows for a sink
        self._recovers = False

    def begin(self, now_ms: int, *, recovers: bool) -> None:
        """Count the interval from the start of a run.

        Args:
            recovers: True if the job has had batches before.
        """
        self._recovers = recovers
        self.taken(now_ms)

    def taken(self, now_ms: int) -> None:
        """Note that one is taken now: count the interval again."""
        self.due_ms = now_ms + self._interval_ms

    def shown(self, now_ms: int) -> None:
        """Note that rows for a sink are recorded: the first after a recovery make a checkpoint due."""
        if self._recovers:
            self._recovers = False
            self.due_ms = max(now_ms, self._pause_until_ms)

    def pause(self, until_ms: int) -> None:
        """Take none before this time."""
        self._pause_until_ms = max(self._pause_until_ms, until_ms)
        self.due_ms = max(self.due_ms, until_ms)
