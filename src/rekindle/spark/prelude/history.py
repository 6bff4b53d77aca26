"""The prelude of a task: its history, computed as a batch before its query streams (docs/backlog.md).

::

    copy what the live streams have            prelude/<attempt>/rows/<source>
    their watermark w                          prelude.json                      ← binding from here on
    let Spark plan batch 0                     spark/offsets/0
    let that plan run with w
    batch 0: its rows are those of a batch query, over the history and the copy, that are out by w;
             its own rows go nowhere, its state is what w leaves in it
                                               batches/000000000.json            ← as any batch
    stream on

Of windows, batch 0 reads the live streams alone: what is read of the history later, and is closed by w, is late. Of all
else (`PreludeFacts.first_reads`) it reads the copied rows of the live streams, no more and no fewer, and the files of
the history that have a row which its state keeps at w: Spark takes no row of batch 0 for late.

A file of the history that has nothing for the state is not read again. Everything after ``prelude.json`` follows
from it and from what lies there, so that a driver which is started again, or overtaken, does the same.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame

from rekindle.errors import StorageError
from rekindle.graph.queries import QueryDescription
from rekindle.progress.directory import last_planned, plan_at, read_offsets
from rekindle.sources.listing import check_unchanged
from rekindle.spark.prelude.prelude import FIRST, NoPrelude, Prelude, PreludeBatch
from rekindle.spark.prelude.reading import Computed, History, PreludeReading
from rekindle.spark.prelude.windows import NotClosedError
from rekindle.spark.query.query import Query
from rekindle.storage import layout, read_layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.batch import PreludeDocument

_LOG = logging.getLogger(__name__)


class HistoryPrelude(Prelude):
    """The prelude of one subtask.

    Args:
        run: the number of the driver's run.
        folder: the subtask's.
        reading: what it reads.
        described: the identity of its query.
        check_fence: raises where a newer run has taken over.
    """

    def __init__(
        self,
        storage: BatchDocuments,
        run: int,
        task: str,
        folder: str,
        reading: PreludeReading,
        described: QueryDescription,
        check_fence: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._run = run
        self._task = task
        self._folder = folder
        self._progress_dir = layout.spark_progress_dir(folder)
        self._reading = reading
        self._described = described
        self._check_fence = check_fence
        self._none = NoPrelude(storage, folder)
        #: the decision, once it is known, until the query is started again
        self._due: PreludeDocument | None = None
        #: its rows and what they are made of, where they are known by now
        self._ready: Computed | None = None
        #: the histories that the batch has read which is not recorded yet
        self._histories: Sequence[History] = ()

    def begin(self, last: int) -> bool:
        """See `Prelude`."""
        self._due = None
        if last >= FIRST:
            self._forget()
            return False
        if self._reads_history_already():
            self._none.begin(last)
            return False
        self._due = self._storage.prelude(self._folder) or self._decide()
        if self._due is not None and self._due.first is not None:
            self._reading.admit(self._due.first)
        return self._due is not None

    def _reads_history_already(self) -> bool:
        """Return True if a batch is planned, or its files admitted, that is not one of a prelude of this query."""
        found = self._storage.prelude(self._folder)
        is_planned = last_planned(self._storage.store, self._progress_dir) >= FIRST
        if found is None:
            return is_planned or self._reading.has_admitted
        if found.first is not None or self._reading.first_reads:
            return found.first is None
        if not is_planned:
            return False
        planned = read_offsets(self._storage.store, self._progress_dir, FIRST)
        return any(planned.sources[source] is not None for source in self._reading.sources_of_histories)

    def plant(self, query: Query) -> None:
        """See `Prelude`."""
        if self._due is None:
            return
        store, folder = self._storage.store, self._progress_dir
        if last_planned(store, folder) < FIRST:
            query.start(hold_after=FIRST - 1)
            query.wait(lambda: last_planned(store, folder) >= FIRST)
            query.stop_after(FIRST - 1)
        # Where Spark has failed to plan it, it will say why when the query is started.
        if last_planned(store, folder) >= FIRST:
            ends = self._reading.begin_as_copied(self._due.attempt, folder)
            plan_at(store, folder, FIRST, self._due.watermark_ms, ends)

    def compute(self, df: DataFrame, batch: int, watermark_ms: int) -> PreludeBatch | None:
        """See `Prelude`."""
        found = self._due
        if batch != FIRST or found is None:
            return None
        if found.watermark_ms != watermark_ms:
            raise StorageError("BATCH_PLAN_OVERWRITTEN", task=self._task, batch=batch)
        df.write.format("noop").mode("overwrite").save()
        ready = self._ready or self._reading.closed(found)
        self._ready, self._histories = None, ready.histories
        files = {history.item.uid: history.files for history in ready.histories}
        if found.first is None:
            again = self._reading.open_files(ready, watermark_ms)
            files = {uid: listed[: min(again[uid], default=len(listed))] for uid, listed in files.items()}
        return PreludeBatch(ready.rows, files)

    def refuse_changed_files(self) -> None:
        """See `Prelude`."""
        for history in self._histories:
            check_unchanged(history.item.uid, history.files)

    def recorded(self, batch: int) -> None:
        """See `Prelude`."""
        if batch == FIRST:
            self._forget()

    def interrupt(self) -> None:
        """See `Prelude`."""
        self._reading.interrupt()

    def _decide(self) -> PreludeDocument | None:
        attempt = f"{self._run}-{secrets.token_hex(4)}"
        reason, made = None, PreludeDocument(watermark_ms=0, attempt=attempt, run=self._run)
        try:
            made = replace(made, watermark_ms=(watermark_ms := self._reading.copy(attempt)))
            if watermark_ms <= 0:
                reason = "its live streams have nothing that closes a window"
            else:
                self._ready = self._reading.closed(made)
                if self._reading.first_reads:
                    first = self._reading.open_files(self._ready, watermark_ms)
                    made = replace(made, first=first, query=self._described)
        except NotClosedError as error:
            reason = str(error)
        except BaseException:
            with suppress(StorageError):  # a copy of a long stream is large, and each attempt makes one
                self._storage.store.delete_tree(read_layout.prelude_attempt(self._folder, attempt))
            raise
        if reason is not None:
            _LOG.warning("Task %s streams its history: %s", self._task, reason)
            # What another driver has copied may be what was decided.
            self._storage.store.delete_tree(read_layout.prelude_attempt(self._folder, attempt))
            return None
        _LOG.info("Task %s computes its history as a batch, up to a watermark of %d ms", self._task, made.watermark_ms)
        self._check_fence()
        found = self._storage.adopt(read_layout.prelude(self._folder), made)
        if found != made:
            self._ready = None  # another driver was quicker
        return found

    def _forget(self) -> None:
        self._ready, self._histories = None, ()
        folder = read_layout.prelude_folder(self._folder)
        if self._storage.store.names(folder):
            self._storage.store.delete_tree(folder)
