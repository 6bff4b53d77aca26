"""Delete a savepoint, or what a shadow has left: as a whole, however often the deletion is cut short.

The manifest of a savepoint goes first, so that nothing restores a part of it; before that a mark is put beside it, by
which the next attempt knows what the folder without a manifest was. The folder of a shadow has a mark from the start.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from rekindle.errors import RestoreError, StorageError
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.open import open_store
from rekindle.storage.port import NotFound, Store

_SHADOW = "rekindle shadow"
"""The kind that the mark of a shadow names, so that no other file of that name is taken for a mark."""


class Disposal:
    """A savepoint, or the folder of a shadow, that is to be deleted.

    Args:
        opened: opens a place.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``; ``SAVEPOINT_EXPECTED``, it is a checkpoint of a job.
        StorageError: the place cannot be read.
    """

    def __init__(self, path: str, opened: Callable[[str], Store] = open_store) -> None:
        #: absolute
        self.path = open_store(path).location.rstrip("/")
        parent, _, self._name = self.path.rpartition("/")
        self._store = opened(parent or "/")
        #: job whose shadow it is; None: it is a savepoint
        self.shadow_of = _marked(self._store, self._name)
        if self.shadow_of is None and not self._is_begun() and not read_manifest(self._store, self._name).savepoint:
            raise RestoreError("SAVEPOINT_EXPECTED", path=self.path)

    def is_of(self, checkpoint: int | None, completed_ms: int | None) -> bool:
        """Return True if the savepoint was made of this checkpoint, or its deletion has begun.

        Args:
            completed_ms: when the savepoint was completed, by its manifest; None: an older version did not note it.
        """
        if self._is_begun():
            return True
        manifest = read_manifest(self._store, self._name)
        return manifest.checkpoint == checkpoint and completed_ms in (None, manifest.completed_ms)

    def run(self) -> None:
        """Delete the savepoint or the folder."""
        mark = _mark(self._name)
        if self.shadow_of is None:
            mark = layout.disposed(self._name)
            try:
                self._store.create(mark, b"{}")
            except StorageError as error:
                # On a full disk, this is what frees some room; if it is cut short there, the rest is an orphan.
                if error.code != "STORAGE_FULL":
                    raise
            self._store.delete(layout.manifest(self._name))
        self._store.delete_trees(
            self._name, [name for name in self._store.names(self._name) if mark != f"{self._name}/{name}"]
        )
        self._store.delete_tree(self._name)

    def _is_begun(self) -> bool:
        return self._store.exists(layout.disposed(self._name))


def _mark(folder: str) -> str:
    """Return the path of the mark in a shadow's folder, which names its job; the empty folder is a store's root."""
    return f"{folder}/shadow.json".removeprefix("/")


def mark_shadow(folder: str, job: str) -> None:
    """Say of a new folder that it is the shadow of a job."""
    open_store(folder).create(_mark(""), json.dumps({"kind": _SHADOW, "job": job}).encode())


def _marked(store: Store, folder: str) -> str | None:
    try:
        found = json.loads(store.read(_mark(folder)))
    except (NotFound, ValueError):
        return None
    return str(found["job"]) if isinstance(found, dict) and found.get("kind") == _SHADOW else None


def dispose_claimed(path: str, checkpoint: int | None, completed_ms: int | None) -> None:
    """Delete the savepoint at `path` that was made of this checkpoint; leave anything else that is there now.

    Another job's savepoint that has been moved to this path may have the same number, but not the same time.

    Raises:
        StorageError: the place cannot be read or written.
    """
    try:
        disposal = Disposal(path)
        if disposal.is_of(checkpoint, completed_ms):
            disposal.run()
    except RestoreError:
        return  # it is gone, or is no savepoint
