"""The writing side of channels: a batch's output as Parquet segments, and what is read back of them.

Every task that is read by another writes its output once for all of them, in a folder of its own for each attempt, so
that a failed attempt leaves only an orphan. The names of the segments are in the batch record; whoever reads the
channel reads only those.
"""

from __future__ import annotations

import fsspec
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.errors import RestoreError
from rekindle.storage import layout
from rekindle.storage.documents import FrozenFile, OutputSchema, Segment
from rekindle.storage.job_storage import JobStorage


def write_segments(storage: JobStorage, folder: str, df: DataFrame, batch: int, attempt: str) -> tuple[Segment, ...]:
    """Write a batch's output; files without rows are left out, and lie there as orphans.

    Args:
        folder: of the subtask.
        attempt: a fresh name.
    """
    target = layout.segment_folder(folder, batch, attempt)
    df.write.mode("error").parquet(storage.store.spark_path(target))
    found = [entry for entry in storage.store.walk(target) if entry.path.endswith(".parquet")]
    segments = (
        Segment(path=entry.path.removeprefix(f"{folder}/"), size=entry.size_bytes, rows=_rows(storage, entry.path))
        for entry in sorted(found)
    )
    return tuple(segment for segment in segments if segment.rows)


def _rows(storage: JobStorage, path: str) -> int:
    import pyarrow.parquet as pq

    with fsspec.open(storage.store.uri(path), "rb") as file:
        return int(pq.read_metadata(file).num_rows)


def read_segments(storage: JobStorage, folder: str, batch: int) -> tuple[FrozenFile, ...]:
    """The segments of a batch of the subtask in `folder`, with absolute addresses; none where it has no record."""
    record = storage.record(folder, batch)
    segments = record.segments if record else ()
    return tuple(FrozenFile(path=storage.store.uri(f"{folder}/{one.path}"), size=one.size) for one in segments)


def output_schema(storage: JobStorage, folder: str, task: str, frame: DataFrame | None) -> T.StructType:
    """The columns of what a task puts into its channels: those it began with, which `frame`, if given, must have.

    Raises:
        RestoreError: ``OUTPUT_CHANGED``: readers were planned, and segments written, with other columns.
    """
    path = layout.output_schema(folder)
    if frame is None:
        saved = storage.read(path, OutputSchema)
        return T.StructType.fromJson(saved.columns) if saved else T.StructType()
    schema = _nullable(frame.schema)
    saved = storage.adopt(path, OutputSchema(columns=schema.jsonValue()))
    found = T.StructType.fromJson(saved.columns)
    if found != schema:
        raise RestoreError("OUTPUT_CHANGED", task=task, before=found.simpleString(), now=schema.simpleString())
    return found


def _nullable(schema: T.StructType) -> T.StructType:
    """As it is read back from files, without what Spark noted on its columns."""
    return T.StructType([T.StructField(field.name, field.dataType, nullable=True) for field in schema])
