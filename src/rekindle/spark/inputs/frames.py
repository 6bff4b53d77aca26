"""Open the inputs of a subtask, each as a streaming DataFrame: sources, and channels from other tasks."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.channel_feed import ChannelFeed
from rekindle.channels.feed import Feed, FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.channels.marks import UNORDERED_DELAY, Marks
from rekindle.channels.producer import Producer
from rekindle.channels.splits import Splits
from rekindle.errors import DefinitionError
from rekindle.graph import job_graph
from rekindle.protocol.clock import IdleTimer
from rekindle.runtime.definition import SourceSpec
from rekindle.sources import Files, Stream
from rekindle.spark.inputs.custom import Custom
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.reading import made_by, read_inbox
from rekindle.spark.inputs.watermark_rows import delay_of, watermarked
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.port import Store

_ORDERED_DELAY = "1 millisecond"
"""Least delay of an ordered input: a row as late as the latest one seen is not late."""


def build_input(
    spark: SparkSession,
    storage: JobDocuments,
    folder: str,
    spec: SourceSpec,
    given: tuple[FrozenFiles, Splits, int] | Custom | None,
    *,
    logs: Store,
    index: int,
    position: InputPosition,
    sizer: AdmissionSizer,
    beside_idle: bool,
    changed_files: bool = False,
) -> Input:
    """Open an input where `position` says it stands, and make its DataFrame. Admits nothing yet.

    Args:
        beside_idle: an input of the task may be idle, so the others have to tell the time.
        given: the list of a bounded source, how it is shared out, and to which subtask; what reads a custom source;
            None for a `Stream`.
        logs: where Spark reads the logs of inboxes (`shown_logs`).
        changed_files: others may have taken the places of files of that list.
    """
    source = spec.source
    feed: Feed | None = None
    reading = None
    if isinstance(given, Custom):
        reading = given.reading(position, inbox_of(storage, folder, source.uid, index, logs), sizer)
        feed, columns = reading.of.feed, FrozenFiles(source=source.uid, files=(), schema=reading.of.columns.jsonValue())
        reader, path = spark.readStream, layout.inbox(folder, source.uid)
        data = read_inbox(reader, logs, path, spec.spec, columns)
    elif given is None:
        assert isinstance(spec.spec, Stream)
        data = made_by(source.uid, spec.spec.read, spark)
        if not data.isStreaming:
            raise DefinitionError("SOURCE_NOT_STREAMING", source=source.uid)
    else:
        frozen, splits, subtask = given
        feed = FileFeed(inbox_of(storage, folder, source.uid, index, logs), position, sizer, splits, subtask)
        inbox_folder = layout.inbox(folder, source.uid)
        reader = spark.readStream
        data = read_inbox(reader, logs, inbox_folder, spec.spec, frozen)
    marks, delay_ms, observed = None, None, False
    if source.event_time is not None:
        marks = Marks(storage.store, layout.marks(folder, source.uid), index + 1, logs)
        marks.inbox.open()
        uri = logs.spark_path(layout.marks(folder, source.uid))
        delay = _delay(spec)
        observed = delay != UNORDERED_DELAY and (source.bounded or beside_idle)
        data = watermarked(
            spark, data, source.uid, source.event_time, delay=delay, late=spec.late, observed=observed, marks=uri
        )
        delay_ms = None if delay == UNORDERED_DELAY else delay_of(data, source.event_time)
    return Input(
        uid=source.uid,
        bounded=source.bounded,
        finite=source.bounded,
        follows=source.follows,
        event_time=source.event_time,
        frame=data,
        position=position,
        place="" if feed is None else logs.spark_path(layout.inbox(folder, source.uid)),
        feed=feed,
        reading=reading,
        same_files=isinstance(feed, FileFeed) and not changed_files,
        marks=marks,
        delay_ms=delay_ms,
        idle_timer=None if source.idle_after_ms is None else IdleTimer(source.idle_after_ms),
        observed=observed,
        index=index,
    )


def build_channel(
    spark: SparkSession,
    storage: JobDocuments,
    folder: str,
    task: job_graph.Task,
    schema: T.StructType,
    producers: Mapping[int, Producer],
    *,
    logs: Store,
    index: int,
    position: InputPosition,
    sizer: AdmissionSizer,
    finite: bool,
) -> Input:
    """Open a channel where `position` says it was read up to, and make its DataFrame. Admits nothing yet.

    Args:
        task: who writes it.
        schema: the columns of that.
        producers: those of its subtasks that write for this reader.
        finite: all that it reads comes from bounded sources.
        logs: where Spark reads the logs of inboxes (`shown_logs`).
    """
    uid, event_time = task.uid, task.event_time
    inbox = inbox_of(storage, folder, uid, index, logs)
    path = logs.spark_path(layout.inbox(folder, uid))
    data = spark.readStream.schema(schema).option("recursiveFileLookup", "true").parquet(path)
    marks = None
    if event_time is not None:
        marks = Marks(storage.store, layout.marks(folder, uid), index + 1, logs)
        marks.inbox.open()
        uri = logs.spark_path(layout.marks(folder, uid))
        data = watermarked(spark, data, uid, event_time, delay=UNORDERED_DELAY, late="fail", observed=False, marks=uri)
    return Input(
        uid=uid,
        event_time=event_time,
        finite=finite,
        producers=producers,
        frame=data,
        position=position,
        place=path,
        feed=ChannelFeed(inbox, position, sizer, producers),
        marks=marks,
        index=index,
    )


def inbox_of(storage: JobDocuments, folder: str, uid: str, index: int, logs: Store) -> Inbox:
    """Return the inbox of an input, which a query can be started on."""
    inbox = Inbox(storage.store, layout.inbox(folder, uid), index, logs)
    inbox.open()
    return inbox


def _delay(spec: SourceSpec) -> str:
    if not spec.source.bounded:
        return spec.source.watermark or "0 seconds"
    if isinstance(spec.spec, Files) and spec.spec.ordered is True:
        return spec.source.watermark or _ORDERED_DELAY
    return UNORDERED_DELAY
