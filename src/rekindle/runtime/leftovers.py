"""The leftovers of earlier runs in the sinks: prepared rows that may still have to be committed.

A batch's committables are in its batch record. The first checkpoint that covers the batch commits them. A crash may
interrupt that commit, so those of the newest manifest still count as prepared until it is marked as committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rekindle.errors import RestoreError, StorageError
from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments, newest_checkpoint
from rekindle.storage.documents.checkpoint import Manifest, Rewound
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_documents import RunDocuments


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


def rewound(storage: JobDocuments, checkpoint: int) -> Rewound | None:
    """Return the document that says that the commits of a checkpoint were taken back; None: they were not."""
    return storage.read(layout.rewound(layout.checkpoint(storage.job, checkpoint)), Rewound)


def _went_back_to(storage: RunDocuments, checkpoint: int) -> int | None:
    """Return the checkpoint to which the sinks have gone back from a later one; None: they have not.

    The lineages say so for as long as there is a job: a savepoint may outlive its checkpoint's documents.
    """
    places = ((one.restored_checkpoint, one.rewound_from) for one in storage.lineages())
    return min(
        (to for to, newest in places if to is not None and newest is not None and to < checkpoint <= newest),
        default=None,
    )


def may_be_rewound(storage: RunDocuments, checkpoint: int) -> bool:
    """Return True if the commits of a checkpoint were taken back, or a start has begun to do that."""
    folder = layout.checkpoint(storage.job, checkpoint)
    return _went_back_to(storage, checkpoint) is not None or any(
        storage.store.exists(layout.rewound(folder, by_all=by_all)) for by_all in (True, False)
    )


def never_committed(storage: CheckpointDocuments, manifest: Manifest) -> bool:
    """Return True for a checkpoint that has failed although its manifest is there: a later one has its transactions.

    Creating the manifest has failed, and the check whether it is there, too. A run commits each checkpoint before it
    writes the next manifest, so this one has no ``committed.json``, and there is a later one.
    """
    committed = layout.committed(layout.checkpoint(storage.job, manifest.checkpoint))
    if not manifest.transactions or storage.store.exists(committed):
        return False
    later = (number for number in storage.numbers_used() if number > manifest.checkpoint)
    return any(storage.manifest(number) is not None for number in later)


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
        # Also before the lineage is there: then a start has marked it and was killed.
        taken_back, gone_back = rewound(storage, last), _went_back_to(storage, last)
        committed = min(last if taken_back is None else taken_back.to, last if gone_back is None else gone_back)
        if committed > covered:
            raise RestoreError("SINK_AHEAD", sink=sink, committed=committed, path=path)
