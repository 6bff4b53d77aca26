"""The liveness of the driver that wrote a document, as seen by any process that shares the storage.

Clocks are never compared: two machines' clocks differ, and a suspended laptop's jump. There are two ways to know:

- *On the driver's own machine* the process table says it at once. A pid alone is no proof, since the system uses it
  again, and means nothing in another container; so documents also carry `process_started`, which names the pid
  namespace and the process's start. Machines that share a storage need different host names.
- *From elsewhere* only a heartbeat that moves does: read twice, at least `silence_ms` apart, and compare. A driver that
  has claimed its run and still restores or lists files has one too (`rekindle.start.beating`). A driver in a
  bucket that has nothing to do beats rarely, and says in each heartbeat when the next one comes. A process that
  cannot wait for that rings its bell.

A process that is there may still do nothing, as one that is stopped (SIGSTOP), or whose storage hangs: `may_be_silent`.
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from typing import NamedTuple

from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import Status
from rekindle.storage.port import Store

SILENCE_MS = 10_000
"""A driver whose heartbeat has not moved between two reads this far apart is gone, where it beats once a second."""

_HEARTBEATS_MS = 3_000
"""Milliseconds of silence that are allowed in addition for each second between two heartbeats beyond the first."""


def silence_ms(store: Store, driver: Run | Status | None = None) -> int:
    """Return how long a heartbeat may not move before its driver counts as gone, in ms: several heartbeats.

    Args:
        driver: its latest document, where its bell was not rung (`storage.bell`): a driver at rest beats more rarely,
            and says so in it. None: the bell was rung, or nothing is known of the driver; then only the pace of its
            store counts.
    """
    of_store = SILENCE_MS + (store.pace - 1) * _HEARTBEATS_MS
    if not isinstance(driver, Status) or driver.next_beat_ms is None:
        return of_store
    return max(of_store, SILENCE_MS + (driver.next_beat_ms - 1_000) * _HEARTBEATS_MS // 1_000)


_ENDED = ("Z", "X")
"""States of a process (proc(5)) that has ended and only waits for its parent to take notice."""


class Process(NamedTuple):
    """A process that wrote a document: the fields that `Run` and `Status` have of it."""

    host: str
    pid: int
    process_started: str


def this_process() -> Process:
    """Return the process that calls this."""
    pid = os.getpid()
    return Process(socket.gethostname(), pid, _start_of(pid))


@lru_cache(maxsize=1)  # a list of many jobs asks for each, and a fork has another pid
def _start_of(pid: int) -> str:
    _, ticks = _proc_stat(pid)
    return f"{_namespace()}/{ticks}" if ticks else ""


def is_alive(driver: Run | Status, earlier: Run | Status | None = None) -> bool | None:
    """Return whether the driver still runs.

    Args:
        driver: its latest sign of life (`JobStorage.driver`).
        earlier: the same, read at least `silence_ms` before; needed only where the answer was None without it.

    Returns:
        True or False; None where this machine cannot tell from one read: ask again with `earlier`.
    """
    here = this_process()
    namespace, _, ticks = driver.process_started.partition("/")
    if (driver.host, namespace) == (here.host, here.process_started.partition("/")[0]):
        return _runs(driver.pid, ticks)
    return None if earlier is None else _sign(driver) != _sign(earlier)


def age_ms(driver: Run | Status, now_ms: int) -> int | None:
    """Return the age of a sign of life in ms; None where it has no time. It compares clocks, so it is for people."""
    return max(now_ms - driver.written_ms, 0) if driver.written_ms else None


def may_be_silent(driver: Run | Status, store: Store, now_ms: int) -> bool:
    """Return whether a sign of life looks old enough for a second look (`has_moved`): a clock alone is no proof."""
    age = age_ms(driver, now_ms)
    return age is not None and age > silence_ms(store, driver)


def has_moved(driver: Run | Status | None, earlier: Run | Status | None) -> bool:
    """Return whether a driver or its successor has given a sign of life between two reads; True where one is None."""
    return driver is None or earlier is None or _sign(driver) != _sign(earlier)


def _sign(driver: Run | Status) -> tuple[int, bool, int]:
    return (driver.run, isinstance(driver, Status), driver.beat)


def _runs(pid: int, ticks: str) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the second: no system has such a number
        return False
    except PermissionError:
        pass  # It exists, under another user.
    state, found = _proc_stat(pid)
    return state not in _ENDED and (not found or found == ticks)


def _proc_stat(pid: int) -> tuple[str, str]:
    """Return the state and the start (clock ticks since boot) of a process; empty where the system shows neither."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The second field is the program's name in brackets, and may hold blanks and brackets itself.
            fields = file.read().rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
