"""The batches that the newest checkpoint of a lineage covers, and the subtasks that it says have finished."""

from __future__ import annotations

from rekindle.ids import SubtaskId
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.start.resolve import Decision, Resume
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot


def latest_manifest(storage: CheckpointDocuments, decision: Decision, lineage: int) -> Manifest | None:
    """Return the newest manifest of `lineage`; None if it has none, or if the start opens a new lineage."""
    return storage.latest_manifest(lineage) if isinstance(decision, Resume) else None


def covered_by(manifest: Manifest | None) -> dict[SubtaskId, int]:
    """Return subtask → last batch that a checkpoint covers."""
    return {task: snapshot.batch for task, snapshot in snapshots_of(manifest).items()} if manifest else {}


def finished_in(manifest: Manifest | None) -> dict[SubtaskId, SubtaskSnapshot]:
    """Return subtask → snapshot of each subtask that had finished when a checkpoint was taken."""
    snapshots = snapshots_of(manifest) if manifest else {}
    return {task: snapshot for task, snapshot in snapshots.items() if snapshot.end is not None}
