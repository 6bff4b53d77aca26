"""The runs that drivers of this process carry out: the pid of a driver alone does not prove that it lives."""

from __future__ import annotations

from contextlib import suppress

from rekindle.storage.job_documents import JobDocuments

_DRIVEN_HERE: list[tuple[str, str, int]] = []
"""Storage, job and run of each driver of this process, from its claim on. Threads add and remove whole entries."""


def drive_here(storage: JobDocuments, run: int) -> None:
    """Note that a driver of this process carries out that run, or is about to claim it."""
    _DRIVEN_HERE.append((storage.store.location, storage.job, run))


def drive_no_more(storage: JobDocuments, run: int) -> None:
    """Undo `drive_here`; a repetition does nothing."""
    with suppress(ValueError):
        _DRIVEN_HERE.remove((storage.store.location, storage.job, run))


def is_driven_here(storage: JobDocuments, run: int) -> bool:
    """Return True if a driver of this process carries out that run."""
    return (storage.store.location, storage.job, run) in _DRIVEN_HERE
