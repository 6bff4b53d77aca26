"""The writing side of a log: rows are added at any time, and written once a beat.

The newest segment is held in memory, and its document replaced when something has changed. While the storage refuses,
rows wait; of too many the oldest are dropped. What a driver is ordered to do never waits for its history, and never
fails because of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic

import msgspec

from rekindle.errors import StorageError
from rekindle.history import log
from rekindle.history.log import LogKind, Row
from rekindle.storage import layout
from rekindle.storage.job_documents import JobDocuments


class LogWriter(Generic[Row]):
    """The writer of one log for one run; for one thread at a time.

    Args:
        before: called once, when the storage has answered, with the last rows that earlier runs have written; returns
            what they could not write any more, to be added before the rows of this run.
    """

    def __init__(
        self, storage: JobDocuments, kind: LogKind[Row], run: int, before: Callable[[list[Row]], list[Row]]
    ) -> None:
        self._storage = storage
        self._kind = kind
        self._run = run
        self._before = before
        #: rows that are in no segment yet
        self._waiting: list[Row] = []
        #: number of the newest segment among those of this run; 0 before the storage was read
        self._number = 0
        #: number of its first row
        self._first = 0
        self._rows: list[Row] = []
        self._encoded: list[bytes] = []
        #: it has changed since it was written
        self._changed = False
        #: it was never written
        self._is_new = True

    def add(self, row: Row) -> None:
        """Add a row, to be written with the next `flush`."""
        self._waiting.append(row)
        del self._waiting[: -2 * self._kind.rows]

    def amend(self, matches: Callable[[Row], bool], change: Callable[[Row], Row]) -> None:
        """Change the newest row that matches; nothing where it is in a segment that is full."""
        for rows in (self._waiting, self._rows):
            for index in range(len(rows) - 1, -1, -1):
                if matches(rows[index]):
                    rows[index] = change(rows[index])
                    if rows is self._rows:
                        self._encoded[index] = msgspec.json.encode(rows[index])
                        self._changed = True
                    return

    def find(self, matches: Callable[[Row], bool]) -> Row | None:
        """Return the newest row that matches, of those that wait and those of the newest segment; None: there is none.

        Before the first `flush` it knows no row of earlier runs.
        """
        return next((row for rows in (self._waiting, self._rows) for row in reversed(rows) if matches(row)), None)

    def flush(self) -> None:
        """Write what has changed since the last time.

        Raises:
            StorageError: the storage refuses; what is not written is tried again the next time.
            ControlError: ``DRIVER_FENCED``.
        """
        if not self._number:
            self._begin()
        while self._waiting:
            if self._is_full():
                self._write()
                self._number, self._is_new = self._number + 1, True
                self._first += len(self._rows)
                self._rows, self._encoded = [], []
            self._encoded.append(msgspec.json.encode(self._waiting[0]))
            self._rows.append(self._waiting.pop(0))
            self._changed = True
        self._write()

    def _begin(self) -> None:
        """Continue where the newest segment ends: with its rows, unless it is full."""
        found = log.newest(self._storage, self._kind)
        rows = [one.row for one in found]
        try:
            self._waiting = [*self._before(rows), *self._waiting]
        except StorageError as error:
            if error.code not in ("OBJECT_CORRUPT", "FORMAT_NEWER"):
                raise
        self._first, self._rows = (found[0].number if found else 0), rows
        self._encoded = [msgspec.json.encode(row) for row in rows]
        self._number = 1
        if self._is_full():
            self._first, self._rows, self._encoded = self._first + len(rows), [], []

    def _is_full(self) -> bool:
        return len(self._rows) >= self._kind.rows or sum(map(len, self._encoded)) >= self._kind.segment_bytes

    def _write(self) -> None:
        if not self._changed:
            return
        path = layout.history_segment(self._storage.job, self._kind.name, self._run, self._number, self._first)
        # A line a row, so that a person can read it too; each is encoded once.
        text = b'{"format":%d,"first":%d,"rows":[\n%b\n]}\n'
        rows = b",\n".join(self._encoded)
        self._storage.store.replace(path, text % (layout.FORMAT_VERSION, self._first, rows))
        self._changed = False
        if self._is_new:
            self._is_new = False
            with suppress(StorageError):  # then it is done with the next segment
                self._delete_old()

    def _delete_old(self) -> None:
        """Delete what later segments have too, and the oldest."""
        names = log.segments(self._storage, self._kind)
        kept = log.in_force(names)[-self._kind.keep :]
        for name in sorted({*names} - {*kept}):
            self._storage.store.delete(layout.history_segment(self._storage.job, self._kind.name, *name))
