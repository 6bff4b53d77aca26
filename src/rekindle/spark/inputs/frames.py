"""Inputs of a task as streaming DataFrames (docs/architecture.md#event-time).

An input with an event time is ``transform(data) ∪ its marker inbox`` under one watermark::

    data ──► transform ──► guard ──┐
                                   ├─ union ─► withWatermark ─► drop the markers ─► the user's function
    marker inbox ──────────────────┘

A row is a marker by its own column, never by its value. The filter that drops the markers holds a non-deterministic
conjunct, which keeps Spark from pushing predicates, the user's or a join's, below the watermark, where they would drop
the markers too and freeze the query. The guard fails a batch that holds a time before 1970, which Spark would drop
silently as late (its watermarks begin at 1970, that very instant included).

Spark plans each batch by what it holds, and a batch may hold nothing but markers: nothing about them is foldable
(docs/decisions/0028-a-batch-is-not-planned-by-its-data.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.channel_feed import ChannelFeed
from rekindle.channels.feed import Feed, FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.channels.marks import END_OF_TIME_US, MARK_COLUMN, UNORDERED_DELAY, Marks, mark_for
from rekindle.channels.producer import Producer
from rekindle.channels.splits import Splits
from rekindle.errors import DefinitionError, RekindleError
from rekindle.graph import job_graph
from rekindle.protocol.clock import END_OF_TIME, IdleTimer
from rekindle.runtime.definition import SourceSpec
from rekindle.sources import Files, Source, Stream
from rekindle.spark.failures import BEFORE_EPOCH, brief
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store

_MARKER = "__rekindle_marker"
"""Column that tells a watermark row from data, below the user's function; longer where the data has one like it."""

WATERMARKED = "spark.watermarkDelayMs"
"""What Spark notes on a column that has a watermark."""

_EPOCH = "1970-01-01T00:00:00Z"

_ORDERED_DELAY = "1 millisecond"
"""Least delay of an ordered input: a row as late as the latest one seen is not late."""


@dataclass(slots=True, kw_only=True)
class Input:
    """One input of one subtask: what feeds it, and where it stands."""

    uid: str
    frame: DataFrame
    #: as of the last batch record
    position: InputPosition
    #: whether it is a source that ends by itself
    bounded: bool = False
    #: name of its event-time column
    event_time: str | None = None
    #: who writes it, by subtask of the producing task; none where it is a source
    producers: Mapping[int, Producer] = field(default_factory=dict)
    #: feeds a bounded source or a channel; None where Spark reads the source itself
    feed: Feed | None = None
    #: whether its files must be those that were listed, and not others in their places
    same_files: bool = False
    #: its watermark rows; None where it has no event time
    marks: Marks | None = None
    #: the delay of its watermark, where Spark follows its rows, ms; None where marks alone set it
    delay_ms: int | None = None
    #: tells when it is idle; None where it never is
    idle_timer: IdleTimer | None = None
    #: whether each batch tells of its rows' times, see `times.seen`
    observed: bool = False
    #: numbers of the sources, in Spark's order, that read it; set once the task's plan is known
    spark_sources: tuple[int, ...] = ()
    #: the same of its watermark rows
    mark_sources: tuple[int, ...] = ()
    #: inbox index of the data (marks: the next), which Spark's source log tells us
    index: int = 0

    def mark_us(self, watermark_ms: int) -> int:
        """Event time of the mark that moves it to a watermark, microseconds."""
        if self.delay_ms is None:
            return mark_for(END_OF_TIME_US if watermark_ms == END_OF_TIME else watermark_ms * 1000)
        return END_OF_TIME_US if watermark_ms == END_OF_TIME else (watermark_ms + self.delay_ms) * 1000

    @property
    def is_channel(self) -> bool:
        """Whether another task writes it."""
        return bool(self.producers)

    @property
    def ended(self) -> bool:
        """Whether everything of a source has been read, by the last batch record."""
        return isinstance(self.feed, FileFeed) and self.feed.ended


def made_by(uid: str, function: Callable[[], Any]) -> DataFrame:
    """What the user's function makes, if it makes a DataFrame."""
    try:
        frame = function()
    except RekindleError:
        raise
    except Exception as error:
        raise DefinitionError("SOURCE_FUNCTION_FAILED", source=uid, reason=brief(error)) from error
    if not isinstance(frame, DataFrame):
        reason = f"it returned {type(frame).__name__}, not a DataFrame"
        raise DefinitionError("SOURCE_FUNCTION_FAILED", source=uid, reason=reason)
    return frame


def build_input(
    spark: SparkSession,
    storage: JobStorage,
    folder: str,
    spec: SourceSpec,
    given: tuple[FrozenFiles, Splits, int] | None,
    *,
    index: int,
    position: InputPosition,
    sizer: AdmissionSizer,
    beside_idle: bool,
    changed_files: bool = False,
) -> Input:
    """Open an input where `position` says it stands, and make its DataFrame. Admits nothing yet.

    Args:
        beside_idle: an input of the task may be idle, so the others have to tell the time.
        given: the list of a bounded source, how it is shared out, and to which subtask; None for a `Stream`.
        changed_files: others may have taken the places of files of that list.
    """
    source = spec.source
    feed = None
    if given is None:
        assert isinstance(spec.spec, Stream)
        read = spec.spec.read
        data = made_by(source.uid, lambda: read(spark))
        if not data.isStreaming:
            raise DefinitionError("SOURCE_NOT_STREAMING", source=source.uid)
    else:
        inbox = Inbox(storage.store, layout.inbox(folder, source.uid), index)
        inbox.open()
        frozen, splits, subtask = given
        feed = FileFeed(inbox, position, sizer, splits, subtask)
        inbox_folder = layout.inbox(folder, source.uid)
        reader = spark.readStream
        data = made_by(source.uid, lambda: read_inbox(reader, storage.store, inbox_folder, spec.spec, frozen))
    marks, delay_ms, observed = None, None, False
    if source.event_time is not None:
        marks = Marks(storage.store, layout.marks(folder, source.uid), index + 1)
        marks.inbox.open()
        uri = storage.store.spark_path(layout.marks(folder, source.uid))
        delay = _delay(spec)
        observed = delay != UNORDERED_DELAY and (source.bounded or beside_idle)
        data = _watermarked(
            spark, data, source.uid, source.event_time, delay=delay, late=spec.late, observed=observed, marks=uri
        )
        delay_ms = None if delay == UNORDERED_DELAY else _delay_ms(data, source.event_time)
    return Input(
        uid=source.uid,
        bounded=source.bounded,
        event_time=source.event_time,
        frame=data,
        position=position,
        feed=feed,
        same_files=feed is not None and not changed_files,
        marks=marks,
        delay_ms=delay_ms,
        idle_timer=None if source.idle_after_ms is None else IdleTimer(source.idle_after_ms),
        observed=observed,
        index=index,
    )


def build_channel(
    spark: SparkSession,
    storage: JobStorage,
    folder: str,
    task: job_graph.Task,
    schema: T.StructType,
    producers: Mapping[int, Producer],
    *,
    index: int,
    position: InputPosition,
    sizer: AdmissionSizer,
) -> Input:
    """Open a channel where `position` says it was read up to, and make its DataFrame. Admits nothing yet.

    Args:
        task: who writes it.
        schema: the columns of that.
        producers: those of its subtasks that write for this reader.
    """
    uid, event_time = task.uid, task.event_time
    inbox = Inbox(storage.store, layout.inbox(folder, uid), index)
    inbox.open()
    path = storage.store.spark_path(layout.inbox(folder, uid))
    data = spark.readStream.schema(schema).option("recursiveFileLookup", "true").parquet(path)
    marks = None
    if event_time is not None:
        marks = Marks(storage.store, layout.marks(folder, uid), index + 1)
        marks.inbox.open()
        uri = storage.store.spark_path(layout.marks(folder, uid))
        data = _watermarked(spark, data, uid, event_time, delay=UNORDERED_DELAY, late="fail", observed=False, marks=uri)
    return Input(
        uid=uid,
        event_time=event_time,
        producers=producers,
        frame=data,
        position=position,
        feed=ChannelFeed(inbox, position, sizer, producers),
        marks=marks,
        index=index,
    )


def read_inbox(reader: Any, store: Store, folder: str, spec: Source, frozen: FrozenFiles) -> DataFrame:
    """The files that an inbox names, of a bounded source, with its ``transform=``.

    Args:
        reader: ``spark.readStream``, or ``spark.read`` for all that was admitted.
    """
    schema = T.StructType.fromJson(frozen.schema)
    columns = {_field_of(schema, spelled).name: spelled for spelled in frozen.partition_columns}
    stored = T.StructType([field for field in schema if field.name not in columns])
    # The rows of a Batch source were written as Parquet.
    files = spec if isinstance(spec, Files) else Files("", format="parquet")
    reader = reader.format(files.format).schema(stored).options(**files.spark_options)
    frame: DataFrame = reader.option("recursiveFileLookup", "true").load(store.spark_path(folder))
    for name, spelled in columns.items():
        frame = frame.withColumn(name, _partition_value(spelled).cast(schema[name].dataType))
    if columns:
        frame = frame.select(*[F.col(quoted(field.name)) for field in schema])
    return frame if files.transform is None else files.transform(frame)


def _field_of(schema: T.StructType, folder: str) -> T.StructField:
    """The column that ``folder=value`` folders hold, which ``schema=`` may write with other capitals, as with Spark."""
    fields = [field for field in schema if field.name.lower() == folder.lower()]
    return next((field for field in fields if field.name == folder), fields[0])


def _partition_value(name: str) -> Any:
    """The value of ``name=…`` in the file's path: percent-encoded once as a URI, and once by whoever made the
    folder."""
    path = _percent_decoded(F.col("_metadata.file_path"))
    spelled = "".join(f"(?:{re.escape(letter)}|(?i:%{ord(letter):02x}))" for letter in name)
    raw = _percent_decoded(F.regexp_extract(path, f"^.*/{spelled}=([^/]*)/", 1))
    return F.when(raw != F.lit("__HIVE_DEFAULT_PARTITION__"), raw)


def _percent_decoded(text: Any) -> Any:
    """``%41`` is A, a plus is a plus, and a ``%`` that begins no code is itself, as Spark has it."""
    return F.url_decode(F.replace(F.regexp_replace(text, "%(?![0-9A-Fa-f]{2})", "%25"), F.lit("+"), F.lit("%2B")))


def check_event_time(data: DataFrame, uid: str, column: str) -> T.DataType:
    """The type of a source's event-time column.

    Raises:
        DefinitionError: ``EVENT_TIME_MISSING``, ``EVENT_TIME_TYPE``.
    """
    if column not in data.columns:
        raise DefinitionError("EVENT_TIME_MISSING", source=uid, column=column, columns=", ".join(data.columns))
    kind = data.schema[column].dataType
    if not isinstance(kind, T.TimestampType):
        raise DefinitionError("EVENT_TIME_TYPE", source=uid, column=column, type=kind.simpleString())
    return kind


def without_times_before_epoch(data: DataFrame, column: str) -> DataFrame:
    """What is left of a source with ``late="drop"``."""
    time = F.col(quoted(column))
    return data.filter(time.isNull() | (time > F.lit(_EPOCH).cast("timestamp")))


def _watermarked(
    spark: SparkSession,
    data: DataFrame,
    uid: str,
    column: str,
    *,
    delay: str,
    late: str,
    observed: bool,
    marks: str,
) -> DataFrame:
    kind = check_event_time(data, uid, column)
    if any(WATERMARKED in (field.metadata or {}) for field in data.schema):
        raise DefinitionError("WATERMARK_IN_SOURCE", source=uid)
    time, epoch = F.col(quoted(column)), F.lit(_EPOCH).cast("timestamp")
    if late == "drop":
        data = without_times_before_epoch(data, column)
    else:
        message = F.lit(f"{BEFORE_EPOCH}:{uid}:{column}")
        data = data.withColumn(column, F.when(time <= epoch, F.raise_error(message).cast(kind)).otherwise(time))
    if observed:
        us = F.unix_micros(time)
        data = data.observe(observation(uid), F.count(F.lit(1)), F.min(us), F.max(us))
    marker = _MARKER
    while marker.lower() in (name.lower() for name in data.columns):
        marker += "_"
    return (
        data.withColumn(marker, F.lit(False))
        .union(_markers(spark, data, column, marker, marks))
        .withWatermark(quoted(column), delay)
        .filter(~F.col(marker) | (F.spark_partition_id() < 0))
        .drop(marker)
    )


def _markers(spark: SparkSession, data: DataFrame, column: str, marker: str, marks: str) -> DataFrame:
    """The watermark rows with the columns of `data`, by position: all null but the event time.

    In a batch without data Spark plans these rows alone, so its optimizer must learn nothing from them that is not true
    of data. A literal null would tell it that the column is always null, and of that it makes a filter for the other
    side of a join. So each null is computed, from a column of its own, which Spark believes to be in the file.
    """
    absent = [f"_{index}" for index in range(len(data.columns))]
    schema = ", ".join([f"{MARK_COLUMN} timestamp", *(f"{name} int" for name in absent)])
    rows = spark.readStream.schema(schema).option("recursiveFileLookup", "true").parquet(marks)
    fields: Any = data._jdf.schema()
    columns = [
        (F.col(MARK_COLUMN) if name == column else _computed_null(fields.apply(index).dataType(), F.col(absent[index])))
        for index, name in enumerate(data.columns)
    ]
    named = [each.alias(name) for each, name in zip(columns, data.columns, strict=True)]
    return rows.select(*named, F.lit(True).alias(marker))


def _computed_null(kind: Any, absent: Column) -> Column:
    """Return a null that Spark cannot fold, since it depends on what a file holds.

    Args:
        kind: Spark's own type, not Python's, which loses the collation of a string.
        absent: a column that the file does not have.
    """
    null: Any = F.lit(None)
    return F.get(F.array(Column(null._jc.cast(kind))), absent)


def _delay_ms(data: DataFrame, column: str) -> int:
    """The delay of a column's watermark as Spark has understood it, ms."""
    return int(data.schema[column].metadata[WATERMARKED])


def observation(uid: str) -> str:
    """Name under which a batch tells how many rows an input had, and their first and last event time; see `times`."""
    return f"rekindle:{uid}"


def quoted(column: str) -> str:
    """A column's name as Spark reads it, whatever letters are in it."""
    return "`" + column.replace("`", "``") + "`"


def _delay(spec: SourceSpec) -> str:
    if not spec.source.bounded:
        return spec.source.watermark or "0 seconds"
    if isinstance(spec.spec, Files) and spec.spec.ordered is True:
        return spec.source.watermark or _ORDERED_DELAY
    return UNORDERED_DELAY
