"""The lineages that starts have given up: each is a copy of the state, and a start that fails late leaves one.

A run deletes such lineages after its first checkpoint (`rekindle.runtime.retention`). A start that fails again and
again has none, and each of its tries would leave a copy. So a restore first deletes those of earlier ones. The lineage
in force stays, since the next start may resume it; so does one that a checkpoint is of, and one whose driver may only
be paused.
"""

from __future__ import annotations

import logging

from rekindle.errors import StorageError
from rekindle.runtime.retention import forget_lineages, subtask_folders
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.runs import Run
from rekindle.storage.liveness import is_alive

_LOG = logging.getLogger(__name__)


def forget_abandoned(storage: CheckpointDocuments, run: Run) -> None:
    """Delete the folders of lineages before that of `run` which no start can resume, and no checkpoint needs.

    Where the storage refuses, they stay: no start depends on it.
    """
    try:
        found = {number for folder in subtask_folders(storage) for number in storage.numbers(folder)}
        if older := {number for number in found if number < run.lineage}:
            needed = _needed(storage) | _of_other_drivers(storage, min(older), run)
            forget_lineages(storage, run.lineage, needed)
    except StorageError as error:
        _LOG.warning("What earlier starts have left could not be deleted: %s", error)


def _needed(storage: CheckpointDocuments) -> set[int]:
    in_force = storage.lineage()
    return {manifest.lineage for manifest in storage.manifests()} | ({in_force.lineage} if in_force else set())


def _of_other_drivers(storage: CheckpointDocuments, first: int, ours: Run) -> set[int]:
    """Return the lineages, from the `first` on, of runs that have no result and whose process may be there."""
    numbers = (number for number in storage.numbers(layout.runs(storage.job)) if first <= number < ours.run)
    runs = filter(None, map(storage.run, numbers))
    return {run.lineage for run in runs if storage.result(run.run) is None and is_alive(run) is not False}
