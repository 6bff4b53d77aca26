"""A store that refuses what it is asked while earlier calls have no answer: it holds up no one who asks for another.

A mount whose server is gone blocks a call for as long as that lasts, and a bucket that is away takes its time to say
so. A server has only so many threads. So a call that waits for long lets the next ones fail at once, until it has its
answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from rekindle.errors import StorageError
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.port import Store

PATIENCE_S = 10.0
"""A call may take so long before the next ones are refused."""

SLOW_S = 2.0
"""A failure that took longer is not waited for again for a while."""

MOST = 24
"""Calls that may wait at the same time, once one has waited for `SLOW_S`: fewer than a server has threads."""


class PatientStore(ForwardingStore):
    """The store `within`, as a server asks it that has others to answer. Threads may use it at the same time.

    Args:
        elapsed_s: a clock that is never set.
    """

    def __init__(self, within: Store, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(within)
        self._elapsed_s = elapsed_s
        self._lock = threading.Lock()
        #: call that has no answer yet → the time at which it began
        self._begun: dict[int, float] = {}
        self._calls = 0
        #: the time until which the last slow failure is repeated, and that failure
        self._last: tuple[float, StorageError] | None = None

    def read(self, path: str) -> bytes:
        with self._asked():
            return self.within.read(path)

    def open(self, path: str) -> BinaryIO:
        with self._asked():
            return self.within.open(path)

    def exists(self, path: str) -> bool:
        with self._asked():
            return self.within.exists(path)

    def names(self, folder: str) -> list[str]:
        with self._asked():
            return self.within.names(folder)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Let the store be asked inside; raise ``STORAGE_UNAVAILABLE`` instead where others wait for an answer."""
        call, begun_s = self._begin()
        try:
            yield
        except StorageError as error:
            now_s = self._elapsed_s()
            if now_s - begun_s > SLOW_S:
                self._last = (now_s + PATIENCE_S, error)
            raise
        finally:
            with self._lock:
                del self._begun[call]

    def _begin(self) -> tuple[int, float]:
        now_s = self._elapsed_s()
        with self._lock:
            longest_s = now_s - min(self._begun.values(), default=now_s)
            if longest_s > PATIENCE_S or (longest_s > SLOW_S and len(self._begun) >= MOST):
                reason = f"it has not answered for {longest_s:.0f} s"
                raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason=reason)
            if self._last is not None and now_s < self._last[0]:
                raise self._last[1].with_traceback(None)
            self._calls += 1
            self._begun[self._calls] = now_s
            return self._calls, now_s
