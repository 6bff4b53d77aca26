"""Cutting the logs of file sources, while the query runs.

All else in a `spark_progress_dir` Spark clears up itself (`kept_batches`). Of a file source's log it deletes old files
too, but every tenth names each file that was ever read. Of an inbox that is never needed: no file comes twice. Of a
file stream Spark itself forgets files that are older than the newest by ``maxFileAge``, 7 days unless the user has said
otherwise, and reads none that old, be it named in the log or not; but it copies their names on and on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rekindle.channels.inbox import SPARK_REMEMBERS, unstamp
from rekindle.progress.directory import COMPACTED, encode_file_log, file_log, log_numbers
from rekindle.progress.files import replaced_logs
from rekindle.progress.later_logs import log_offset
from rekindle.storage.port import Store

_KEPT_ADMISSIONS = SPARK_REMEMBERS + 2
"""How far back the log of an inbox is left to go: no file that the inbox still names is read again."""

_LOOK_EVERY = 100
"""Offsets of a file stream, at least, between two looks into its log."""

_READ_AGAIN = 20
"""Offsets whose files are named whatever their age: Spark may plan their batches again."""


class SourceLogs:
    """The logs of the file sources of one query.

    A log that is cut takes the place of the newest compacted one: Spark reads that. Where it is just reading the
    one before, the next cut does it. A cut leaves the directory whole, so it may be interrupted anywhere.

    Args:
        folder: the query's `spark_progress_dir`.
        age_ms: by how much older than the newest a file is that no stream of the query reads; None: any is read.
    """

    def __init__(self, store: Store, folder: str, age_ms: int | None) -> None:
        self._store = store
        self._folder = folder
        self._age_ms = age_ms
        #: inbox source → its newest compacted log, which was cut
        self._cut: dict[int, int] = {}
        #: stream source → the offset from which its log is worth a look
        self._next: dict[int, int] = {}

    def cut(self, inputs: Sequence[int | None], ends: Sequence[str | None]) -> None:
        """Leave out what is not needed.

        The logs of inboxes are cut down to what Spark needs to continue. They are not needed to go back, since a new
        lineage writes them again.

        Args:
            inputs: for each source the input whose inbox it reads; None: it reads none.
            ends: how far the oldest retained checkpoint has read each source. A query resumed there must have
                forgotten what is left out.
        """
        inboxes = [source for source, index in enumerate(inputs) if index is not None]
        self._store.delete_many([path for source in inboxes for path in self._cut_inbox(source)])
        for source, (index, end) in enumerate(zip(inputs, ends, strict=True)):
            offset = log_offset(end) if index is None else None
            if offset is None or self._age_ms is None or offset < self._next.get(source, _LOOK_EVERY):
                continue
            named = self._cut_stream(self._log(source), offset, self._age_ms)
            # A log with many files in it is large: it is looked into when it may have grown by half.
            self._next[source] = offset + max(named // 2, _LOOK_EVERY)

    def _cut_inbox(self, source: int) -> list[str]:
        """Cut the newest compacted log down to its last admissions; returns what it replaces."""
        log = self._log(source)
        names = self._store.names(log)
        newest = _newest_compacted(names)
        if newest is None or newest == self._cut.get(source):
            return []
        entries = self._entries(log, newest)
        admissions = [stamped[1] if (stamped := unstamp(each["timestamp"])) else -1 for each in entries]
        oldest = max(admissions, default=0) - _KEPT_ADMISSIONS
        kept = [each for each, admission in zip(entries, admissions, strict=True) if admission >= oldest]
        self._replace(log, newest, entries, kept)
        self._cut[source] = newest
        return [f"{log}/{name}" for name in replaced_logs(names)] if entries else []

    def _cut_stream(self, log: str, offset: int, age_ms: int) -> int:
        """Cut the newest compacted log; returns how many files it names."""
        newest = _newest_compacted(self._store.names(log))
        entries = [] if newest is None else self._entries(log, newest)
        oldest_ms = max((each["timestamp"] for each in entries if each["batchId"] <= offset), default=0) - age_ms
        again = offset - _READ_AGAIN
        kept = [each for each in entries if each["timestamp"] >= oldest_ms or each["batchId"] >= again]
        if newest is not None:
            self._replace(log, newest, entries, kept)
        return len(kept)

    def _log(self, source: int) -> str:
        return f"{self._folder}/sources/{source}"

    def _entries(self, log: str, number: int) -> list[dict[str, Any]]:
        path = f"{log}/{number}{COMPACTED}"
        return file_log(self._store.read(path), path) or []

    def _replace(self, log: str, number: int, entries: list[dict[str, Any]], kept: list[dict[str, Any]]) -> None:
        if len(kept) < len(entries):
            self._store.replace(f"{log}/{number}{COMPACTED}", encode_file_log(kept))


def _newest_compacted(names: Collection[str]) -> int | None:
    return max((number for name, number in log_numbers(names).items() if name.endswith(COMPACTED)), default=None)
