"""The documents of a subtask: one for each batch, and those of its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.graph.queries import QueryDescription
from rekindle.protocol.custom_splits import ReaderState
from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPosition:
    """A subtask's position in what one producer puts into a channel."""

    #: number of its batches that were read whole
    batches: int = 0
    #: number of segments that were read of the batch after those
    segment: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPosition:
    """A subtask's position in one input, after a batch."""

    #: last admission to the data inbox that a batch has consumed, -1 for none
    admission: int = -1
    #: files consumed in this lineage, of those that the subtask was given
    files: int = 0
    #: bytes of them
    bytes: int = 0
    #: last admission to the inbox of watermark rows that was consumed, -1 for none
    mark: int = -1
    #: of a custom source: number of the subtask's reads in this lineage that it has consumed, and the state after them
    reads: int = 0
    reader: ReaderState | None = None
    #: of a custom source: name → entries that it keeps itself
    own: dict[str, list[Any]] = field(default_factory=dict)
    #: Spark's own end offset, for inputs that Spark tracks
    offset: Any = None
    #: of a channel: the producer's subtask → how far that was read
    channels: dict[int, ChannelPosition] = field(default_factory=dict)
    #: indexes of the offsets in Spark's ``offsets/<N>`` that are of its data and of its watermark rows; () where an
    #: older version wrote it, or where Spark has no such file
    sources: tuple[int, ...] = ()
    mark_sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A Parquet file that a batch puts into the channels of its task."""

    #: below the folder of the subtask that wrote it
    path: str
    size: int
    rows: int
    #: tasks that had still to read it when it was carried over from another lineage; empty: all that read the channel
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreludeDocument:
    """``prelude.json``: a history is computed as a batch, up to a watermark. It binds until that batch is recorded."""

    #: watermark of what the live sources had; the rows of that are in the folder of `attempt`
    watermark_ms: int
    attempt: str
    run: int
    #: bounded source → numbers, in its list, of the files that the first batch reads; None: that is none of any
    first: dict[str, list[int]] | None = None
    #: description of the query that needs these files, and no others, in its state
    query: QueryDescription | None = None
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """``schema.json``: the columns of what a task puts into its channels, as those that read it were planned."""

    #: Spark's JSON schema
    columns: Json
    #: the same with columns that were dropped since the lineage began; None: none were
    known: Json | None = None
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """``batches/<N>.json``: the outputs of batch N are prepared and never change again (the pre-commit)."""

    batch: int
    #: SHA-256 of Spark's offsets/<N>; empty in a batch run, and where a restored task had finished
    offsets_hash: str
    #: run that wrote it
    run: int
    #: Spark's offsets/<N> itself, so that it can be put back; empty where a restore wrote the record, or in a batch run
    offsets: str = ""
    inputs: dict[str, InputPosition] = field(default_factory=dict)
    #: sink uid → what commit() will be given, as prepare() returned it
    committables: dict[str, list[Json]] = field(default_factory=dict)
    #: segments that it puts into the channels of its task, in order
    segments: tuple[Segment, ...] = ()
    #: rows out, where a sink knows them
    rows_out: int | None = None
    #: the query's watermark this batch ran with, ms
    watermark_ms: int | None = None
    #: this batch was planted to flush the state
    flush: bool = False
    #: description of its query, for the meaning of its state; None where an older version wrote it, or in a batch run
    windows: QueryDescription | None = None
    #: milliseconds spent in rekindle's own part and in writing the outputs
    timings_ms: dict[str, int] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """``end.json``: the subtask has flushed and called finish(); nothing comes after `batch` (EndOfData)."""

    batch: int
    run: int
    #: ended by a drain rather than by the end of its inputs
    drained: bool
    #: watermark before the flush, put back when a drained job is resumed
    watermark_before_flush_ms: int | None = None
    #: last batch before the flush
    batch_before_flush: int = -1
    #: None where an older version wrote it
    ended_ms: int | None = None
    notes: tuple[str, ...] = ()
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """``drain.json``: a drain has begun here and is carried through, after a crash too (its flush cannot be undone)."""

    run: int
    begun_ms: int
    format: int = FORMAT_VERSION
