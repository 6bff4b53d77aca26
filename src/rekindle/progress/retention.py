"""The cutting of the logs of file sources, while the query runs.

Spark itself deletes all other old files in a `spark_progress_dir` (`kept_batches`), and old files of a file source's
log, too. But every tenth log file names each file that was ever read. An inbox never needs those names: no file comes
twice. In a file stream Spark forgets files that are older than the newest by ``maxFileAge``, 7 days by default, and
reads none that old, whether the log names it or not; but it copies their names again and again.
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
"""The number of last admissions that the log of an inbox keeps: no file that the inbox still names is read again."""

_LOOK_EVERY = 100
"""The least number of offsets of a file stream between two looks into its log."""

_READ_AGAIN = 20
"""The number of last offsets whose files stay in the log at any age: Spark may plan their batches again."""


class SourceLogs:
    """The logs of the file sources of one query.

    A cut log replaces the newest compacted one, which Spark reads. If Spark is just reading the one before, it reads
    the cut log the next time. A cut leaves the directory whole, so it may be interrupted anywhere.

    Args:
        folder: the query's `spark_progress_dir`.
        age_ms: age, relative to the newest file, from which no stream of the query reads a file; None: all are read.
    """

    def __init__(self, store: Store, folder: str, age_ms: int | None) -> None:
        self._store = store
        self._folder = folder
        self._age_ms = age_ms
        #: inbox source → number of its compacted log that was cut last
        self._cut: dict[int, int] = {}
        #: stream source → offset at which its log is read next
        self._next: dict[int, int] = {}

    def cut(self, inputs: Sequence[int | None], ends: Sequence[str | None]) -> None:
        """Cut the entries that are not needed from the logs.

        The logs of inboxes keep only the entries that Spark needs to continue. A restore does not need them, since a
        new lineage writes them again.

        Args:
            inputs: for each source the index of the input whose inbox it reads; None: it reads none.
            ends: for each source its end offset in the oldest retained checkpoint. A query that resumes there must not
                read the files again whose names are cut.
        """
        inboxes = [source for source, index in enumerate(inputs) if index is not None]
        self._store.delete_many([path for source in inboxes for path in self._cut_inbox(source)])
        for source, (index, end) in enumerate(zip(inputs, ends, strict=True)):
            offset = log_offset(end) if index is None else None
            if offset is None or self._age_ms is None or offset < self._next.get(source, _LOOK_EVERY):
                continue
            named = self._cut_stream(self._log(source), offset, self._age_ms)
            # A log with many files is large: it is read again when it may have grown by half.
            self._next[source] = offset + max(named // 2, _LOOK_EVERY)

    def _cut_inbox(self, source: int) -> list[str]:
        """Cut the newest compacted log down to its last admissions; return the paths of the log files it replaces."""
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
        """Cut the newest compacted log; return the number of files that it names now."""
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
