"""The prelude of a task: what its query does before it streams, which may be nothing (docs/backlog.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame

from rekindle.progress.directory import last_planned, plan_at
from rekindle.spark.query.query import Query
from rekindle.storage import layout, read_layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.sources import FrozenFile

FIRST = 0
"""The batch that a prelude is."""


class PreludeBatch(NamedTuple):
    """The result of a prelude."""

    rows: DataFrame
    #: bounded source → its files, from the first on, that need not be read again
    read: Mapping[str, Sequence[FrozenFile]]


class Prelude:
    """The prelude of a task which streams all that it reads: it does nothing."""

    def begin(self, last: int) -> bool:
        """Decide up to where the history is computed, unless that is decided; return True if it is still to be done.

        Args:
            last: last batch that is recorded, -1 for none.
        """
        return False

    def plant(self, query: Query) -> None:
        """Let Spark plan the first batch as `begin` has decided, where it has."""

    def compute(self, df: DataFrame, batch: int, watermark_ms: int) -> PreludeBatch | None:
        """Return the rows of a batch where a prelude has them; None: they are those of `df`."""
        return None

    def refuse_changed_files(self) -> None:
        """Check, once the rows are written, that they were computed from the files that were listed.

        Raises:
            InputError: ``FILE_CHANGED``, ``FILE_VANISHED``.
        """

    def recorded(self, batch: int) -> None:
        """Delete what the prelude has read, once its batch is recorded."""

    def interrupt(self) -> None:
        """Interrupt the prelude now; nothing comes of it."""


class NoPrelude(Prelude):
    """The prelude of a task which streams its history: what an earlier run has decided, and not done, is undone.

    Args:
        folder: the subtask's.
    """

    def __init__(self, storage: BatchDocuments, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def begin(self, last: int) -> bool:
        """See `Prelude`."""
        if last < FIRST and self._storage.prelude(self._folder) is not None:
            progress_dir = layout.spark_progress_dir(self._folder)
            if last_planned(self._storage.store, progress_dir) >= FIRST:
                plan_at(self._storage.store, progress_dir, FIRST, 0)
            self._storage.store.delete(read_layout.prelude(self._folder))
            self._storage.store.delete_tree(read_layout.prelude_folder(self._folder))
        return False
