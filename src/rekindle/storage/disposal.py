"""Delete a savepoint: as a whole, however often that is cut short.

Its manifest goes first, so that nothing restores a part of it; before that a mark is put beside it, by which the next
attempt knows what the folder without a manifest was.
"""

from __future__ import annotations

from rekindle.errors import RestoreError
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.open import open_store
from rekindle.storage.port import Store


class Disposal:
    """What would be deleted.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``; ``SAVEPOINT_EXPECTED``, it is a checkpoint of a job.
        StorageError: the place cannot be read.
    """

    def __init__(self, path: str) -> None:
        #: absolute
        self.path = open_store(path).location.rstrip("/")
        parent, _, self._name = self.path.rpartition("/")
        self._store: Store = open_store(parent or "/")
        if not self._is_begun() and not read_manifest(self._store, self._name).savepoint:
            raise RestoreError("SAVEPOINT_EXPECTED", path=self.path)

    def is_of(self, checkpoint: int | None) -> bool:
        """Return True if it was made of this checkpoint, or its deletion has begun."""
        return self._is_begun() or read_manifest(self._store, self._name).checkpoint == checkpoint

    def run(self) -> None:
        """Delete it."""
        mark = layout.disposed(self._name)
        self._store.create(mark, b"{}")
        self._store.delete(layout.manifest(self._name))
        self._store.delete_trees(
            self._name, [name for name in self._store.names(self._name) if mark != f"{self._name}/{name}"]
        )
        self._store.delete_tree(self._name)

    def _is_begun(self) -> bool:
        return self._store.exists(layout.disposed(self._name))


def dispose_claimed(path: str, checkpoint: int | None) -> None:
    """Delete the savepoint at `path` that was made of this checkpoint; leave what else may lie there by now.

    Raises:
        StorageError: the place cannot be read or written.
    """
    try:
        disposal = Disposal(path)
        if disposal.is_of(checkpoint):
            disposal.run()
    except RestoreError:
        return  # it is gone, or is no savepoint
