"""A directory of Parquet files.

Spark writes each batch into a hidden staging directory inside the target (``.rekindle/…``, which Spark, pyarrow and
most readers skip), and commit renames the files into place, one by one. So no reader ever sees half a *file*, but one
that lists the directory during a commit may see some files of a checkpoint and not yet the others. File names carry
job, sink, lineage and batch, so that two jobs may share a target and a repeated commit finds its files done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rekindle.errors import SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.staging import make_writable, write_parquet
from rekindle.sinks.two_phase import Committable, SinkBatch, TwoPhaseSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGING = ".rekindle"


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
        self._target = self._staging = Path()

    def __repr__(self) -> str:
        return f"Parquet({self.path!r})"

    def open(self, job: str, sink: str) -> None:
        """Make the directory, and see that it can be written."""
        self._job, self._sink = job, sink
        self._target = make_writable(self.path, sink)
        self._staging = self._target / STAGING / job / sink
        self._staging.mkdir(parents=True, exist_ok=True)

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Write the batch into a staging directory of its own; files without rows are left behind there."""
        folder = self._staging / batch.name
        prefix = f"part-{batch.job}-{batch.sink}-{batch.lineage:06d}-{batch.batch:09d}-{batch.subtask:04d}"
        files = [
            {
                "from": file["path"],
                "to": str(Path(file["path"]).with_name(f"{prefix}-{index:05d}-{batch.attempt}.parquet")),
                "rows": file["rows"],
                "bytes": file["bytes"],
            }
            for index, file in enumerate(write_parquet(df, folder, self.partition_by, self.options))
        ]
        if not files:
            shutil.rmtree(folder, ignore_errors=True)
            return []
        rows, size = sum(file["rows"] for file in files), sum(file["bytes"] for file in files)
        return [{"attempt": batch.name, "rows": rows, "bytes": size, "files": files}]

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
