"""Inputs of a task as streaming DataFrames (DESIGN 6).

An input with an event time is ``transform(data) ∪ its marker inbox`` under one watermark::

    data ──► transform ──► guard ──┐
                                   ├─ union ─► withWatermark ─► drop the markers ─► the user's function
    marker inbox ──────────────────┘

A row is a marker by its own column, never by its value. The filter that drops the markers holds a non-deterministic
conjunct, which keeps Spark from pushing predicates, the user's or a join's, below the watermark, where they would drop
the markers too and freeze the query. The guard fails a batch that holds a time before 1970, which Spark would drop
silently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.feed import FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.channels.marks import MARK_COLUMN, UNORDERED_DELAY, Marks
from rekindle.errors import DefinitionError, InputError
from rekindle.graph import job_graph
from rekindle.runtime.steps import Steps, step
from rekindle.sources import Batch, Files, Source, Stream
from rekindle.spark.failures import BEFORE_EPOCH, brief
from rekindle.storage import layout
from rekindle.storage.documents import FrozenFile, FrozenFiles, InputPosition
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store

MARKER = "__rekindle_marker"
"""Column that tells a watermark row from data, below the user's function."""

_ORDERED_DELAY = "1 millisecond"
"""Least delay of an ordered input: a row as late as the latest one seen is not late."""


@dataclass(slots=True, kw_only=True)
class Input:
    """One input of one subtask: what feeds it, and where it stands."""

    source: job_graph.Source
    frame: DataFrame
    #: as of the last batch record
    position: InputPosition
    #: feeds a bounded source; None where Spark reads the source itself
    feed: FileFeed | None = None
    #: its watermark rows; None where it has no event time
    marks: Marks | None = None
    #: inbox index of the data (marks: the next), which Spark's source log tells us
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """A source as the user defined it."""

    source: job_graph.Source
    spec: Source
    #: what becomes of rows before 1970: "fail" or "drop"
    late: str = "fail"


def freeze(
    spark: SparkSession, storage: JobStorage, spec: SourceSpec, attempt: str, steps: Steps
) -> FrozenFiles | None:
    """The list of files of a bounded source, fixed when the job first starts; None for a `Stream`.

    `attempt` is a fresh name: a `Batch` is written once, and an attempt that a crash cut short stays an orphan.
    """
    uid = spec.source.uid
    path = layout.frozen_files(storage.job, uid)
    if isinstance(spec.spec, Stream):
        return None
    frozen = storage.frozen_files(uid)
    if frozen is None:
        made = (
            _freeze_files(spark, uid, spec.spec)
            if isinstance(spec.spec, Files)
            else _write_batch(spark, storage, uid, spec.spec, attempt, steps)
        )
        frozen = storage.adopt(path, made)
    return frozen


def _freeze_files(spark: SparkSession, uid: str, spec: Files) -> FrozenFiles:
    files, partition_columns, base = spec.list_files(uid)
    reader = spark.read.format(spec.format).options(**spec.all_options)
    if spec.schema is not None:
        reader = reader.schema(spec.schema)
    try:
        schema = reader.load(list(spec.paths)).schema
    except PySparkException as error:
        raise InputError("FILE_UNREADABLE", source=uid, path=", ".join(spec.paths), reason=brief(error)) from error
    return FrozenFiles(
        source=uid, files=files, schema=schema.jsonValue(), partition_columns=partition_columns, base=base
    )


def _write_batch(
    spark: SparkSession, storage: JobStorage, uid: str, spec: Batch, attempt: str, steps: Steps
) -> FrozenFiles:
    frame = _call(uid, spec.read, spark)
    if frame.isStreaming:
        raise DefinitionError("SOURCE_NOT_BATCH", source=uid)
    folder = layout.source_segments(storage.job, uid, attempt)
    with step(steps, "segments.write"):
        frame.write.mode("error").parquet(storage.store.spark_path(folder))
    below = f"{layout.source(storage.job, uid)}/"
    files = tuple(
        FrozenFile(path=entry.path.removeprefix(below), size=entry.size_bytes)
        for entry in storage.store.walk(folder)
        if entry.path.endswith(".parquet")
    )
    return FrozenFiles(source=uid, files=files, schema=frame.schema.jsonValue())


def _call(uid: str, read: Callable[[SparkSession], DataFrame], spark: SparkSession) -> DataFrame:
    try:
        return read(spark)
    except PySparkException as error:
        raise DefinitionError("SOURCE_FUNCTION_FAILED", source=uid, reason=brief(error)) from error


def located(storage: JobStorage, frozen: FrozenFiles) -> tuple[FrozenFile, ...]:
    """The files with absolute addresses: a Batch source's segments are named relative to its own folder."""
    folder = layout.source(storage.job, frozen.source)
    return tuple(
        file
        if "://" in file.path or file.path.startswith("file:/")
        else FrozenFile(path=storage.store.uri(f"{folder}/{file.path}"), size=file.size)
        for file in frozen.files
    )


def build_input(
    spark: SparkSession,
    storage: JobStorage,
    folder: str,
    spec: SourceSpec,
    frozen: FrozenFiles | None,
    *,
    index: int,
    position: InputPosition,
    sizer: AdmissionSizer,
) -> Input:
    """Open an input where `position` says it stands, and make its DataFrame. Admits nothing yet."""
    source = spec.source
    feed = None
    if frozen is None:
        data = _call(source.uid, spec.spec.read, spark)  # type: ignore[union-attr]
        if not data.isStreaming:
            raise DefinitionError("SOURCE_NOT_STREAMING", source=source.uid)
    else:
        inbox = Inbox(storage.store, layout.inbox(folder, source.uid), index)
        inbox.open()
        files = located(storage, frozen)
        if not files:
            position = InputPosition(ended=True)
        feed = FileFeed(inbox, files, position, sizer)
        data = _read_inbox(spark, storage.store, layout.inbox(folder, source.uid), spec.spec, frozen)
    marks = None
    if source.event_time is not None:
        marks = Marks(storage.store, layout.marks(folder, source.uid), index + 1)
        marks.inbox.open()
        data = _watermarked(spark, data, spec, storage.store.spark_path(layout.marks(folder, source.uid)))
    return Input(source=source, frame=data, position=position, feed=feed, marks=marks, index=index)


def _read_inbox(spark: SparkSession, store: Store, folder: str, spec: Source, frozen: FrozenFiles) -> DataFrame:
    schema = T.StructType.fromJson(frozen.schema)
    stored = T.StructType([field for field in schema if field.name not in frozen.partition_columns])
    # The rows of a Batch source were written as Parquet.
    files = spec if isinstance(spec, Files) else Files("", format="parquet")
    reader = spark.readStream.format(files.format).schema(stored).options(**files.spark_options)
    frame = reader.option("recursiveFileLookup", "true").load(store.spark_path(folder))
    for name in frozen.partition_columns:
        frame = frame.withColumn(name, _partition_value(name).cast(schema[name].dataType))
    if frozen.partition_columns:
        frame = frame.select(*[F.col(f"`{field.name}`") for field in schema])
    return frame if files.transform is None else files.transform(frame)


def _partition_value(name: str) -> Any:
    """The value of ``name=…`` in the file's path: percent-encoded once as a URI, and once by whoever wrote it."""
    raw = F.regexp_extract(F.col("_metadata.file_path"), f"/{_regex_quoted(name)}=([^/]*)/", 1)
    for _ in range(2):
        raw = F.url_decode(F.replace(raw, F.lit("+"), F.lit("%2B")))
    return F.when(raw != F.lit("__HIVE_DEFAULT_PARTITION__"), raw)


def _regex_quoted(name: str) -> str:
    return "\\Q" + name.replace("\\E", "\\E\\\\E\\Q") + "\\E"


def _watermarked(spark: SparkSession, data: DataFrame, spec: SourceSpec, marks_uri: str) -> DataFrame:
    source = spec.source
    column = source.event_time or ""
    if column not in data.columns:
        raise DefinitionError("EVENT_TIME_MISSING", source=source.uid, column=column, columns=", ".join(data.columns))
    kind = data.schema[column].dataType
    if not isinstance(kind, T.TimestampType | T.TimestampNTZType):
        raise DefinitionError("EVENT_TIME_TYPE", source=source.uid, column=column, type=kind.simpleString())
    if spec.late == "fail":
        data = data.withColumn(column, _guarded(source.uid, column, kind))
    marks = spark.readStream.schema(f"{MARK_COLUMN} timestamp").option("recursiveFileLookup", "true").parquet(marks_uri)
    markers = marks.select(F.col(MARK_COLUMN).cast(kind).alias(column), F.lit(True).alias(MARKER))
    return (
        data.withColumn(MARKER, F.lit(False))
        .unionByName(markers, allowMissingColumns=True)
        .withWatermark(column, _delay(spec))
        .filter(~F.col(MARKER) | (F.spark_partition_id() < 0))
        .drop(MARKER)
    )


def _guarded(uid: str, column: str, kind: T.DataType) -> Any:
    time = F.col(f"`{column}`")
    epoch = F.lit("1970-01-01T00:00:00Z").cast("timestamp").cast(kind)
    message = F.lit(f"{BEFORE_EPOCH}:{uid}:{column}")
    return F.when(time < epoch, F.raise_error(message).cast(kind)).otherwise(time)


def _delay(spec: SourceSpec) -> str:
    if not spec.source.bounded:
        return spec.source.watermark or "0 seconds"
    if isinstance(spec.spec, Files) and spec.spec.ordered:
        return spec.source.watermark or _ORDERED_DELAY
    return UNORDERED_DELAY
