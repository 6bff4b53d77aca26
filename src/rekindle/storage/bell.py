"""The bell of a job: one small object that its driver reads, where each look is a request that is paid for.

A process that wants the driver to look rings the bell: it has left a request, has claimed the next run, or asks for a
sign of life. So a driver has one thing to read, however much there may be to find. Where looks are free there is no
bell.
"""

from __future__ import annotations

from contextlib import suppress

from rekindle.errors import RekindleError
from rekindle.storage import layout
from rekindle.storage.port import NotFound, Store


def ring(store: Store, job: str, what_for: str) -> None:
    """Let the driver of a job look. Where the storage refuses that, the driver looks by itself some time later.

    Args:
        what_for: different each time.
    """
    if store.pace > 1:
        with suppress(RekindleError):
            store.replace(layout.bell(job), what_for.encode())


def rung_for(store: Store, job: str) -> bytes:
    """Return what the bell was rung for last; empty where it never was."""
    try:
        return store.read(layout.bell(job))
    except NotFound:
        return b""
