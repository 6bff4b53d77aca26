"""The status of a subtask that runs as a stream, made of Spark's last report, without asking Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rekindle.channels.backlog import Backlog
from rekindle.channels.channel_feed import ChannelFeed
from rekindle.channels.feed import Feed, FileFeed
from rekindle.channels.split_feed import SplitFeed
from rekindle.runtime.occupation import Occupation
from rekindle.spark.inputs.input import Input
from rekindle.spark.output.outputs import SubtaskPlace
from rekindle.spark.query.flush import END_OF_TIME_MS
from rekindle.spark.query.rows_read import RowsRead, state_bytes, state_rows
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.status import InputStatus, TaskStatusDocument
from rekindle.storage.port import Store


def shown(
    logs: Store,
    place: SubtaskPlace,
    inputs: Sequence[Input],
    report: Mapping[str, Any],
    *,
    begun_at_ms: int | None,
    batch: int,
    duration_ms: int | None,
    rows_read: RowsRead,
    occupation: Occupation,
    backlog: Backlog | None,
) -> TaskStatusDocument:
    """Return a subtask's part of the status.

    Args:
        logs: the store in which its query reads the logs of its inboxes.
        report: Spark's on the query; empty where there is none yet.
        begun_at_ms: the watermark that the query continues with: Spark reports none before a batch has rows.
        batch: the last one that is recorded, -1 for none.
        backlog: of its channels; None where no task reads its output.
    """
    return TaskStatusDocument(
        uid=place.task,
        subtask=place.subtask,
        status="",
        batch=batch,
        watermark=watermark_ms(report) or begun_at_ms or None,
        inputs={item.uid: _input(logs, place, inputs, item, report) for item in inputs},
        rows_per_second=report.get("processedRowsPerSecond"),
        batch_duration_ms=duration_ms,
        rows_in=rows_read.rows,
        rows_of_sources=rows_read.of_sources,
        busy_ms=occupation.busy_ms,
        held_ms=occupation.held_ms,
        batch_so_far_ms=occupation.batch_so_far_ms,
        look_so_far_ms=occupation.look_so_far_ms,
        state_rows=state_rows(report),
        state_bytes=state_bytes(report),
        unread_bytes=backlog.unread() if backlog is not None else {},
    )


def counter(logs: Store, place: SubtaskPlace, inputs: Sequence[Input], batch: int) -> RowsRead:
    """Return what counts the rows that a subtask reads after a batch."""
    marks = (layout.marks(place.folder, item.uid) for item in inputs)
    channels = (layout.inbox(place.folder, item.uid) for item in inputs if isinstance(item.feed, ChannelFeed))
    marks_end, channels_end = (
        tuple(f"{logs.spark_path(folder).removeprefix('file://')}]" for folder in folders)
        for folders in (marks, channels)
    )
    return RowsRead(batch, marks_end, channels_end)


def _input(
    logs: Store, place: SubtaskPlace, inputs: Sequence[Input], item: Input, report: Mapping[str, Any]
) -> InputStatus:
    feed, position = item.feed, item.position
    return InputStatus(
        ended=item.ended,
        position=_position(feed, position),
        share=feed.splits.share_read if isinstance(feed, FileFeed) else None,
        idle=item.idle_timer is not None and item.idle_timer.idle,
        rows_per_second=None if item.ended else _rate(logs, place, inputs, item, report),
    )


def _position(feed: Feed | None, position: InputPosition) -> Any:
    if feed is None:
        return position.offset
    read = {"files": position.files, "bytes": position.bytes}
    if isinstance(feed, SplitFeed):
        read["open_splits"] = len(position.reader.open) if position.reader else 0
    return read


def _rate(
    logs: Store, place: SubtaskPlace, inputs: Sequence[Input], item: Input, report: Mapping[str, Any]
) -> float | None:
    """Return the rows a second of an input; Spark's report tells its sources apart by what they read."""
    sources = report.get("sources", ())
    if item.feed is not None:
        inbox = logs.spark_path(layout.inbox(place.folder, item.uid)).removeprefix("file://")
        found = [source for source in sources if source["description"].endswith(f"{inbox}]")]
    else:
        ours = logs.spark_path(place.folder).removeprefix("file://")
        streams = [other for other in inputs if other.feed is None]
        found = [source for source in sources if f"{ours}/" not in source["description"]]
        # A user's stream may be made of several sources: no one can say then which is whose.
        found = found[streams.index(item) :] if len(found) == len(streams) else []
    return found[0].get("processedRowsPerSecond") if found else None


def watermark_ms(report: Mapping[str, Any]) -> int | None:
    """Return the query's watermark, ms; None where there is none yet, which Spark writes as 1970."""
    text = (report.get("eventTime") or {}).get("watermark")
    if not text:
        return None
    if not text[:5].endswith("-"):
        # Of the year 10000 or later, which only a flush sets; Spark 3.5 writes it without a sign.
        return END_OF_TIME_MS
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000) or None
