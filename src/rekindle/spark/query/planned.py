"""The batches that Spark has planned for a query: which one this run has found, and which plans it forgets.

A driver that was thought dead may still be at the batch that a run finds planned. So that plan is never replaced by
another (docs/decisions/0039-a-plan-that-was-found.md); what this run's own query plans and no one records is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rekindle.progress.directory import Offsets, last_committed, last_planned, plant_due, read_offsets, unplant
from rekindle.progress.plans import plan_again, put_back
from rekindle.spark.query.flush import BEYOND_TIME_MS, END_OF_TIME_MS
from rekindle.spark.query.query import Query
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.port import Store


class PlannedBatches:
    """The planned batches of one query.

    Args:
        folder: what Spark keeps of the query.
        may_be_flushed: whether it reads nothing more. A watermark of the year 9999 does not tell: a row may be of that
            year. One beyond it does, and a driver that was overtaken as it drained may have planned that meanwhile.
    """

    def __init__(self, store: Store, folder: str, may_be_flushed: Callable[[], bool]) -> None:
        self._store = store
        self._folder = folder
        self._may_be_flushed = may_be_flushed
        #: the batch that this run has found planned and that may have been run, -1 for none
        self.found = -1
        #: the watermark of the last recorded batch, ms; None where it is not known, or the batch was a flush
        self.watermark_ms: int | None = None

    def look(self) -> None:
        """Find what is planned, before this run plans anything."""
        self.found = self._find()

    def _find(self) -> int:
        """Find the last planned batch; nothing follows a flush but another."""
        planned, committed = self._last()
        if planned > committed >= 0:
            last, following = (read_offsets(self._store, self._folder, batch) for batch in (committed, planned))
            if self._is_flush(last) and last.sources != following.sources:
                return committed
        return planned

    def _last(self) -> tuple[int, int]:
        return last_planned(self._store, self._folder), last_committed(self._store, self._folder)

    def put_back(self, record: BatchRecord | None, before: BatchRecord | None = None) -> None:
        """Let the plan of the last record count, also where it had been forgotten before the record came.

        So it is if a driver that was thought dead wakes up: its successor may have held that batch back meanwhile.
        Where the connector of a bucket creates nothing conditionally, what such a driver was about to write may also
        lie over the plan of the last record or the one before.
        """
        if before is not None and before.offsets:
            plan_again(self._store, self._folder, before.batch, before.offsets_hash, before.offsets)
        self.watermark_ms = record.watermark_ms if record is not None and not record.flush else None
        if record is not None and record.offsets:
            put_back(self._store, self._folder, record.batch, record.offsets_hash, record.offsets)

    def replay(self, query: Query, last: int, record: BatchRecord | None) -> None:
        """Run a batch again that is recorded but not committed, for its state; forget one that is only planned.

        Args:
            last: the last recorded batch, -1 for none.
            record: of that.
        """
        self.put_back(record)
        if not query.commits.has(last):
            query.run_to(last)
        self.forget()

    def run_found(self, query: Query, last: int) -> None:
        """Run the batch that was found planned, if it has no record: no other is ever planned in its place.

        A driver that was thought dead may be at it. Whatever its executors still write is then of the same batch.
        What Spark plans to follow it meanwhile is forgotten: it would be taken for the first batch of the flush.
        """
        if self.found > last and not self.is_flushed():
            query.run_to(self.found)
            self.forget()

    def plant_due(self, output_mode: str, timers_at_ms: Callable[[], int | None]) -> None:
        """Plan the batch without data that is due, if one is; in complete mode none ever is.

        Args:
            timers_at_ms: see `rekindle.progress.directory.plant_due`.
        """
        if output_mode != "complete":
            plant_due(self._store, self._folder, timers_at_ms)

    def forget(self, *, keep_found: bool = True) -> None:
        """Forget what is planned and not committed, except the batch that was found."""
        if keep_found:
            unplant(self._store, self._folder, keep=self.found)
        else:
            unplant(self._store, self._folder)

    def is_flushed(self) -> bool:
        """Return True if an earlier run was flushing it: all that it reads has ended, whatever followed would be late.

        A driver that was overtaken may have planned another batch after the flush.
        """
        batches = {*self._last()} - {-1}
        return any(self._is_flush(read_offsets(self._store, self._folder, one)) for one in batches)

    def _is_flush(self, offsets: Offsets) -> bool:
        watermark_ms = offsets.batch_watermark_ms
        return watermark_ms >= BEYOND_TIME_MS or (watermark_ms >= END_OF_TIME_MS and self._may_be_flushed())

    def fixed_settings(self) -> Mapping[str, Any]:
        """Return the settings that Spark wrote down when the query first ran, and goes by from then on."""
        planned = last_planned(self._store, self._folder)
        return read_offsets(self._store, self._folder, planned).metadata.get("conf", {}) if planned >= 0 else {}
