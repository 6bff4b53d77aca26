"""Cutting the logs of the sources that inboxes feed, while the query runs.

All else in a `spark_progress_dir` Spark clears up itself (`kept_batches`), the logs of other file sources too. Of an
inbox it would keep for ever what it has read of it, since it cannot know that no file comes twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rekindle.channels.inbox import SPARK_REMEMBERS, unstamp
from rekindle.progress.directory import encode_file_log, file_log, numbered
from rekindle.progress.files import replaced_logs
from rekindle.storage.port import Store

_KEPT_ADMISSIONS = SPARK_REMEMBERS + 2
"""How far back a file source's log is left to go: no file that the inbox still names is read again."""


def cut_inbox_logs(store: Store, folder: str, inbox_sources: Collection[int]) -> int:
    """Cut the logs of `inbox_sources` down to what Spark needs to go on; returns how many files were deleted.

    They are not needed to go back, since a new lineage writes them anew. A cut leaves the directory whole for Spark, so
    it may be interrupted anywhere and is simply done again.

    Args:
        inbox_sources: indexes of Spark's sources.
    """
    doomed = [path for source in inbox_sources for path in _cut(store, f"{folder}/sources/{source}")]
    store.delete_many(doomed)
    return len(doomed)


def _cut(store: Store, log: str) -> Iterator[str]:
    """Cut the newest compacted log down to its last admissions; what it replaces is doomed."""
    newest = max(numbered(store, log, ".compact", plain=False), default=None)
    if newest is None:
        return
    path = f"{log}/{newest}.compact"
    entries = file_log(store.read(path), path)
    if not entries:
        return
    admissions = [stamped[1] if (stamped := unstamp(entry["timestamp"])) else -1 for entry in entries]
    oldest = max(admissions) - _KEPT_ADMISSIONS
    kept = [entry for entry, admission in zip(entries, admissions, strict=True) if admission >= oldest]
    if len(kept) < len(entries):
        store.replace(path, encode_file_log(kept))
    names = set(store.names(log))
    yield from (f"{log}/{name}" for name in replaced_logs(store, log) if name in names)
