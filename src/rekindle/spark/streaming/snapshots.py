"""The snapshot that a checkpoint keeps of a subtask: the batch it stands after, its positions, and its end."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.batch import End
from rekindle.storage.documents.checkpoint import SubtaskSnapshot


def snapshot_at(
    storage: BatchDocuments,
    folder: str,
    batch: int,
    end: End | None,
    *,
    is_committed: Callable[[int], bool],
    pin: Callable[[int], bool],
) -> SubtaskSnapshot | None:
    """Return the snapshot of the subtask at `folder` after a batch; None while Spark has still to commit that.

    Args:
        end: that of the subtask; None: it has not ended.
        pin: keeps what Spark has of a batch; False where it is gone.

    Raises:
        StorageError: ``PROGRESS_BATCH_MISSING``.
    """
    if end is not None and end.batch != batch:
        end = None  # it came after the snapshot was ordered, and belongs to the next one
    # After its end all is committed; one that had finished before a restore has no query that would say so.
    if end is None and not is_committed(batch):
        return None
    record = storage.record(folder, batch) if batch >= 0 else None
    if not pin(batch):
        raise StorageError("PROGRESS_BATCH_MISSING", folder=layout.spark_progress_dir(folder), batch=batch)
    if record is None:
        return SubtaskSnapshot(batch=-1, end=end)
    return SubtaskSnapshot(
        batch=batch, inputs=record.inputs, watermark_ms=record.watermark_ms, end=end, windows=record.windows
    )
