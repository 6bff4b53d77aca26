"""The deletion of what no retained checkpoint needs of a subtask: logs of sources, outputs and batch records."""

from __future__ import annotations

from rekindle.channels.split_feed import purge_reads
from rekindle.progress.directory import SourceInputs, read_offsets
from rekindle.progress.retention import SourceLogs
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.storage import layout, read_layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.numbered import names_before

SETTLED_MS = 600_000
"""The time from the final end of a task until what Spark keeps of it is deleted: an upload of its state that was under
way when its query was stopped is over by then. No other is begun."""

AT_ONCE = 50
"""The batches whose outputs are deleted together where each look at a folder is paid for, as in a bucket: to keep them
so much longer costs less than to look for them at each checkpoint."""


class Purging:
    """The deletion of what one subtask has stored.

    Args:
        folder: the subtask's.
        kept: the batches that Spark has to keep of its query.
        source_logs: the logs of its query's file sources.
    """

    def __init__(self, storage: BatchDocuments, folder: str, kept: KeptBatches, source_logs: SourceLogs) -> None:
        self._storage = storage
        self._folder = folder
        self._progress_dir = layout.spark_progress_dir(folder)
        self._kept = kept
        self._source_logs = source_logs
        self._source_inputs = SourceInputs(storage.store, self._progress_dir)
        self._at_once = AT_ONCE if storage.store.pace > 1 else 1
        #: the batch up to which this run has deleted outputs; it looks for those of earlier runs once
        self._deleted_upto = -self._at_once
        #: since when nothing starts its query again, as this run knows
        self._over_at_ms: int | None = None
        #: True once what Spark keeps of its query is deleted
        self._forgotten = False

    def purge(self, oldest_batch: int, oldest_output: int, *, committed: int) -> None:
        """See `TaskRunner`, of a subtask that a retained checkpoint starts again.

        Args:
            committed: last batch that Spark has committed.
        """
        self._kept.release(oldest_batch)
        oldest = min(oldest_batch, committed)
        if oldest >= 1:
            ends = read_offsets(self._storage.store, self._progress_dir, oldest).sources
            self._source_logs.cut(self._source_inputs.of(len(ends)), ends)
            self._delete_outputs(min(oldest, oldest_output), self._at_once)

    def purge_all(self, oldest_batch: int, oldest_output: int, *, now_ms: int) -> None:
        """See `TaskRunner`, of a subtask that is over; its query goes once no executor can be at work on its state."""
        self._kept.release(oldest_batch)
        if self._over_at_ms is None:
            self._over_at_ms = now_ms
        if not self._forgotten and now_ms - self._over_at_ms >= SETTLED_MS:
            self._storage.store.delete_tree(self._progress_dir)
            self._forgotten = True
        self._delete_outputs(min(oldest_batch, oldest_output), 1)

    def _delete_outputs(self, before: int, at_once: int) -> None:
        if before - self._deleted_upto < at_once:
            return
        store, folder = self._storage.store, self._folder
        self._delete_reads(before)
        segments = layout.segments(folder)
        store.delete_trees(segments, names_before(store, segments, before))
        batches = [batch for batch in self._storage.records(folder) if batch < before]
        store.delete_many([layout.batch(folder, batch) for batch in batches])
        self._deleted_upto = before

    def _delete_reads(self, batch: int) -> None:
        """Delete what was read of custom sources and is consumed by a batch that Spark has committed."""
        for uid in self._storage.store.names(read_layout.reads_of_sources(self._folder)):
            record = self._storage.record(self._folder, batch)
            if record is not None and uid in record.inputs:
                purge_reads(self._storage, read_layout.reads(self._folder, uid), record.inputs[uid].reads)
