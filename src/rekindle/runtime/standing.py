"""The standing of a run: it may continue if no newer run has taken over, and its job was not deleted."""

from __future__ import annotations

from rekindle.errors import JobError, RekindleError, StorageError, one_line
from rekindle.runtime.definition import RunContext
from rekindle.runtime.trying import tried

LOOKS_GONE = 3
"""The number of looks in a row, one before each heartbeat, that must find the job deleted: a mount may come back."""


class RunStanding:
    """The standing of one run in the storage. While the storage does not answer, the run continues."""

    def __init__(self, run: RunContext) -> None:
        self._storage = run.storage
        self._run = run.run
        #: looks in a row that have found the job deleted
        self._looks_gone = 0

    def fenced_by(self) -> int | None:
        """Return the newer run that has taken over; None: there is none."""
        return tried(lambda: self._storage.fence.newer_than(self._run.run))

    def is_gone(self) -> bool:
        """Return True if the job is deleted, as it looks now."""
        return bool(tried(lambda: self._storage.fence.is_deleted(self._run)))

    def look(self) -> bool:
        """Look whether the job is deleted; return True if it is there.

        Raises:
            StorageError: ``STORAGE_GONE``; no one would find the data that the run writes from now on.
        """
        self._looks_gone = self._looks_gone + 1 if self.is_gone() else 0
        if self._looks_gone >= LOOKS_GONE:
            raise self.gone()
        return not self._looks_gone

    def refuse_if_gone(self) -> None:
        """Raise StorageError ``STORAGE_GONE`` if the job is deleted."""
        if self.is_gone():
            raise self.gone()

    def gone(self) -> StorageError:
        """Return the error for a deleted job."""
        uri = self._storage.store.location
        return StorageError("STORAGE_GONE", job=self._storage.job, uri=uri, run=self._run.run)

    def cause_of(self, error: BaseException) -> BaseException:
        """Return the error to report for one that has ended the run; what is no `Exception` is returned as it is."""
        if not isinstance(error, Exception):
            return error
        if self.is_gone():
            return self.gone()
        if isinstance(error, RekindleError):
            return error
        return JobError("DRIVER_FAILED", job=self._storage.job, reason=one_line(error))
