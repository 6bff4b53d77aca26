"""Parquet files that Spark writes for one attempt at a batch: where they lie, and which are not committed.

Each attempt writes into a folder of its own, named `SinkBatch.name`, so nothing is overwritten and an orphan is found
by its name. `Attempts` is for tables whose own log says which files belong to them (Delta, Iceberg). Their files lie at
once where they stay, and what tells an orphan from a committed attempt is a *note*, an empty file beside them::

    <folder>/rekindle/<job>/<sink>/<attempt>/…parquet      written by Spark; a reader sees what the table's log names
    <folder>/_rekindle/<job>/<sink>/<attempt>              the note: this attempt is not committed

The note is made before the first row is written, and removed after the commit or after the last row that is removed:
whatever has no note is never touched here. Names of data folders are not hidden, so that a table's own vacuum finds
files that were compacted away.

This module does not know which table it is, nor when something is committed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rekindle.errors import SinkError, StorageError
from rekindle.sinks.session_settings import set_while
from rekindle.sinks.two_phase import Committable, SinkBatch
from rekindle.sinks.writing import read_footer, write_parquet
from rekindle.storage.addresses import shown
from rekindle.storage.open import folder_of, open_store
from rekindle.storage.port import Entry, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATA, NOTES = "rekindle", "_rekindle"

# Timestamps as Spark writes them by default have no statistics, and pyiceberg cannot read them. Spark 4.0 takes this of
# the session alone, later ones of a writer's options.
TIMESTAMP_TYPE = "spark.sql.parquet.outputTimestampType"


def open_writable(path: str, sink: str, staging: str) -> Store:
    """Open the directory or prefix at `path`, once something could be written into its folder `staging`.

    Raises:
        SinkError: ``SINK_TARGET_INVALID``.
    """
    with _refused(path, sink):
        store = open_store(path)
        store.replace(f"{staging}/.probe", b"")
        store.delete(f"{staging}/.probe")
        return store


def open_readable(path: str, sink: str) -> Store:
    """Open the same, and write nothing: its names show that it is reached, and a local folder that it can be written.

    Raises:
        SinkError: ``SINK_TARGET_INVALID``.
    """
    with _refused(path, sink):
        store, folder = open_store(path), folder_of(path)
        store.names("")
        if folder is not None:
            _check_writable(os.path.abspath(folder))
        return store


@contextmanager
def _refused(path: str, sink: str) -> Iterator[None]:
    try:
        yield
    except (OSError, StorageError) as error:
        reason = error.parameters.get("reason", error) if isinstance(error, StorageError) else error.strerror
        raise SinkError("SINK_TARGET_INVALID", sink=sink, target=shown(path), reason=reason) from error


def _check_writable(folder: str) -> None:
    """Raise OSError where this user can neither write into a folder nor make it, as far as its mode tells."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOTDIR, f"{folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, f"this user may not write into {folder}")


class Attempts:
    """Attempts at the batches of one job's sink, below the root of `store`, where a table has its files."""

    def __init__(self, store: Store, job: str, sink: str) -> None:
        self.store, self._job, self._sink = store, job, sink
        self._data = f"{DATA}/{job}/{sink}"
        self._notes = f"{NOTES}/{job}/{sink}"

    def write(
        self,
        df: DataFrame,
        batch: SinkBatch,
        partition_by: Sequence[str],
        options: Mapping[str, str],
        check: Callable[[Any], None] | None = None,
    ) -> list[Committable]:
        """Write an attempt; return what is to be committed of it, nothing where it has no rows.

        Args:
            check: is called with the footer of each file, and raises where its rows can never be committed.
        """
        self.store.replace(f"{self._notes}/{batch.name}", b"")
        options = {TIMESTAMP_TYPE: "TIMESTAMP_MICROS", **options}
        try:
            with set_while(df.sparkSession, {TIMESTAMP_TYPE: options[TIMESTAMP_TYPE]}):
                files = write_parquet(df, self.store, f"{self._data}/{batch.name}", partition_by, options, check)
        except Exception:
            # A driver that has taken over may have cleaned up in the middle of it; the next one finds the rest.
            with suppress(StorageError):
                self.store.replace(f"{self._notes}/{batch.name}", b"")
            raise
        if not files:
            self.remove(batch.name)
            return []
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        return [{"attempt": batch.name, "rows": rows, "bytes": size, "files": [file.path for file in files]}]

    def files(self, committables: Sequence[Committable]) -> Iterator[Entry]:
        """Yield the files that are to be committed.

        Raises:
            SinkError: ``SINK_STAGING_LOST``.
        """
        for committable in committables:
            folder = f"{self._data}/{committable['attempt']}"
            found = {entry.path: entry for entry in self.store.walk(folder)}
            for name in committable["files"]:
                file = found.get(f"{folder}/{name}")
                if file is None:
                    path = f"{self.store.location}/{folder}/{name}"
                    raise SinkError("SINK_STAGING_LOST", sink=self._sink, path=path)
                yield file

    def paths(self, committables: Sequence[Committable]) -> list[str]:
        """Return where the files lie, or lay, in the store."""
        return [f"{self._data}/{one['attempt']}/{name}" for one in committables for name in one["files"]]

    def footer(self, file: Entry) -> Any:
        """Return the footer of one of `files`."""
        return read_footer(self.store, file.path)

    def committed(self, committables: Sequence[Committable]) -> None:
        """Remove the notes of attempts that are part of the table now: they are not ours any more."""
        for committable in committables:
            self.store.delete(f"{self._notes}/{committable['attempt']}")

    def committed_files(
        self, paths: Iterable[str], to: int, commits: Mapping[int, Sequence[Committable]], newest: int
    ) -> list[str]:
        """Return the table's files that these checkpoints have added; if any of theirs is missing, take none.

        Args:
            paths: of the files that the table consists of.
            newest: the newest checkpoint that the table has.

        Raises:
            SinkError: ``SINK_REWIND_FAILED``.
        """
        there: dict[str, list[str]] = {}
        for path in paths:
            _, _, below = unquote(path).rpartition(f"{self._data}/")
            there.setdefault(below.split("/")[0], []).append(path)
        found = []
        for checkpoint, committables in commits.items():
            for committable in committables if checkpoint <= newest else ():
                files = there.get(committable["attempt"], [])
                if len(files) != len(committable["files"]):
                    reason = f"others have rewritten or removed files that checkpoint {checkpoint} has committed"
                    raise SinkError("SINK_REWIND_FAILED", sink=self._sink, checkpoint=to, reason=reason)
                found += files
        return found

    def forget(self, attempt: str) -> None:
        """Remove an attempt that was taken back, unless it was committed: then readers of earlier versions need it."""
        if self.store.exists(f"{self._notes}/{attempt}"):
            self.remove(attempt)

    def remove(self, attempt: str) -> None:
        """Remove an attempt that is not committed and never will be."""
        self.store.delete_tree(f"{self._data}/{attempt}")
        self.store.delete(f"{self._notes}/{attempt}")

    def clean(
        self,
        named: Sequence[Committable],
        may_remove: Callable[[SinkBatch], bool],
        holds: Callable[[str], bool],
    ) -> None:
        """Remove the attempts that are not committed, not in `named`, and that `may_remove` allows.

        Args:
            holds: says whether the table holds files of an attempt: a crash may have come before its note was removed.
        """
        kept = {committable["attempt"] for committable in named}
        for attempt in self.store.names(self._notes):
            batch = SinkBatch.named(attempt, job=self._job, sink=self._sink)
            if attempt in kept or batch is None or not may_remove(batch):
                continue
            if holds(attempt):
                self.store.delete(f"{self._notes}/{attempt}")
            else:
                self.remove(attempt)
