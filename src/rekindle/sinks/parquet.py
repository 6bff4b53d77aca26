"""A directory of Parquet files.

Spark writes each batch into a hidden staging directory inside the target (``.rekindle/…``, which Spark, pyarrow and
most readers skip), and commit renames the files into place, one by one. So no reader ever sees half a *file*, but one
that lists the directory during a commit may see some files of a checkpoint and not yet the others. File names carry
job, sink, lineage and batch, so that two jobs may share a target and a repeated commit finds its files done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from rekindle.errors import SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.two_phase import Committable, SinkBatch, TwoPhaseSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGING = ".rekindle"

# Staging is private to one attempt, so files can be moved there directly, and nobody looks for a success marker.
_WRITER_OPTIONS = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


class Parquet(TwoPhaseSink):
    """Parquet files in the directory `path`.

    Args:
        path: a local directory or one mounted on the driver and all executors; made if missing.
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
        self._job = self._sink = ""

    def __repr__(self) -> str:
        return f"Parquet({self.path!r})"

    @property
    def _target(self) -> Path:
        parts = urlsplit(self.path)
        return Path(unquote(parts.path) if parts.scheme == "file" else self.path).absolute()

    @property
    def _staging(self) -> Path:
        return self._target / STAGING / self._job / self._sink

    def open(self, job: str, sink: str) -> None:
        """Make the directory, and see that it can be written."""
        self._job, self._sink = job, sink
        scheme = urlsplit(self.path).scheme
        try:
            if scheme not in ("", "file"):
                raise OSError(f"{scheme}:// is not supported in this version")
            self._staging.mkdir(parents=True, exist_ok=True)
            if not os.access(self._target, os.W_OK):
                raise OSError("it is not writable")
        except OSError as error:
            raise SinkError("SINK_TARGET_INVALID", sink=sink, target=self.path, reason=error) from error

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Write the batch into a staging directory of its own; files without rows are left behind there."""
        attempt = batch.name
        folder = self._staging / attempt
        writer = df.write.mode("error").options(**_WRITER_OPTIONS, **self.options)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.parquet(f"file://{folder}")  # Spark takes it as it is, not percent-encoded
        prefix = f"part-{batch.job}-{batch.sink}-{batch.lineage:06d}-{batch.batch:09d}"
        files: list[dict[str, Any]] = []
        for index, (file, rows) in enumerate(_files_with_rows(folder)):
            name = f"{prefix}-{batch.subtask:04d}-{index:05d}-{batch.attempt}.parquet"
            files.append(
                {
                    "from": str(file.relative_to(folder)),
                    "to": str(file.relative_to(folder).with_name(name)),
                    "rows": rows,
                    "bytes": file.stat().st_size,
                }
            )
        if not files:
            shutil.rmtree(folder, ignore_errors=True)
            return []
        rows = sum(file["rows"] for file in files)
        return [{"attempt": attempt, "rows": rows, "bytes": sum(file["bytes"] for file in files), "files": files}]

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Rename the staged files into place; those already there are done."""
        if not isinstance(permit, CommitPermit):
            raise SinkError("PERMIT_REQUIRED", sink=self._sink)
        for committable in committables:
            folder = self._staging / committable["attempt"]
            for file in committable["files"]:
                self._move(folder / file["from"], self._target / file["to"])
            shutil.rmtree(folder, ignore_errors=True)

    def _move(self, staged: Path, target: Path) -> None:
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            staged.rename(target)
        except FileNotFoundError:
            # Another driver that may commit the same (a paused one, say) can have been faster by a moment.
            if not target.exists():
                raise SinkError("SINK_STAGING_LOST", sink=self._sink, path=staged) from None

    def abort(self, committables: Sequence[Committable]) -> None:
        """Remove the staged files."""
        for committable in committables:
            shutil.rmtree(self._staging / committable["attempt"], ignore_errors=True)

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """Remove staging directories that no record names."""
        kept = {committable["attempt"] for committable in named}
        for folder in sorted(self._staging.iterdir()):
            batch = SinkBatch.named(folder.name, job=self._job, sink=self._sink)
            if folder.name not in kept and batch is not None and may_remove(batch):
                shutil.rmtree(folder, ignore_errors=True)


def _files_with_rows(folder: Path) -> Iterator[tuple[Path, int]]:
    import pyarrow.parquet as pq  # only drivers need it; the command line starts without

    for file in sorted(folder.rglob("*.parquet")):
        rows = pq.read_metadata(file).num_rows
        if rows:
            yield file, rows
