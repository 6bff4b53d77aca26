"""Moments between what code does to the world outside of its process, to crash at or to look at.

The caller names the functions through which code acts on files or servers (its *effects*). Each call of one of them has
two *moments*: before it is done and after. `at_moments` hears of every moment while code runs; `crash_at` ends the
process at one of them, as far as that can be done inside a process: `ProcessDiedError` is no `Exception`, so that
nothing handles it, and whatever ``finally`` still tries to do to the world fails as well.

Effects are named by the place they are looked up at (``"pathlib.Path.rename"``). Methods of C extensions cannot be
replaced: wrap them in a function of your own and name that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from pkgutil import resolve_name
from typing import Any
from unittest import mock


class ProcessDiedError(BaseException):
    """The process has died here."""


class Crash:
    """A crash at the `nth` moment, counted from 1."""

    def __init__(self, nth: int) -> None:
        self._nth = nth
        self._moments = 0
        #: the moment at which it came, e.g. ``"pathlib.Path.rename/before"``; None: there were not so many
        self.at: str | None = None

    def __call__(self, moment: str) -> None:
        """Hear of a moment; what is dead does nothing any more."""
        self._moments += 1
        if self._moments >= self._nth:
            self.at = self.at or moment
            raise ProcessDiedError(self.at)


@contextmanager
def crash_at(nth: int, effects: Sequence[str]) -> Iterator[Crash]:
    """Let what runs inside die at its `nth` moment; afterwards ``crash.at`` tells where, or None."""
    crash = Crash(nth)
    try:
        with at_moments(crash, effects):
            yield crash
    except ProcessDiedError:
        pass


@contextmanager
def at_moments(hear: Callable[[str], None], effects: Sequence[str]) -> Iterator[None]:
    """Call `hear` with the name of each moment that is reached inside; what `hear` does itself has none."""
    guard = _Guard(hear)
    with ExitStack() as stack:
        for name in effects:
            owner_name, _, attribute = name.rpartition(".")
            owner = resolve_name(owner_name)
            stack.enter_context(mock.patch.object(owner, attribute, _heard(owner, attribute, name, guard)))
        yield


class _Guard:
    """A guard that keeps what is done while hearing, in the same thread or greenlet, from being heard."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self._hearing = ContextVar("hearing", default=False)

    def __call__(self, moment: str) -> None:
        if self._hearing.get():
            return
        token = self._hearing.set(True)
        try:
            self._hear(moment)
        finally:
            self._hearing.reset(token)


def _heard(owner: Any, attribute: str, name: str, hear: Callable[[str], None]) -> Any:
    effect = getattr(owner, attribute)

    @wraps(effect)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        hear(f"{name}/before")
        result = effect(*args, **kwargs)
        hear(f"{name}/after")
        return result

    # What is bound already, or never is, must not be bound to an instance.
    unbound = isinstance(inspect.getattr_static(owner, attribute), staticmethod | classmethod)
    return staticmethod(wrapped) if unbound else wrapped
