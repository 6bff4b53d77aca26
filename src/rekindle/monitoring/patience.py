"""A store that refuses what it is asked while earlier calls have no answer: it holds up no one who asks for another.

A mount whose server is gone blocks a call for as long as that lasts, and a bucket that is away takes its time to say
so. A server has only so many threads. So a call that waits for long lets the next ones fail at once, until it has its
answer: those about the same job, and all of them where the storage has answered nothing else meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from rekindle.errors import StorageError
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.open import open_store
from rekindle.storage.port import Entry, NotFound, Store

PATIENCE_S = 10.0
"""A call may take so long before the next ones are refused."""

SLOW_S = 2.0
"""A failure that took longer is not waited for again for a while."""

MOST = 24
"""Calls that may wait at the same time, once one has waited for `SLOW_S`: fewer than a server has threads. Of those
about one job, half as many."""


class _Call(NamedTuple):
    begun_s: float
    #: first folder of its path, which is the name of a job
    job: str


class _Failure(NamedTuple):
    call: _Call
    #: the time until which it is repeated
    until_s: float
    error: StorageError


class PatientStore(ForwardingStore):
    """The store `within`, as a server asks it that has others to answer. Threads may use it at the same time.

    Args:
        elapsed_s: a clock that is never set.
    """

    def __init__(self, within: Store, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(within)
        self._elapsed_s = elapsed_s
        self._lock = threading.Lock()
        #: those that have no answer yet, by number, the oldest first
        self._begun: dict[int, _Call] = {}
        self._calls = 0
        #: the last slow failure
        self._last: _Failure | None = None
        #: the time of the last answer
        self._answered_s = elapsed_s()
        #: the time of the last call that was let through although another job's call waits
        self._probed_s = self._answered_s - PATIENCE_S

    def read(self, path: str) -> bytes:
        with self._asked(path):
            return self.within.read(path)

    def open(self, path: str) -> BinaryIO:
        with self._asked(path):
            return self.within.open(path)

    def exists(self, path: str) -> bool:
        with self._asked(path):
            return self.within.exists(path)

    def names(self, folder: str) -> list[str]:
        with self._asked(folder):
            return self.within.names(folder)

    def walk(self, folder: str) -> Iterator[Entry]:
        with self._asked(folder):
            return iter([*self.within.walk(folder)])

    @contextmanager
    def _asked(self, path: str) -> Iterator[None]:
        """Let the store be asked inside; raise ``STORAGE_UNAVAILABLE`` instead where others wait for an answer."""
        number, call = self._begin(path.partition("/")[0])
        try:
            yield
        except NotFound:
            self._answered_s = self._elapsed_s()
            raise
        except StorageError as error:
            now_s = self._elapsed_s()
            if now_s - call.begun_s > SLOW_S:
                self._last = _Failure(call, now_s + PATIENCE_S, error)
            raise
        else:
            self._answered_s = self._elapsed_s()
        finally:
            with self._lock:
                del self._begun[number]

    def _begin(self, job: str) -> tuple[int, _Call]:
        now_s = self._elapsed_s()
        with self._lock:
            self._refuse_where_others_wait(now_s, job)
            last = self._last
            if last is not None and now_s < last.until_s and self._tells_of(last.call, job):
                raise last.error.with_traceback(None)
            self._calls += 1
            call = self._begun[self._calls] = _Call(now_s, job)
            return self._calls, call

    def _refuse_where_others_wait(self, now_s: float, job: str) -> None:
        waiting = [*self._begun.values()]
        of_job = [call for call in waiting if call.job == job]
        crowded = [calls for calls, most in ((waiting, MOST), (of_job, MOST // 2)) if len(calls) >= most]
        telling = [call for call in waiting if self._tells_of(call, job)]
        for most_s, calls in [(PATIENCE_S, telling), *((SLOW_S, calls) for calls in crowded)]:
            longest_s = now_s - min((call.begun_s for call in calls), default=now_s)
            if longest_s > most_s:
                if calls is telling and not of_job and now_s - self._probed_s >= PATIENCE_S:
                    self._probed_s = now_s  # its answer shows whether it is the storage that hangs, or one job
                    continue
                reason = f"it has not answered for {longest_s:.0f} s"
                raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason=reason)

    def _tells_of(self, call: _Call, job: str) -> bool:
        """Return whether a call that waits, or has failed late, says something about the documents of a job."""
        return call.job == job or self._answered_s <= call.begun_s


class PatientStores:
    """The patient store of each place, opened once: what its calls wait for is known to all that ask it.

    Args:
        most: number of places that are remembered, the first ones. Each checkpoint that is looked into is a place, too.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._stores: dict[str, PatientStore] = {}

    def __call__(self, uri: str) -> Store:
        """Return the store at a place; see `open_store`."""
        store = PatientStore(open_store(uri))
        if len(self._stores) >= self._most:
            return self._stores.get(store.location, store)
        return self._stores.setdefault(store.location, store)
