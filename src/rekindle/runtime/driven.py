"""Which runs a driver of this process is at work on: its pid alone does not say that it lives."""

from __future__ import annotations

from collections import Counter

from rekindle.storage.job_documents import JobDocuments

_DRIVEN_HERE: Counter[tuple[str, str, int]] = Counter()
"""Storage, job and run of each driver of this process, from its claim on."""


def drive_here(storage: JobDocuments, run: int) -> None:
    """Say that a driver of this process is at work on that run, or about to claim it."""
    _DRIVEN_HERE[storage.store.location, storage.job, run] += 1


def drive_no_more(storage: JobDocuments, run: int) -> None:
    """Take back what `drive_here` said."""
    _DRIVEN_HERE[storage.store.location, storage.job, run] -= 1


def is_driven_here(storage: JobDocuments, run: int) -> bool:
    """Return True if a driver of this process is at work on that run."""
    return _DRIVEN_HERE[storage.store.location, storage.job, run] > 0
