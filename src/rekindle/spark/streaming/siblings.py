"""The subtasks of one task in one driver: what is done once for all of them falls to the last.

They share one instance of each sink. It hears ``finish()`` when no subtask will prepare anything any more, and
``close()`` when none needs it; a subtask that fails and tries again may make it hear that again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rekindle.protocol.life import Call


class Siblings:
    """How far the subtasks of a task have come.

    Args:
        finished: those that had finished before this driver.
    """

    def __init__(self, parallelism: int, finished: Iterable[int] = ()) -> None:
        self._parallelism = parallelism
        self._lock = threading.Lock()
        self._over = {Call.FINISH: set(finished), Call.CLOSE: set[int]()}

    def are_over(self, call: Call, subtask: int) -> bool:
        """One more has come to its FINISH, or its CLOSE; whether all have by now."""
        with self._lock:
            self._over[call].add(subtask)
            return len(self._over[call]) == self._parallelism
