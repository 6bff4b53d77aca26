"""The runs that drivers of this process carry out: the pid of a driver alone does not prove that it lives."""

from __future__ import annotations

from collections import Counter

from rekindle.storage.job_documents import JobDocuments

_DRIVEN_HERE: Counter[tuple[str, str, int]] = Counter()
"""(Storage, job, run) → number of drivers of this process, each from its claim on."""


def drive_here(storage: JobDocuments, run: int) -> None:
    """Note that a driver of this process carries out that run, or is about to claim it."""
    _DRIVEN_HERE[storage.store.location, storage.job, run] += 1


def drive_no_more(storage: JobDocuments, run: int) -> None:
    """Undo `drive_here`."""
    _DRIVEN_HERE[storage.store.location, storage.job, run] -= 1


def is_driven_here(storage: JobDocuments, run: int) -> bool:
    """Return True if a driver of this process carries out that run."""
    return _DRIVEN_HERE[storage.store.location, storage.job, run] > 0
