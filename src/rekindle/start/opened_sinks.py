"""The sinks of a job as a start opens them, and the checkpoints that they have against those that the storage knows.

A sink may go by a checkpoint's number to know whether it has committed it. In an older copy of the storage, put back
from a backup, numbers that sinks have seen come again with other rows, and the sinks would take these for committed.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.errors import RestoreError
from rekindle.sinks import TwoPhaseSink
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments


def open_sinks(
    sinks: Mapping[str, TwoPhaseSink], storage: CheckpointDocuments, owner: str, run: int, *, sink_ahead: bool
) -> None:
    """Open the sinks of a claimed run.

    Args:
        owner: name and id of the job.
        sink_ahead: True if rows that a sink has committed may come once more: numbers that sinks know are used up.

    Raises:
        SinkError: ``SINK_TARGET_INVALID``.
        RestoreError: ``STORAGE_OLDER``.
    """
    for uid, sink in sinks.items():
        sink.stage_in(storage.store, layout.sink(storage.job, uid))
        sink.open(owner, uid)
    newest = {uid: sink.newest_committed() or 0 for uid, sink in sinks.items()}
    # In this order: a checkpoint that is committed meanwhile has used its number before.
    known = max(storage.numbers_used(), default=0)
    for uid, number in newest.items():
        if number > known and not sink_ahead:
            raise RestoreError(
                "STORAGE_OLDER",
                sink=uid,
                committed=number,
                storage=storage.store.location,
                job=storage.job,
                known=known,
            )
    for number in range(known + 1, max(newest.values(), default=0) + 1):
        storage.use_up(number, run)
