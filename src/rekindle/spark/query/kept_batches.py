"""The batches that Spark keeps of a query: what retained checkpoints need, while Spark itself clears up the rest.

``spark.sql.streaming.minBatchesToRetain`` is read when a query starts, and has to be enough from then on. Spark keeps
what is needed to resume after any of so many newest batches, and deletes the rest: files of state, offsets, commits,
logs of its sources, and what executors remember in memory of each version of the state. Only Spark can do the last, and
it does so for the files that it deletes itself. So nothing else deletes them.

A query is therefore started with a number that reaches back to the oldest batch that a retained checkpoint needs, and
with room for more. Where a batch comes to the end of that room, because checkpoints are rare or one of them is kept for
long, it is the last: the query is held after it and started again with a larger number (`SparkTask`). The next room is
as large as the distance is by then, so there are few such starts; but no larger than `MOST_ROOM`, so that what Spark
remembers of versions, which each start forgets, stays bounded however long a checkpoint is kept.

A query is also started again after `MOST_ROOM` batches, however closely checkpoints follow. As long as Spark has a
RocksDB state open, RocksDB appends to one file what each batch has changed (``MANIFEST``, some 300 bytes a batch and
partition), which is part of every version that Spark writes, and no setting of Spark's bounds it. A start opens the
state again, and the file begins again.

This module is arithmetic: no Spark, no files.
"""

from __future__ import annotations

import threading

LEAST = 100
"""Spark's own default."""

MOST_ROOM = 2_000
"""Batches that one start of a query runs for at most."""

MARGIN = 10
"""Batches that Spark may be ahead, or count otherwise: the one that is planned, one of an attempt that was given up,
the one more that it keeps of its logs."""


class KeptBatches:
    """The batches that Spark keeps of one subtask's query; may be called from any thread.

    Args:
        oldest: the oldest batch that a retained checkpoint needs; None where there is none.
    """

    def __init__(self, oldest: int | None = None) -> None:
        self._lock = threading.Lock()
        self._oldest = oldest
        #: number of batches to keep that the query which runs, or ran last, was started with; 0 before the first
        self._number = 0
        #: the last batch before that one
        self._before = -1
        self._newest = -1

    def start(self, last: int) -> int:
        """Begin a query that continues after the batch `last`; return how many batches Spark has to keep."""
        with self._lock:
            self._newest = self._before = last
            lag = max(last - self._oldest, 0) if self._oldest is not None else 0
            self._number = lag + min(max(lag, LEAST), max(MOST_ROOM, LEAST))
            return self._number

    def ran(self, batch: int) -> bool:
        """Note that a batch has run; return True if it has to be the last of this query."""
        with self._lock:
            self._newest = max(batch, self._newest)
            if self._number and batch >= self._before + MOST_ROOM:
                return True
            return self._oldest is not None and batch >= self._oldest + self._number - MARGIN

    def pin(self, batch: int) -> bool:
        """Keep `batch` for a checkpoint that is to name it; return False if Spark may have deleted what that needs."""
        with self._lock:
            if 0 < self._number <= self._newest - batch + MARGIN:
                return False
            if self._oldest is None and batch >= 0:
                self._oldest = batch
            return True

    def release(self, oldest: int) -> None:
        """Release all batches before `oldest`: no retained checkpoint needs them."""
        with self._lock:
            if self._oldest is None or oldest > self._oldest:
                self._oldest = max(oldest, 0)
