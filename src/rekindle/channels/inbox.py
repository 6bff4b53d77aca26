"""The consumer side of an input: a folder whose log tells Spark's file source which files there are.

Spark's file sink keeps such a log (``_spark_metadata/<k>``), and its file source believes one wherever it finds it,
wherever the files lie that it names. Rekindle writes the log itself: what a query sees, and when, is its decision. One
log file is one *admission*, and becomes one step of Spark's ``logOffset``. The rules that make this hold:

1. Admissions are numbered 0, 1, 2… without a gap, and k is written only when k-1 is in a batch record. So Spark never
   finds two new ones at once, and its ``logOffset`` is the number of the last admission it has seen.
2. Every tenth log file, ``9.compact``, ``19.compact``…, replaces all before it (Spark's default for
   ``spark.sql.streaming.fileSink.log.compactInterval``, which must stay as it is). It names the files of its own
   admission and of the one before: by rule 1 nothing older can be unread.
3. The log files since the compaction before the last one are kept: a reader that listed the log just before a
   compaction still finds all that it saw, and with two compacted files present Spark knows the interval to be ten (with
   ``19.compact`` alone it derives twenty, and then looks for files that never were).
4. The modification time of an entry is the admission's own number, in days after the year 5138, so that no real file's
   can be taken for one. Spark takes a file for new if it does not remember it and if it is not more than 7 days older
   than the newest: days keep that memory down to `SPARK_REMEMBERS` admissions, whatever the age of the files.

Spark reads a path once per query, so nothing may be admitted twice; it skips names that it hides (``_x``, ``.x``) and
files that are gone, both silently, so what lists files must leave these out.

This module must not know where files come from, what is in them, or when to admit them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.port import NotFound, Store

CARRIED_OVER = "file:///rekindle/carried-over"
"""Path of the synthetic entry of `Inbox.open_new`. There is no such file, and no query reads it."""

SPARK_REMEMBERS = 8
"""Admissions that Spark's own log of what it has read (``sources/<i>`` of a progress dir) must keep when it is cut.

After a restart Spark takes every listed file for new that is not in that log and at most 7 days, which is 7 admissions,
older than the newest one in it.
"""

INDEXES = 1_000
"""Inboxes that a query may have."""

_ORIGIN_MS = 10**14
_DAY_MS = 86_400_000
_INTERVAL = 10
_VERSION = b"v1"
_LOG_FILE = re.compile(r"(\d+)(\.compact)?")


def stamp_ms(k: int, index: int) -> int:
    """Return the modification time of entries of admission `k` to the inbox `index`: k days and `index` ms.

    Spark's own source log repeats it, and so tells (`unstamp`) which inbox a source of the query reads, and how far.
    """
    return _ORIGIN_MS + k * _DAY_MS + index


def unstamp(time_ms: int) -> tuple[int, int] | None:
    """Return the inbox's index and the admission that a modification time stands for; None for a real file's time."""
    k, index = divmod(time_ms - _ORIGIN_MS, _DAY_MS)
    return (index, k) if k >= 0 and index < INDEXES else None


def is_compaction(k: int) -> bool:
    """Return whether admission `k` replaces all log files before it."""
    return (k + 1) % _INTERVAL == 0


class Inbox:
    """One input of one subtask in one lineage.

    Args:
        store: where the log lies. Spark must be able to read it, under a path without ``{}[]*?\\``: Spark takes one
            with any of these for a pattern and ignores the log.
        folder: `layout.inbox` or `layout.marks`.
        index: 0 to 999, different for each inbox of a query.
        logs: where Spark reads a copy of the log (`shown_logs`); None: it reads the log itself.
    """

    def __init__(self, store: Store, folder: str, index: int, logs: Store | None = None) -> None:
        if not 0 <= index < INDEXES:
            raise ValueError(f"the index of an inbox is 0 to 999, not {index}")
        self._store = store
        self._folder = folder
        self._index = index
        self._copies = None if logs is store else logs

    @property
    def place(self) -> str:
        """The folder, as Spark takes it, that a query reads."""
        return (self._copies or self._store).spark_path(self._folder)

    def open(self) -> None:
        """Make the inbox readable while it is empty. To be called before a query on it starts; again is harmless.

        Without a log Spark would refuse the folder or, worse, list what lies in it.
        """
        self._store.create(layout.inbox_opened(self._folder), b"")
        if self._copies is not None:
            self._copies.create(layout.inbox_opened(self._folder), b"")
            self._copy_all(self._copies)

    def open_new(self, carried: int) -> bool:
        """Begin the inbox of a new lineage: admission 0 stands for the `carried` files read before it.

        The query's own source log must hold the same entry (path `CARRIED_OVER`, timestamp ``stamp_ms(0, index)``,
        batch 0), so that Spark takes it for read. Returns False where admission 0 exists already, as `admit` does.
        """
        return self.admit(0, [FrozenFile(path=CARRIED_OVER, size=carried)])

    def admit_instead(self, k: int, files: Sequence[FrozenFile]) -> None:
        """Let `files` take the place of what admission `k` has, which nothing has been recorded of; no compaction."""
        self._store.replace(self._path(k), _log([_entry(file, stamp_ms(k, self._index)) for file in files]))

    def admit(self, k: int, files: Sequence[FrozenFile]) -> bool:
        """Let the query see `files` (at least one) as admission `k`; k-1 is in a batch record by now.

        Returns False if there is an admission `k` already: it stands, and `admitted` tells what it is.
        """
        if not files:
            raise ValueError("an admission without files would not move Spark's offset")
        entries = [_entry(file, stamp_ms(k, self._index)) for file in files]
        if is_compaction(k):
            entries = [*self._entries(k - 1), *entries]
        created = self._store.create(self._path(k), _log(entries))
        if self._copies is not None:
            self._copy(self._copies, k, _log(entries) if created else None)
        if created and is_compaction(k):
            self._forget_before(k - _INTERVAL)
        return created

    def _copy(self, copies: Store, k: int, data: bytes | None) -> None:
        """Show admission `k`, whose log file is `data`; None: another driver's, which is read."""
        if data is None or not (k == 0 or copies.exists(self._path(k - 1))):
            self._copy_all(copies)  # other drivers may have admitted more: Spark wants a log without gaps
        else:
            copies.replace(self._path(k), data)

    def _copy_all(self, copies: Store) -> None:
        """Show all admissions that are not shown yet, the oldest first."""
        shown = set(self._names(copies))
        for name in sorted(self._names(self._store).items(), key=lambda one: one[1]):
            path = layout.admission(self._folder, name[0])
            if name[0] not in shown:
                with suppress(NotFound):  # deleted meanwhile: a later compaction has it
                    copies.replace(path, self._store.read(path))

    def last_admitted(self) -> int:
        """Return the number of the newest admission, -1 for none."""
        return max(self._names(self._copies or self._store).values(), default=-1)

    def admitted(self, k: int) -> list[FrozenFile]:
        """Return the files of admission `k`, in their order; raise `NotFound` if it never was or is long past."""
        return [FrozenFile(path=entry["path"], size=entry["size"]) for entry in self._entries(k)]

    def _entries(self, k: int) -> list[dict[str, Any]]:
        path = self._path(k)
        version, *lines = self._store.read(path).split(b"\n")
        try:
            if version != _VERSION:
                raise ValueError(f"it begins with {version!r}")
            entries = [json.loads(line) for line in lines]
            return [entry for entry in entries if entry["modificationTime"] == stamp_ms(k, self._index)]
        except (ValueError, LookupError, TypeError) as error:
            raise StorageError("OBJECT_CORRUPT", path=path, reason=error) from error

    def _path(self, k: int) -> str:
        return layout.admission(self._folder, f"{k}.compact" if is_compaction(k) else f"{k}")

    def _names(self, store: Store) -> dict[str, int]:
        """Return the log files that lie there, and which admission each ends with."""
        names = store.names(layout.admissions(self._folder))
        return {name: int(match[1]) for name in names if (match := _LOG_FILE.fullmatch(name))}

    def _forget_before(self, k: int) -> None:
        """Delete log files that a later compaction has replaced: harmless in any driver, and however late."""
        known = self._copies or self._store
        doomed = [name for name, number in self._names(known).items() if number < k]
        for name in doomed:
            self._store.delete(layout.admission(self._folder, name))
            if self._copies is not None:
                self._copies.delete(layout.admission(self._folder, name))


def _entry(file: FrozenFile, stamp: int) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "isDir": False,
        "modificationTime": stamp,
        "blockReplication": 1,
        "blockSize": 134_217_728,
        "action": "add",
    }


def _log(entries: Iterable[dict[str, Any]]) -> bytes:
    return b"\n".join([_VERSION, *(json.dumps(entry).encode() for entry in entries)])
