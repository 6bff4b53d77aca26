"""The batches that Spark has committed, by the files of a query's progress."""

from __future__ import annotations

from rekindle.progress.directory import is_committed, last_committed
from rekindle.runtime.steps import Steps
from rekindle.storage.port import Store


class QueryCommits:
    """The batches of one query that are known to be committed; a file of one is looked for until it is there."""

    def __init__(self, store: Store, progress_dir: str, steps: Steps) -> None:
        self._store = store
        self._progress_dir = progress_dir
        self._steps = steps
        #: the last one that is known, -1 for none
        self.last = last_committed(store, progress_dir)

    def has(self, batch: int) -> bool:
        """Return True if Spark has committed `batch`."""
        if batch > self.last and is_committed(self._store, self._progress_dir, batch):
            self.note(batch)
        return batch <= self.last

    def note(self, batch: int) -> None:
        """Note that Spark has committed `batch`: it has begun the next one, say."""
        if batch > self.last:
            self.last = batch
            self._steps("spark.commit/after")
