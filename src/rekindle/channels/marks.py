"""The inbox of watermark rows of an input with an event time: rows that have a time only, and move its watermark.

A mark is a Parquet file of one row, admitted like any other file, on an inbox of its own beside the input's data. An
input fed by inboxes has the delay `UNORDERED_DELAY`, under which its data cannot move its watermark; a mark at
``mark_for(watermark_us)`` moves it to exactly that watermark. Other inputs keep a delay of their own, and are ended by
a mark at `END_OF_TIME_US`.

This module must not know which watermark an input should have (`protocol.clock`), nor how marks are kept from the
user's code.
"""

from __future__ import annotations

import uuid

from rekindle.channels.inbox import Inbox, is_compaction
from rekindle.storage import layout
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.numbered import names_before
from rekindle.storage.port import Store

MARK_COLUMN = "ts"
"""The only column of a mark: a timestamp in UTC, with microseconds."""

UNORDERED_DELAY = "3000000 days"
"""The watermark delay, as Spark writes it, of an input whose watermark is set by marks alone.

Longer than there are days up to the year 9999, so that no date of its data moves it.
"""

_UNORDERED_DELAY_US = 3_000_000 * 86_400_000_000

END_OF_TIME_US = 253_402_214_400_000_000
"""9999-12-31T00:00:00Z in microseconds since the epoch: the watermark of what has ended. A flush is later."""


def mark_for(watermark_us: int) -> int:
    """Return the event time (µs) of the mark that moves an input with `UNORDERED_DELAY` to `watermark_us`.

    It may lie far beyond the year 9999, which Spark counts like any other; no user ever sees it.
    """
    return watermark_us + _UNORDERED_DELAY_US


class Marks:
    """The marks of one input of one subtask in one lineage.

    Args:
        store: where the log and the rows lie.
        folder: `layout.marks`.
        index: of its inbox, see `Inbox`.
        logs: where Spark reads a copy of its log, see `Inbox`.
    """

    def __init__(self, store: Store, folder: str, index: int, logs: Store | None = None) -> None:
        self.inbox = Inbox(store, folder, index, logs)
        self._store = store
        self._folder = folder

    def admit(self, k: int, event_time_us: int) -> bool:
        """Let the query see a mark at `event_time_us` as admission `k`; False if there is an admission `k` already.

        The file has a fresh name each time, since Spark reads a path once: the same mark can be set again.
        """
        path = layout.mark_row(self._folder, f"{k:09d}-{uuid.uuid4().hex}.parquet")
        data = _row(event_time_us)
        self._store.create(path, data)
        if not self.inbox.admit(k, [FrozenFile(path=self._store.uri(path), size=len(data))]):
            self._store.delete(path)
            return False
        if is_compaction(k):
            self._forget_before(k - 1)
        return True

    def _forget_before(self, k: int) -> None:
        """Delete rows whose admission no query can read again; the name says which that is."""
        for name in names_before(self._store, layout.mark_rows(self._folder), k):
            self._store.delete(layout.mark_row(self._folder, name))


def _row(event_time_us: int) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    column = pa.array([event_time_us], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({MARK_COLUMN: column}), buffer)
    return bytes(buffer.getvalue())
