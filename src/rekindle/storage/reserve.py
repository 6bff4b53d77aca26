"""The room that a job takes up on its disk, so that how a run ended can be written when the disk is full."""

from __future__ import annotations

from rekindle.storage import layout
from rekindle.storage.port import Store

_BYTES = 64 * 1024
"""More room than a result takes, since others may be waiting for room too."""


def keep_reserve(store: Store, job: str) -> None:
    """Take up the room, if it is not taken; there is none to keep in a bucket."""
    path = layout.reserve(job)
    if store.pace == 1 and not store.exists(path):
        store.create(path, bytes(_BYTES))


def free_reserve(store: Store, job: str) -> None:
    """Give the room back to the disk."""
    store.delete(layout.reserve(job))
