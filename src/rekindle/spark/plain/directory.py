"""The checkpoint directory of a plain Structured Streaming query, as it lies there: read, and never written.

`rekindle.progress.plain` says what the numbers in it mean. Spark locks nothing: that a query still runs is seen by its
name in this session, or by what it has written since the directory was first looked at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from rekindle.errors import InputError, RestoreError
from rekindle.progress.directory import Offsets, log_entries, numbered, read_offsets
from rekindle.progress.plain import SourceReader, Standing, folders_of, kind_of, lines_of, standing
from rekindle.sources.globs import is_glob
from rekindle.sources.listing import check_present
from rekindle.spark.plans.plan import readers_of
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.open import open_store
from rekindle.storage.port import NotFound, Store


class PlainDirectory:
    """The checkpoint directory of a plain query, which is only read.

    Args:
        location: a path or URI.

    Raises:
        StorageError: ``STORAGE_SCHEME_UNSUPPORTED``, ``PROGRESS_FORMAT_UNKNOWN``, ``OBJECT_CORRUPT``.
        RestoreError: what `standing` raises.
    """

    def __init__(self, location: str) -> None:
        self.path = open_store(location).location.rstrip("/")
        parent, _, self.folder = self.path.rpartition("/")
        self.store: Store = open_store(parent or "/")
        self.standing = self._standing()
        self.offsets: Offsets = read_offsets(self.store, self.folder, self.standing.batch)
        present = self.store.names(f"{self.folder}/sources")
        #: folder of each line of the offsets, below ``sources/``
        self.sources = folders_of(self.path, self.offsets.names, self.offsets.sources, present)

    def _standing(self) -> Standing:
        offsets, commits = (numbered(self.store, f"{self.folder}/{log}") for log in ("offsets", "commits"))
        return standing(self.path, offsets, commits)

    def query_id(self) -> str | None:
        """Return the id by which Spark knows the query; None where the directory does not say it."""
        try:
            found = re.search(rb'"id"\s*:\s*"([^"]+)"', self.store.read(f"{self.folder}/metadata"))
        except NotFound:
            return None
        return found[1].decode() if found else None

    def refuse_running(self, spark: SparkSession) -> None:
        """Raise ``SPARK_CHECKPOINT_IN_USE`` if its query runs in this session, or has moved since it was first read."""
        for query in spark.streams.active:
            if query.id == self.query_id():
                raise RestoreError("SPARK_CHECKPOINT_IN_USE", path=self.path, reason="it runs in this session")
        if self._standing() != self.standing:
            raise RestoreError("SPARK_CHECKPOINT_IN_USE", path=self.path, reason="it has written while it was read")

    def refuse_other_query(self, frame: DataFrame) -> None:
        """Raise ``SPARK_CHECKPOINT_DIFFERS`` if `frame` does not read what the query has read."""
        lines_of(self.path, self.offsets.names, self.offsets.sources, readers_of(frame))

    def has_state_ids(self) -> bool:
        """Return True if each version of the state has an id, as in version 2 of the log of commits."""
        return not self.store.read(f"{self.folder}/commits/{self.standing.batch}").startswith(b"v1")

    def refuse_other_places(self, lines: Sequence[int | None], readers: Sequence[SourceReader | None]) -> None:
        """Raise ``SPARK_CHECKPOINT_DIFFERS`` if a file source has read elsewhere than it reads now.

        Spark would take each file there for a new one.
        """
        for line, reader in zip(lines, readers, strict=True):
            if line is None or reader is None or reader.kind != "files" or is_glob(reader.place):
                continue
            for path in self._files(line, self.offsets.sources[line])[-1:]:
                if path.startswith("file:") and not _is_below(path, reader.place):
                    reason = f"its source {line} has read {unquote(path)}, and the query reads {reader.place}"
                    raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=self.path, reason=reason)

    def _files(self, line: int, end: str | None) -> list[str]:
        """Return the files that a file source has read as one offset; none where that is not known any more."""
        log = f"{self.folder}/sources/{self.sources[line]}"
        try:
            return [entry["path"] for entry in log_entries(self.store, log, _log_offset(end))]
        except NotFound:
            return []

    def refuse_lost_data(self) -> None:
        """Raise ``UNFINISHED_BATCH_UNREADABLE`` if the unfinished batch reads a file that is gone.

        Spark would leave it out, and say nothing.
        """
        if self.standing.unfinished is None:
            return
        planned = read_offsets(self.store, self.folder, self.standing.unfinished)
        for index, (before, end) in enumerate(zip(self.offsets.sources, planned.sources, strict=True)):
            for number in range(_log_offset(before) + 1, _log_offset(end) + 1):
                paths = self._files(index, f'{{"logOffset":{number}}}')
                files = [FrozenFile(path=path, size=0) for path in paths if path.startswith("file:")]
                try:
                    check_present(str(index), files)
                except InputError as error:
                    raise InputError(
                        "UNFINISHED_BATCH_UNREADABLE",
                        checkpoint=self.path,
                        batch=self.standing.unfinished,
                        path=error.parameters["path"],
                    ) from None


def _is_below(file: str, folder: str) -> bool:
    """Return True if a file, as a log names it, lies in a folder, as the user has given it."""
    place = os.path.abspath(re.sub("^file:/+", "/", folder))
    return f"{re.sub('^file:/+', '/', unquote(file))}/".startswith(f"{place.rstrip('/')}/")


def _log_offset(end: str | None) -> int:
    """Return how far a file source has read its own log; -1: not at all, or it is of another kind, which has none."""
    return int(json.loads(end or "")["logOffset"]) if kind_of(end) == "files" else -1
