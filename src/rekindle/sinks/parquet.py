"""A directory of Parquet files, in a file system or in a bucket.

Spark writes each batch into a hidden staging directory inside the target (``.rekindle/…``, which Spark, pyarrow and
most readers skip), and commit moves the files into place: renamed in a file system, copied by the server in a bucket.
So no reader ever sees half a *file*, but one that lists the directory during a commit may see some files of a
checkpoint and not yet the others. File names carry job, sink, lineage and batch, so that two jobs can share a target,
and a repeated commit finds its files done.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from rekindle.errors import SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.owners import Claim, OwnerFiles
from rekindle.sinks.parquet_rewind import ParquetRewind
from rekindle.sinks.reading import all_of, read_files
from rekindle.sinks.staging import open_readable, open_writable
from rekindle.sinks.two_phase import Commits, Committable, SinkBatch, TwoPhaseSink
from rekindle.sinks.writing import for_each, write_parquet
from rekindle.storage.addresses import shown
from rekindle.storage.open import open_store
from rekindle.storage.port import NotFound, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

STAGING = ".rekindle"

_NESTED = ("array", "map", "struct", "variant")

_NAME_BYTES = 255
"""Length of the longest name that file systems take."""


class Parquet(TwoPhaseSink):
    """Parquet files in the directory `path`.

    Args:
        path: a directory, local or mounted on the driver and all executors, made if missing; ``s3://bucket/prefix``
            and its like (docs/object-storage.md).
        partition_by: columns laid out as ``column=value`` folders.
        options: options of Spark's Parquet writer, e.g. ``{"compression": "zstd"}``.
    """

    kind: ClassVar[str] = "Parquet"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.partition_by = tuple(partition_by)
        self.options = dict(options or {})
        self._job = self._sink = self._staging = ""
        self._target: Store | None = None

    def __repr__(self) -> str:
        return f"Parquet({self.path!r})"

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.path,)

    def examine(self, claim: Claim, columns: StructType | None) -> int | None:
        """Look for the directory, its owner, and the columns of `partition_by`."""
        claim.check(OwnerFiles(open_readable(self.path, claim.sink), STAGING), shown(self.path))
        if columns is not None and (reason := _unsplit(columns, self.partition_by)) is not None:
            raise SinkError("ROWS_UNWRITABLE", output=f"sink {claim.sink!r}", reason=reason)
        return None

    def open(self, job: str, sink: str) -> None:
        """Make the directory, and see that it can be written."""
        self._job, self._sink, self._staging = job, sink, f"{STAGING}/{job}/{sink}"
        self._target = open_writable(self.path, sink, self._staging)

    def claim(self, claim: Claim) -> None:
        """Take the directory."""
        claim.make(OwnerFiles(self._store, STAGING), shown(self.path))

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Write the batch into a staging directory of its own; files without rows stay there."""
        folder = f"{self._staging}/{batch.name}"
        files: list[dict[str, Any]] = [
            {
                "from": file.path,
                "to": str(PurePosixPath(file.path).with_name(_name(batch, index))),
                "rows": file.rows,
                "bytes": file.bytes,
            }
            for index, file in enumerate(write_parquet(df, self._store, folder, self.partition_by, self.options))
        ]
        if not files:
            self._store.delete_tree(folder)
            return []
        rows, size = sum(file["rows"] for file in files), sum(file["bytes"] for file in files)
        return [{"attempt": batch.name, "rows": rows, "bytes": size, "files": files}]

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Move the staged files into place; those already there are done."""
        for committable in committables:
            folder = f"{self._staging}/{committable['attempt']}"

            def move(file: Mapping[str, Any], folder: str = folder) -> None:
                self._move(f"{folder}/{file['from']}", file["to"])

            for_each(self._store, move, committable["files"])
            self._store.delete_tree(folder)

    def _move(self, staged: str, target: str) -> None:
        if self._store.exists(target):
            return
        try:
            self._store.move(staged, target)
        except NotFound:
            # Another driver that may commit the same (a paused one, say) can have been faster by a moment.
            if not self._store.exists(target):
                path = f"{self._store.location}/{staged}"
                raise SinkError("SINK_STAGING_LOST", sink=self._sink, path=path) from None

    def abort(self, committables: Sequence[Committable]) -> None:
        """Remove the staged files."""
        for committable in committables:
            self._store.delete_tree(f"{self._staging}/{committable['attempt']}")

    def rewind(self, to: int, commits: Commits) -> None:
        """Delete the files, what is staged first: then no one can move it into place any more."""
        try:
            ParquetRewind(self._store, STAGING, self._staging).begin(commits)
        except ValueError as error:
            raise SinkError("SINK_REWIND_FAILED", sink=self._sink, checkpoint=to, reason=error) from None
        committables = all_of(commits)
        self.abort(committables)
        for_each(self._store, self._store.delete, [file["to"] for one in committables for file in one["files"]])

    def read_back(self, spark: SparkSession, commits: Commits, *, job: str, sink: str) -> DataFrame:
        """Read the files with Spark where they lie."""
        paths = [file["to"] for one in all_of(commits) for file in one["files"]]
        return read_files(spark, open_store(self.path), paths)

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """Remove staging directories that no batch record names."""
        kept = {committable["attempt"] for committable in named}
        for name in self._store.names(self._staging):
            batch = SinkBatch.named(name, job=self._job, sink=self._sink)
            if name not in kept and batch is not None and may_remove(batch):
                self._store.delete_tree(f"{self._staging}/{name}")

    @property
    def _store(self) -> Store:
        assert self._target is not None, "it is opened first"
        return self._target


def _unsplit(columns: StructType, partition_by: Sequence[str]) -> str | None:
    """Return why Spark makes no folders of these columns; None where it does. Case is no difference to it."""
    there = {field.name.lower(): field.dataType.typeName() for field in columns.fields}
    for name in partition_by:
        kind = there.get(name.lower())
        if kind is None:
            return f"partition_by names {name!r}, and the columns are: {', '.join(columns.names)}"
        if kind in _NESTED:
            return f"partition_by names {name!r}, which is a {kind}"
    if partition_by and len({name.lower() for name in partition_by}) == len(there):
        return "partition_by names all columns, and a file has to have one"
    return None


def _name(batch: SinkBatch, index: int) -> str:
    """Return the name of an attempt's file; a digest stands for job and sink where the name would be too long."""
    job_and_sink = f"{batch.job}-{batch.sink}"
    rest = f"{batch.lineage:06d}-{batch.batch:09d}-{batch.subtask:04d}-{index:05d}-{batch.attempt}.parquet"
    name = f"part-{job_and_sink}-{rest}"
    if len(name.encode()) > _NAME_BYTES:
        name = f"part-{hashlib.sha256(job_and_sink.encode()).hexdigest()[:32]}-{rest}"
    return name
