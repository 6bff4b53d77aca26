"""Signs of life beside a driver's loop: as a run starts, and between two runs of a process.

Without them a long restore, or a pause before another engine is tried, would look from other machines like a dead
driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from rekindle.errors import ControlError, StorageError
from rekindle.runtime.elapsed import system_clock
from rekindle.start.launch import Launch
from rekindle.storage import layout

_BEAT_S = 1.0


@contextmanager
def beating(beat: Callable[[], object], pace: float = 1.0) -> Iterator[None]:
    """Keep a heartbeat going inside.

    Args:
        beat: gives one sign of life; it raises nothing.
        pace: that of the storage: seconds between two.
    """
    over = threading.Event()

    def keep_on() -> None:
        while not over.wait(_BEAT_S * pace):
            beat()

    thread = threading.Thread(target=keep_on, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def beating_as_it_starts(launch: Launch) -> Iterator[None]:
    """Keep ``starting.json`` going inside, from the moment at which the launch has claimed a run."""
    storage, beats = launch.storage, 0

    def beat() -> None:
        nonlocal beats
        if launch.claimed is not None:
            beats += 1
            sign = replace(launch.claimed, beat=beats, written_ms=system_clock(), description=None)
            with suppress(StorageError, ControlError):  # the start itself meets these
                storage.replace(layout.status(storage.job, begun=False), sign)

    with beating(beat, storage.store.pace):
        yield
