"""The time of the next periodic checkpoint.

Theory of operation
-------------------

Periodic checkpoints keep an interval, and a minimum pause after any other checkpoint. After a recovery the first batch
with rows for a sink does not wait for the interval: readers have waited since the crash, and see rows with a checkpoint
only. The pause is kept then, too.

While a subtask is in *backlog*, which means that it still reads a history that a live stream continues, the interval
may be another one (FLIP-309). It is counted from the last periodic checkpoint, whichever interval was in force then.

This module does not know which checkpoints are taken, or why one is put off.
"""

from __future__ import annotations

from rekindle.ids import SubtaskId


class Periodic:
    """The times of periodic checkpoints, ms.

    Args:
        interval_ms: the interval; 0: none are taken.
        during_backlog_ms: the interval while a subtask is in backlog; None: the same.
    """

    def __init__(self, interval_ms: int, during_backlog_ms: int | None = None) -> None:
        self._interval_ms = interval_ms
        self._during_backlog_ms = interval_ms if during_backlog_ms is None else during_backlog_ms
        self._in_backlog: set[SubtaskId] = set()
        #: time before which none is taken, whatever happens
        self._pause_until_ms = 0
        #: time that the interval is counted from
        self._since_ms = 0
        #: False if the next one does not wait for the interval
        self._waits = True
        #: True after a recovery until its first rows for a sink
        self._recovers = False

    @property
    def interval_ms(self) -> int:
        """The interval in force; 0: none are taken."""
        return self._during_backlog_ms if self._in_backlog else self._interval_ms

    @property
    def due_ms(self) -> int:
        """The time from which the next one may be taken."""
        return max(self._since_ms + self.interval_ms * self._waits, self._pause_until_ms)

    def begin(self, now_ms: int, *, recovers: bool) -> None:
        """Count the interval from the start of a run.

        Args:
            recovers: True if the job has had batches before.
        """
        self._recovers = recovers
        self.taken(now_ms)

    def taken(self, now_ms: int) -> None:
        """Note that one is taken now: count the interval again."""
        self._since_ms, self._waits = now_ms, True

    def shown(self, now_ms: int) -> None:
        """Note that rows for a sink are recorded: the first after a recovery make a checkpoint due."""
        if self._recovers:
            self._recovers = False
            self._since_ms, self._waits = now_ms, False

    def pause(self, until_ms: int) -> None:
        """Take none before this time."""
        self._pause_until_ms = max(self._pause_until_ms, until_ms)

    def reads(self, task: SubtaskId, *, backlog: bool) -> None:
        """Note whether a subtask is in backlog."""
        (self._in_backlog.add if backlog else self._in_backlog.discard)(task)
