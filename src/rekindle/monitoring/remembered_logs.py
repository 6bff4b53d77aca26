"""The history of one job as a monitor reads it: closed segments are read once, the newest rows not at every look."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.history import log
from rekindle.storage.documents.history import CheckpointRecord, RateSample
from rekindle.storage.documents.status import Status
from rekindle.storage.job_documents import JobDocuments

_SAMPLE_MS = 5_000
"""The time for which a sample of rates counts as the newest: there is one every ten seconds."""

_APART_MS = 10_000
"""The time between two samples."""


class RememberedLogs:
    """The logs that the driver of a job writes."""

    def __init__(self, storage: JobDocuments, elapsed_ms: Callable[[], int]) -> None:
        self._storage = storage
        self._elapsed_ms = elapsed_ms
        #: time at which it was read, and the sample
        self._latest_rates: tuple[int, RateSample | None] | None = None
        #: the run in which it was read, and the record
        self._latest_checkpoint: tuple[int, CheckpointRecord | None] = (0, None)
        #: closed segments, which no one changes; those that were deleted are dropped
        self._segments: dict[tuple[str, str, str], log.Segment] = {}

    def events(self, after: int = -1) -> list[log.Numbered]:  # type: ignore[type-arg]
        """Read the events with numbers above `after`, the oldest first."""
        return log.read(self._storage, log.EVENTS, after, self._segments)

    def checkpoints(self) -> list[CheckpointRecord]:
        """Read the records of checkpoints, the oldest first."""
        return [row.row for row in log.read(self._storage, log.CHECKPOINTS, cache=self._segments)]

    def rates(self, since_ms: int = 0) -> list[RateSample]:
        """Read the samples of rates after a moment, the oldest first; segments that are all older are not read."""
        rows = log.newest(self._storage, log.RATES, self._segments)
        if rows and rows[0].row.time_ms > since_ms:
            enough = 3 * (rows[-1].row.time_ms - since_ms) // (2 * _APART_MS)
            rows = log.read(self._storage, log.RATES, max(rows[-1].number - enough, 0) - 1, self._segments)
        return [row.row for row in rows if row.row.time_ms > since_ms]

    def latest_rates(self) -> RateSample | None:
        """Read the newest sample; one that was read a moment ago is still the newest."""
        now_ms = self._elapsed_ms()
        if self._latest_rates is None or now_ms - self._latest_rates[0] >= _SAMPLE_MS:
            rows = log.newest(self._storage, log.RATES, self._segments)
            self._latest_rates = (now_ms, rows[-1].row if rows else None)
        return self._latest_rates[1]

    def latest_checkpoint(self, status: Status) -> CheckpointRecord | None:
        """Read the newest completed one of the newest records, unless the heartbeat says that it is the one known."""
        run, known = self._latest_checkpoint
        if known is None or run != status.run or known.id != status.latest_checkpoint:
            rows = log.newest(self._storage, log.CHECKPOINTS, self._segments)
            known = next((row.row for row in reversed(rows) if row.row.status == "completed"), None)
            self._latest_checkpoint = (status.run, known)
        return known
