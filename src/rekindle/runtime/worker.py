"""A thread that carries out one order after the other.

This is not a `ThreadPoolExecutor`: Python waits for an executor's threads when it exits, and an order may hang for as
long as a user's function does.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol


class Worker:
    """A queue of orders, carried out one after the other. They report by themselves and do not raise."""

    def __init__(self, name: str) -> None:
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, order: Callable[[], None]) -> None:
        """Queue an order."""
        self._orders.put(order)

    def ask(self, order: Callable[[], None], wait_s: float) -> bool:
        """Queue an order, and wait until it is done; drop it if it has not begun within `wait_s` seconds.

        Return True if it is done.
        """
        turn: queue.SimpleQueue[None] = queue.SimpleQueue()
        done: queue.SimpleQueue[None] = queue.SimpleQueue()
        turn.put(None)

        def in_turn() -> None:
            if _taken(turn):
                order()
                done.put(None)

        self.submit(in_turn)
        try:
            done.get(timeout=wait_s)
        except queue.Empty:
            if _taken(turn):
                return False
            done.get()  # it has begun
        return True

    def close(self, wait_s: float = 0) -> None:
        """End the thread after its queued orders; wait for that at most `wait_s` seconds."""
        self._orders.put(None)
        self.join(wait_s)

    def join(self, wait_s: float) -> None:
        """Wait at most `wait_s` seconds until its thread has ended."""
        self._thread.join(wait_s)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            order()


class _Joined(Protocol):
    """A thread, or a worker."""

    def join(self, wait_s: float, /) -> None: ...


def join_all(threads: Iterable[_Joined], wait_s: float) -> None:
    """Wait until these have ended; for all of them together at most `wait_s` seconds."""
    until_s = time.monotonic() + wait_s
    for thread in threads:
        thread.join(max(until_s - time.monotonic(), 0))


def _taken(turn: queue.SimpleQueue[None]) -> bool:
    """Return True to the first caller."""
    try:
        turn.get_nowait()
    except queue.Empty:
        return False
    return True
