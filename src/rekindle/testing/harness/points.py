"""The points at which a driver dies or fails: its durable steps, which it announces before and after.

A dead driver is one to which every further step raises: whatever it tries to make durable, from whichever thread, it
cannot. The next driver has points of its own.
"""

from __future__ import annotations

import difflib
import threading
from collections import Counter

from rekindle.runtime.elapsed import Elapsed
from rekindle.runtime.steps import ALL

_WHEN = ("before", "after")


class CrashedError(Exception):
    """The driver has died where the test wanted it to."""


class InjectedError(Exception):
    """The failure that a test has asked for."""


def checked(step: str) -> str:
    """Return `step` as it is announced.

    Raises:
        ValueError: there is no such step.
    """
    name, _, when = step.partition("/")
    if name not in ALL or when not in _WHEN:
        close = difflib.get_close_matches(name, ALL, n=1)
        raise ValueError(f"no step {step!r}; did you mean '{close[0] if close else 'sink.commit'}/before'?")
    return step


class Points:
    """The steps of one driver: a `Steps` callable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._crash_at: str | None = None
        self._fail_at: Counter[str] = Counter()
        #: steps since a crash was last asked for
        self.reached: list[str] = []
        self.dead = False

    def __call__(self, name: str) -> None:
        """Hear of a step."""
        with self._lock:
            self.reached.append(name)
            self.dead = self.dead or name == self._crash_at
            if self.dead:
                raise CrashedError(name)
            if self._fail_at[name]:
                self._fail_at[name] -= 1
                raise InjectedError(f"injected at {name}")

    def crash_at(self, step: str) -> None:
        """Let the driver die at a step."""
        with self._lock:
            self._crash_at, self.reached = step, []

    def crash_nowhere(self) -> None:
        """Let the driver live on: ask for no crash."""
        with self._lock:
            self._crash_at = None

    def fail_at(self, step: str) -> None:
        """Let a step fail once more."""
        with self._lock:
            self._fail_at[step] += 1

    def die(self) -> None:
        """Let the driver be dead from now on."""
        with self._lock:
            self.dead = True


class ManualTime(Elapsed):
    """Time that passes only when a test says so; a driver that is dead cannot look at it."""

    def __init__(self, points: Points, from_ms: int) -> None:
        super().__init__()
        self._points = points
        self._now_ms = from_ms
        self._turned = threading.Condition()
        #: number of times that the driver has looked: once in each turn of its loop
        self.looks = 0

    def now_ms(self) -> int:
        """See `Elapsed`."""
        with self._turned:
            self.looks += 1
            self._turned.notify_all()
        if self._points.dead:
            raise CrashedError
        return self._now_ms

    def shown_ms(self) -> int:
        """Return the time without looking."""
        return self._now_ms

    def pass_ms(self, passed_ms: int) -> None:
        """Let time pass."""
        self._now_ms += passed_ms

    def wait_for_look(self, before: int, timeout_s: float) -> None:
        """Wait until the driver has looked once more than `before`."""
        with self._turned:
            self._turned.wait_for(lambda: self.looks > before, timeout_s)
