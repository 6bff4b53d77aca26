"""Interrupts of this process, as Ctrl-C makes them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Let an interrupt raise KeyboardInterrupt inside: a shell lets what it starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
