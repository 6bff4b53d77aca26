"""Deleting what no retained batch of a `spark_progress_dir` needs, while the query runs.

Spark is told to keep everything (``minBatchesToRetain``): which batches are pinned only the coordinator knows. Every
deletion leaves the directory whole for Spark, so it may be interrupted anywhere and is simply done again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rekindle.channels.inbox import SPARK_REMEMBERS, unstamp
from rekindle.spark.progress_dir import encode_file_log, file_log, last_committed, numbered
from rekindle.spark.progress_files import StateFolder, replaced_logs, state_folders
from rekindle.storage.port import Store

_KEPT_ADMISSIONS = SPARK_REMEMBERS + 2
"""How far back a file source's log is left to go: no file that the inbox still names is read again."""


def purge(store: Store, folder: str, oldest_batch: int, inbox_sources: Collection[int] = ()) -> int:
    """Delete what is needed neither by `oldest_batch` nor by any later batch; returns how many files that were.

    Of state, nothing is deleted before there is a snapshot that `oldest_batch` can be loaded from. The logs of
    `inbox_sources` (indexes of Spark's sources) are cut down to what Spark needs to go on; they are not needed to go
    back, since a new lineage writes them anew. Other sources' logs are Spark's.
    """
    oldest_batch = min(oldest_batch, last_committed(store, folder))
    doomed = [
        *_logs_doomed(store, folder, oldest_batch),
        *(
            path
            for state in state_folders(store, folder)[0].values()
            for path in _state_doomed(store, state, oldest_batch)
        ),
        *(path for source in inbox_sources for path in _cut_source_log(store, f"{folder}/sources/{source}")),
    ]
    for path in doomed:
        # Spark may keep a checksum of its own beside a file; an orphan would condemn a later file of that name.
        store.delete(f"{path}.crc")
        store.delete(path)
    return len(doomed)


def _logs_doomed(store: Store, folder: str, oldest_batch: int) -> Iterator[str]:
    for log in (f"{folder}/offsets", f"{folder}/commits"):
        yield from (f"{log}/{number}" for number in numbered(store, log) if number < oldest_batch - 1)


def _state_doomed(store: Store, state: StateFolder, oldest_batch: int) -> Iterator[str]:
    """Immutable files come first and snapshots last, so that an interrupted purge still knows whose files are left."""
    start = state.snapshot_for(oldest_batch + 1)
    if start is None:
        return
    old = [version for version in state.snapshots if version < start]
    if old:
        # Not all that no kept snapshot names: one may be on its way up, its files ahead of it. Those it shares with
        # earlier ones are in the newest of them, which is kept.
        kept = [version for version in state.snapshots if version >= start]
        yield from sorted(state.shared_by(store, old) - state.shared_by(store, kept))
    yield from (path for version, path in sorted(state.changes.items()) if version <= start)
    yield from (state.snapshots[version] for version in sorted(old))


def _cut_source_log(store: Store, log: str) -> Iterator[str]:
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
