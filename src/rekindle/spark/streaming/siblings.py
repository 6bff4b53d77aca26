"""The subtasks of one task in one driver: what is done once for all of them falls to the last.

They share one instance of each sink. It hears ``finish()`` when no subtask will prepare anything any more; a subtask
that fails and tries again may make it hear that again. It hears ``close()`` each time that no subtask is in an attempt.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable


class Siblings:
    """The progress of the subtasks of a task: those in an attempt, and those that have finished.

    Args:
        finished: those that had finished before this driver.
    """

    def __init__(self, parallelism: int, finished: Iterable[int] = ()) -> None:
        self._parallelism = parallelism
        self._lock = threading.Lock()
        self._finished = set(finished)
        every = set(range(parallelism))
        #: those in an attempt, or about to begin their first; where all had finished, all, as the sinks were opened
        self._at_work = every - self._finished or every

    def finish(self, subtask: int) -> bool:
        """Mark a subtask as finished; return True if all have finished by now."""
        with self._lock:
            self._finished.add(subtask)
            return len(self._finished) == self._parallelism

    def begin(self, subtask: int) -> None:
        """Mark the beginning of a subtask's attempt."""
        with self._lock:
            self._at_work.add(subtask)

    def close(self, subtask: int) -> bool:
        """Mark the end of a subtask's attempt; return True if it was the last one at work."""
        with self._lock:
            was_at_work = subtask in self._at_work
            self._at_work.discard(subtask)
            return was_at_work and not self._at_work
