"""The events that the driver's loop has still to handle, from any thread."""

from __future__ import annotations

import queue
from dataclasses import replace

from rekindle.protocol import events as e
from rekindle.runtime.ports import Lifeline


class Mailbox:
    """A queue of events, in the order in which they were posted."""

    def __init__(self, engine: Lifeline) -> None:
        self._engine = engine
        self._events: queue.SimpleQueue[e.Event | None] = queue.SimpleQueue()

    def post(self, event: e.Event) -> None:
        """Take in an event from any thread.

        A `TaskFailed` must not come from the loop's thread: the engine is asked whether it is gone, which may take
        time.
        """
        if isinstance(event, e.TaskFailed) and event.permanent and self._engine.is_gone():
            # The error may mislead: a dying engine loses files, and refuses plans.
            event = replace(event, permanent=False)
        self._events.put(event)

    def wake(self) -> None:
        """Let `take` return, even without an event."""
        self._events.put(None)

    def take(self, wait_s: float | None = None) -> e.Event | None:
        """Return the next event; None if there is none within `wait_s` seconds (None: do not wait)."""
        try:
            return self._events.get_nowait() if wait_s is None else self._events.get(timeout=wait_s)
        except queue.Empty:
            return None
