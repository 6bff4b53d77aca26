"""The leftovers of earlier runs in the sinks: prepared rows that may still have to be committed, and orphans.

A batch's committables are in its batch record. The first checkpoint that covers the batch commits them. A crash may
interrupt that commit, so those of the newest manifest still count as prepared until it is marked as committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rekindle.errors import RestoreError, StorageError
from rekindle.ids import SubtaskId
from rekindle.runtime.steps import Steps, step
from rekindle.sinks import SinkBatch, TwoPhaseSink
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments, newest_checkpoint
from rekindle.storage.documents.checkpoint import Manifest, Rewound
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.job_storage import JobStorage


def uncommitted(storage: CheckpointDocuments) -> Manifest | None:
    """Return the checkpoint whose commit a crash may have interrupted: the newest, unless it is marked committed."""
    newest = newest_checkpoint(storage)
    if newest is None:
        return None
    mark = layout.committed(layout.checkpoint(storage.job, newest))
    return None if storage.store.exists(mark) else storage.manifest(newest)


def prepared(
    storage: JobStorage, subtasks: Iterable[SubtaskId], lineage: int, covered: Mapping[SubtaskId, int]
) -> dict[str, list[dict[str, Any]]]:
    """Return the committables that may still have to be committed: sink uid → committables.

    Args:
        covered: subtask → its last batch that a checkpoint of the lineage covers.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    manifest = uncommitted(storage)
    for uid, transactions in (manifest.transactions if manifest else {}).items():
        found.setdefault(uid, []).extend(one for each in transactions for one in each.committables)
    for task in subtasks:
        folder = layout.subtask(storage.job, *task, lineage)
        for batch in storage.records(folder):
            record = storage.record(folder, batch) if batch > covered.get(task, -1) else None
            for uid, committables in (record.committables if record else {}).items():
                found.setdefault(uid, []).extend(committables)
    return found


def clean(
    storage: JobStorage,
    subtasks: Iterable[SubtaskId],
    run: Run,
    sinks: Mapping[str, TwoPhaseSink],
    read_named: Callable[[], Mapping[str, list[dict[str, Any]]]],
    steps: Steps,
) -> None:
    """Remove rows that earlier attempts staged and no batch record names; check the fence before each removal.

    Rows staged for a batch that is not recorded stay for the next start: the driver that staged them may only be
    paused, and its batch record, if it is the first, is the one that counts.

    Args:
        read_named: sink uid → committables that a batch record names, as `prepared` reads them.
    """
    # In this order: a batch record that a late driver writes in between is of a batch that is kept here, and is named.
    last = {
        task: max(storage.records(layout.subtask(storage.job, *task, run.lineage)), default=-1) for task in subtasks
    }
    named = read_named()

    def may_remove(batch: SinkBatch) -> bool:
        recorded = batch.batch <= last.get(SubtaskId(batch.task, batch.subtask), -1)
        decided = batch.lineage < run.lineage or (batch.lineage == run.lineage and recorded)
        return decided and storage.fence.newer_than(run.run) is None

    for uid, sink in sinks.items():
        with step(steps, "sink.clean"):
            sink.clean(named.get(uid, []), may_remove)


def rewound(storage: JobDocuments, checkpoint: int) -> Rewound | None:
    """Return the document that says that the commits of a checkpoint were taken back; None: they were not."""
    return storage.read(layout.rewound(layout.checkpoint(storage.job, checkpoint)), Rewound)


def refuse_sink_ahead(storage: CheckpointDocuments, manifest: Manifest, path: str) -> None:
    """Refuse to start from a checkpoint if a sink has committed beyond it: its rows would come twice.

    Raises:
        RestoreError: ``SINK_AHEAD``.
    """
    try:
        newest = storage.newest_manifest()
    except StorageError as error:
        # A checkpoint that cannot be read may have committed anything.
        number = storage.checkpoints()[0]
        if number <= manifest.checkpoint:
            raise
        raise RestoreError("SINK_AHEAD", sink="(unknown)", committed=number, path=path) from error
    if newest is None:
        return
    # Commits of this job are not in another job's savepoint, so they are ahead of it.
    covered = manifest.checkpoint if manifest.job_id == newest.job_id else 0
    for sink, last in newest.last_commits.items():
        taken_back = rewound(storage, last)
        committed = taken_back.to if taken_back is not None else last
        if committed > covered:
            raise RestoreError("SINK_AHEAD", sink=sink, committed=committed, path=path)
