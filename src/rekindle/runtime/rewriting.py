"""A savepoint made of another one, with the state of one stateful operator written again.

It is a new folder, and gets its manifest last: after a crash the folder has none, so nothing starts from it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from rekindle.ids import SubtaskId
from rekindle.progress.copies import copy_for_savepoint, copy_other_state, copy_without_rows
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.storage import layout
from rekindle.storage.copying import copy_all
from rekindle.storage.folder import Folder
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.origin import Origin
from rekindle.storage.port import Store
from rekindle.storage.savepoint import deleted_if_it_fails


def rewritten(
    origin: Origin, directory: str, task: SubtaskId, operator: int, write: Callable[[Store, str], None]
) -> str:
    """Copy a savepoint into a new folder below `directory`, except the rows of one operator; return its absolute path.

    Args:
        write: writes these rows into a progress directory, and checks that it has succeeded.

    Raises:
        RekindleError: raised by `write`, or by the storage; the new folder is deleted, if possible.
    """
    manifest, store = origin.manifest, open_store(directory)
    into = f"{manifest.job}-{manifest.checkpoint:09d}-{secrets.token_hex(3)}"
    with deleted_if_it_fails(store, into):
        _copy(origin, store, into, task, operator, write)
        size = sum(entry.size_bytes for entry in store.walk(into))
        sealed = replace(manifest, size_bytes=size)
        JobStorage(store, manifest.job).create(layout.manifest(into), sealed)
    return f"{store.location.rstrip('/')}/{into}"


def _copy(
    origin: Origin, store: Store, into: str, task: SubtaskId, operator: int, write: Callable[[Store, str], None]
) -> None:
    with origin.read_whole():
        queries = {
            layout.spark_progress_dir(origin.subtask(subtask)): (subtask, snapshot.batch)
            for subtask, snapshot in snapshots_of(origin.manifest).items()
        }
        others = [
            entry.path
            for entry in origin.store.walk(origin.folder)
            if entry.path != layout.manifest(origin.folder)
            and not any(entry.path.startswith(f"{folder}/") for folder in queries)
        ]
        copy_all(origin.store, store, ((path, into + path.removeprefix(origin.folder)) for path in others))
        for folder, (subtask, batch) in queries.items():
            source, below = Folder(origin.store, folder), layout.savepoint_subtask(into, subtask.task, subtask.subtask)
            target = Folder(store, layout.spark_progress_dir(below))
            if subtask == task:
                copy_without_rows(source, target, batch, operator)
                write(*target)
                copy_other_state(source, target, batch, operator)
            elif batch >= 0 and origin.store.exists(folder):
                copy_for_savepoint(source, target, batch)
