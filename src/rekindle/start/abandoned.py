"""The lineages that starts have given up: each is a copy of the state, and a start that fails late leaves one.

A run deletes such lineages after its first checkpoint (`rekindle.runtime.retention`). A start that fails again and
again has none, and each of its tries would leave a copy. So a restore first deletes those of earlier ones. The lineage
in force stays, since the next start may resume it; so does one that a checkpoint is of, and one whose driver may only
be paused.
"""

from __future__ import annotations

import logging

from rekindle.errors import StorageError
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
        older = {number for number in _folders(storage) if number < run.lineage}
        abandoned = older - _needed(storage) - _of_other_drivers(storage, min(older), run) if older else set[int]()
        names = {f"{number:06d}" for number in abandoned}
        for folder in _parts(storage) if names else ():
            storage.store.delete_trees(folder, [name for name in storage.store.names(folder) if name in names])
    except StorageError as error:
        _LOG.warning("What earlier starts have left could not be deleted: %s", error)


def _parts(storage: CheckpointDocuments) -> list[str]:
    """Return the folders of all subtasks, also of tasks that the job no longer has; in each are lineages."""
    store, above = storage.store, layout.tasks(storage.job)
    return [f"{above}/{uid}/{part}" for uid in store.names(above) for part in store.names(f"{above}/{uid}")]


def _folders(storage: CheckpointDocuments) -> set[int]:
    """Return the lineages of which there are folders."""
    return {number for folder in _parts(storage) for number in storage.numbers(folder)}


def _needed(storage: CheckpointDocuments) -> set[int]:
    in_force = storage.lineage()
    return {manifest.lineage for manifest in storage.manifests()} | ({in_force.lineage} if in_force else set())


def _of_other_drivers(storage: CheckpointDocuments, first: int, ours: Run) -> set[int]:
    """Return the lineages, from the `first` on, of runs that have no result and whose process may be there."""
    numbers = (number for number in storage.numbers(layout.runs(storage.job)) if first <= number < ours.run)
    runs = filter(None, map(storage.run, numbers))
    return {run.lineage for run in runs if storage.result(run.run) is None and is_alive(run) is not False}
