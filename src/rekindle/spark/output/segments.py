"""The writing side of channels: a batch's output as Parquet segments.

Every task that is read by another writes its output once for all of them, in a folder of its own for each attempt, so
that a failed attempt leaves only an orphan. The names of the segments are in the batch record; consumers of the
channel read only those.
"""

from __future__ import annotations

import math

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.graph.columns import column_changes, known_columns
from rekindle.graph.settling import settle
from rekindle.sinks.writing import write_parquet
from rekindle.spark.output.unwritable import channel_of, refuse_unwritable
from rekindle.spark.schemas import schema_of
from rekindle.storage import layout
from rekindle.storage.documents.batch import OutputSchema, Segment
from rekindle.storage.job_documents import JobDocuments


class SegmentWriter:
    """A writer of the output of one subtask, batch by batch, in segments of a sensible size.

    Each Spark task that makes a part of a batch writes a segment, which costs nothing. What the batches before came to
    tells when that is not sensible: large parts are cut by their number of rows, and crumbs, as of a task that keeps
    its state in two hundred partitions, go through a shuffle, which is cheap since they are few. There are never fewer
    parts than cores, so that a batch much larger than the one before it is not written by one of them alone.

    Args:
        folder: of the subtask.
        segment_bytes: what a segment should have, `channel.segment_bytes`.
        cores: how many Spark tasks run at a time.
    """

    def __init__(self, storage: JobDocuments, folder: str, segment_bytes: int, cores: int) -> None:
        self._storage = storage
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._cores = cores
        #: number of parts with rows that Spark made of the last batch that was written as it came
        self._parts = 0
        #: bytes and rows of the last batch that had any
        self._bytes = self._rows = 0

    def write(self, df: DataFrame, batch: int, attempt: str) -> tuple[Segment, ...]:
        """Write a batch's output; files without rows are left out, and go when the batch goes.

        Args:
            attempt: a fresh name.
        """
        target = layout.segment_folder(self._folder, batch, attempt)
        sensible = max(self._cores, math.ceil(self._bytes / self._segment_bytes))
        gathered = self._parts > 2 * sensible
        options: dict[str, int] = {}
        if self._rows:
            options["maxRecordsPerFile"] = max(1, self._rows * self._segment_bytes // max(self._bytes, 1))
        frame = df.repartition(sensible) if gathered else df
        below = target.removeprefix(f"{self._folder}/")
        segments = tuple(
            Segment(path=f"{below}/{file.path}", size=file.bytes, rows=file.rows)
            for file in write_parquet(frame, self._storage.store, target, options=options)
        )
        if segments:
            self._bytes = sum(segment.size for segment in segments)
            self._rows = sum(segment.rows for segment in segments)
            self._parts = self._parts if gathered else len(segments)
        return segments


def output_schema(storage: JobDocuments, folder: str, task: str, frame: DataFrame | None) -> T.StructType:
    """Return the columns of what a task puts into its channels: those of `frame`; if it is None, those it last had.

    Raises:
        SinkError: ``ROWS_UNWRITABLE``.
        RestoreError: ``OUTPUT_CHANGED``: segments that were written before could not be read with these columns.
    """
    path = layout.output_schema(folder)
    if frame is None:
        saved = storage.read(path, OutputSchema)
        return schema_of(saved.columns) if saved else T.StructType()
    schema = _nullable(frame.schema)
    refuse_unwritable(channel_of(task), frame)
    saved = storage.adopt(path, OutputSchema(columns=schema.jsonValue()))
    if schema_of(saved.columns) != schema:
        before, now = saved.known or saved.columns, schema.jsonValue()
        settle(column_changes(task, before, now, widens=_WIDENS), folder, in_place=True)
        storage.replace(path, OutputSchema(columns=now, known=dict(known_columns(before, now))))
    return schema


_WIDENS = int(pyspark.__version__.split(".")[0]) >= 4
"""True if this Spark reads a Parquet column of a narrower type as one of a wider type."""


def _nullable(schema: T.StructType) -> T.StructType:
    """Return the schema as it is read back from files, without what Spark noted on its columns."""
    return T.StructType([T.StructField(field.name, field.dataType, nullable=True) for field in schema])
