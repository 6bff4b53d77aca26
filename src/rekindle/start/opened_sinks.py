"""The sinks of a job as a start opens them, and the checkpoints that they have against those that the storage knows.

A sink may go by a checkpoint's number to know whether it has committed it. In an older copy of the storage, put back
from a backup, numbers that sinks have seen come again with other rows, and the sinks would take these for committed.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.errors import RestoreError
from rekindle.sinks import TwoPhaseSink
from rekindle.sinks.owners import Claim
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.job_documents import JobDocuments


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
    for uid, number in newest.items() if not sink_ahead else ():
        refuse_older(uid, number, storage)
    for number in range(_known(storage) + 1, max(newest.values(), default=0) + 1):
        storage.use_up(number, run)


def refuse_older(sink: str, newest: int, storage: CheckpointDocuments) -> None:
    """Refuse a storage that does not know the newest checkpoint that a sink has.

    Args:
        newest: asked of the sink before this is called: what is committed meanwhile has used its number before.

    Raises:
        RestoreError: ``STORAGE_OLDER``.
    """
    known = _known(storage)
    if newest > known:
        raise RestoreError(
            "STORAGE_OLDER",
            sink=sink,
            committed=newest,
            storage=storage.store.location,
            job=storage.job,
            known=known,
        )


def _known(storage: CheckpointDocuments) -> int:
    return max(storage.numbers_used(), default=0)


def claim_targets(
    sinks: Mapping[str, TwoPhaseSink], storage: JobDocuments, owner: str, now_ms: int, *, shared: bool
) -> None:
    """Let the job take the targets of its sinks.

    Args:
        owner: name and id of the job.
        shared: others may write there too.

    Raises:
        SinkError: ``TARGET_TAKEN``.
    """
    for uid, sink in sinks.items():
        sink.claim(claim_of(uid, storage, owner, now_ms, shared=shared))


def claim_of(sink: str, storage: JobDocuments, owner: str, now_ms: int, *, shared: bool) -> Claim:
    """Return the wish of a job to write to the target of a sink; see `claim_targets`."""
    return Claim(owner=owner, sink=sink, storage=storage.store.location, now_ms=now_ms, shared=shared)
