"""The terminal that `run` draws on: the shell lends it to one job at a time, and other runs may print on it."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def may_be_drawn_on() -> bool:
    """Return True if stderr is a terminal that can move its cursor."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def shared() -> Iterator[Callable[[], bool]]:
    """Yield what tells whether this process may draw on the terminal now.

    In the background it would draw over what others print, and where another run prints too, that run's lines would
    move the display. Each run holds a lock on the device, which is nothing to those that do not ask for it.
    """
    device = None
    with suppress(OSError):
        device = os.open(os.ttyname(sys.stderr.fileno()), os.O_RDONLY | os.O_NOCTTY)
    try:
        if device is not None:
            _is_alone(device)
        yield lambda: _is_in_the_foreground() and (device is None or _is_alone(device))
    finally:
        if device is not None:
            os.close(device)


def _is_in_the_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:
        return True  # a terminal without jobs


def _is_alone(device: int) -> bool:
    """Return True if no other run has a lock on the device; leave one of ours there."""
    alone = True
    try:
        fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        alone = False
    with suppress(OSError):  # another one looks at this very moment
        fcntl.flock(device, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return alone
