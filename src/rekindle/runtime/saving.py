"""A savepoint of a job that does not run: a copy of its last checkpoint, made without Spark.

Nothing pins that checkpoint: the job may be started meanwhile, and delete it once newer ones have replaced it, its
manifest first. So the copy is valid only if the manifest is still there when all is copied (`Origin.read_whole`).
"""

from __future__ import annotations

from rekindle.errors import ControlError, StorageError
from rekindle.ids import SubtaskId
from rekindle.progress.copies import copy_for_savepoint
from rekindle.runtime.checkpointing import write_savepoint
from rekindle.runtime.leftovers import uncommitted
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.documents.control import Answer
from rekindle.storage.folder import Folder
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.origin import Origin
from rekindle.storage.savepoints import check_apart


def savepoint_at_rest(storage: JobStorage, directory: str, state: str | None = None) -> Answer:
    """Copy the last completed checkpoint of a job that does not run into a new folder below `directory`.

    Args:
        state: of the job, where the caller knows it for certain (`state_for_certain`).

    Returns the answer that a running job would have given.

    Raises:
        ControlError: ``SAVEPOINT_WITHOUT_CHECKPOINT``, ``CHECKPOINT_NOT_COMMITTED``; ``BATCH_VERB_REFUSED``;
            ``SAVEPOINT_FAILED``, the place goes with the job, or cannot be written.
        RestoreError: ``CHECKPOINT_REPLACED``, it was started meanwhile.
    """
    check_apart(storage.store, storage.job, directory)
    state = state or storage.state()
    manifest = _last(storage, state)
    store = open_store(directory)
    origin = Origin(store=storage.store, folder="", manifest=manifest)

    def copy(task: SubtaskId, snapshot: SubtaskSnapshot, target: str) -> int:
        if snapshot.batch < 0:
            return 0
        source = Folder(storage.store, layout.spark_progress_dir(origin.subtask(task)))
        return copy_for_savepoint(source, Folder(store, layout.spark_progress_dir(target)), snapshot.batch)

    try:
        with origin.read_whole():
            path, _ = write_savepoint(storage, manifest, store, copy, origin.check_is_there)
    except StorageError as error:
        if error.parameters.get("uri") != store.location:
            raise
        raise ControlError("SAVEPOINT_FAILED", path=directory, reason=str(error)) from error
    return Answer(
        id="", job=storage.job, state=state, answered_ms=0, checkpoint=manifest.checkpoint, savepoint=path, notes=()
    )


def _last(storage: CheckpointDocuments, state: str) -> Manifest:
    lineage = storage.lineage()
    manifest = storage.latest_manifest(lineage.lineage) if lineage else None
    if manifest is None:
        raise ControlError("SAVEPOINT_WITHOUT_CHECKPOINT", job=storage.job, state=state)
    if manifest.mode == "batch":
        raise ControlError("BATCH_VERB_REFUSED", job=storage.job, verb="savepoint")
    pending = uncommitted(storage)
    if pending is not None:
        raise ControlError("CHECKPOINT_NOT_COMMITTED", checkpoint=pending.checkpoint, job=storage.job)
    return manifest
