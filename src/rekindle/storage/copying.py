"""Copying objects from one store to another: one, or many side by side.

Threads of our own, not a `ThreadPoolExecutor`: Python waits for an executor's threads when it exits, and a copy may
hang for as long as a server does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from rekindle.errors import StorageError
from rekindle.storage.port import NotFound, Store

Item = TypeVar("Item")

SIDE_BY_SIDE = 8
"""Number of objects that are copied at a time: each copy waits for a server most of its time."""


def copy_between(source: Store, path: str, target: Store, target_path: str) -> int:
    """Copy an object that must be there; return its size in bytes. Safe to repeat.

    Raises:
        StorageError: ``OBJECT_CORRUPT``, it vanished.
    """
    try:
        return target.copy_from(source, path, target_path)
    except NotFound as error:
        raise StorageError("OBJECT_CORRUPT", path=path, reason="it vanished while it was copied") from error


def copy_all(source: Store, target: Store, paths: Iterable[tuple[str, str]]) -> int:
    """Copy objects that must be there, from path to path, several at a time; return their size in bytes.

    Raises:
        StorageError: the first that went wrong; ``OBJECT_CORRUPT`` where one vanished.
    """
    sizes: list[int] = []
    side_by_side(lambda pair: sizes.append(copy_between(source, pair[0], target, pair[1])), paths)
    return sum(sizes)


def side_by_side(act: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Do something with each of these items, several at a time; raise the first error, once none is under way.

    An interrupt counts as an error, so that the caller may delete what was made. A second one is raised at once.
    """
    left, taking = iter(list(items)), threading.Lock()
    wrong: list[BaseException] = []

    def work() -> None:
        while not wrong:
            with taking:
                taken = [*islice(left, 1)]
            if not taken:
                return
            try:
                act(taken[0])
            except BaseException as error:
                wrong.append(error)

    def work_beside(ended: threading.Event) -> None:
        work()
        ended.set()

    # Not by `join`: Python 3.11 takes a thread for dead whose `join` was interrupted.
    others = [threading.Event() for _ in range(SIDE_BY_SIDE - 1)]
    for ended in others:
        threading.Thread(target=work_beside, args=(ended,), name="copy", daemon=True).start()
    try:
        work()
        _wait_for(others)
    except KeyboardInterrupt as error:
        wrong.append(error)
        _wait_for(others)
    if wrong:
        raise wrong[0]


def _wait_for(events: Iterable[threading.Event]) -> None:
    for event in events:
        event.wait()
