"""The sessions that jobs of one process share: the last of them stops a session that Rekindle has made.

A process has one SparkContext. So a start without a session gets the one that is there, if one is: another job's, or
the user's, which is never stopped.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

_LOCK = threading.Lock()
_USERS: Counter[Any] = Counter()
"""A SparkContext that Rekindle has made → the number of jobs that use it."""


def _active() -> Any:
    return SparkContext._active_spark_context


def is_of_user() -> bool:
    """Return True if this process has a session that Rekindle has not made."""
    context = _active()
    return context is not None and context not in _USERS


def is_in_use() -> bool:
    """Return True if a job uses the session that this process has, and Rekindle has made."""
    return _active() in _USERS


class Shared:
    """A job's share in a session.

    Args:
        make: returns the session, a new one where there is none.
        active: returns the SparkContext that there is; None: there is none.
    """

    def __init__(self, make: Callable[[], SparkSession], active: Callable[[], Any] = _active) -> None:
        self._active = active
        with _LOCK:
            before = active()
            self.spark = make()
            self._context = self.spark.sparkContext
            #: it is Rekindle's own
            self.ours = self._context is not before or self._context in _USERS
            if self.ours:
                _USERS[self._context] += 1
            self._given_back = not self.ours

    def end(self, *, gone: bool) -> bool:
        """Give the share back, once; return True if the session is to be stopped.

        Args:
            gone: it is of no use any more, for any job.
        """
        with _LOCK:
            if self._given_back:
                return False
            self._given_back = True
            _USERS[self._context] -= 1
            is_last = _USERS[self._context] <= 0
            if is_last:
                del _USERS[self._context]
            # Stopped once more, an old one would make PySpark forget the one that has taken its place.
            return (is_last or gone) and self._active() is self._context
