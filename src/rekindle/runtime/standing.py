"""Whether a run still stands: no newer one has taken over, and its job was not deleted under it."""

from __future__ import annotations

from rekindle.errors import StorageError
from rekindle.runtime.definition import RunContext
from rekindle.runtime.trying import tried

LOOKS_GONE = 3
"""Looks in a row, one before each heartbeat, that find the job deleted, until it counts: a mount may come back."""


class RunStanding:
    """What the storage says of one run. A storage that does not answer says nothing."""

    def __init__(self, run: RunContext) -> None:
        self._storage = run.storage
        self._run = run.run
        #: looks in a row that have found the job deleted
        self._looks_gone = 0

    def fenced_by(self) -> int | None:
        """Return the newer run that has taken over; None while there is none."""
        return tried(lambda: self._storage.fence.newer_than(self._run.run))

    def is_gone(self) -> bool:
        """Return True if the job is deleted, as it looks now."""
        return bool(tried(lambda: self._storage.fence.is_deleted(self._run)))

    def look(self) -> bool:
        """Look whether the job is deleted; return True if it is there.

        Raises:
            StorageError: ``STORAGE_GONE``; what the run writes from now on would be found by no one.
        """
        self._looks_gone = self._looks_gone + 1 if self.is_gone() else 0
        if self._looks_gone >= LOOKS_GONE:
            raise self.gone()
        return not self._looks_gone

    def refuse_if_gone(self) -> None:
        """Raise StorageError ``STORAGE_GONE`` where the job is deleted."""
        if self.is_gone():
            raise self.gone()

    def gone(self) -> StorageError:
        """Return the error that says so."""
        uri = self._storage.store.location
        return StorageError("STORAGE_GONE", job=self._storage.job, uri=uri, run=self._run.run)
