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
    """A subtask's position in the output of one subtask of a producer."""

    #: number of batches that were read completely
    batches: int = 0
    #: number of segments that were read of the next batch
    segment: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPosition:
    """A subtask's position in one input, after a batch."""

    #: last admission to the inbox that was read; -1: none
    admission: int = -1
    #: files that were read in this lineage, of those that the subtask was given
    files: int = 0
    #: bytes of these files
    bytes: int = 0
    #: bytes that the next admission might take, by what was known before the batch; 0: an older version wrote it
    next_bytes: int = 0
    #: last admission of watermark rows that was read; -1: none
    mark: int = -1
    #: custom source: number of the subtask's reads in this lineage that batches have had
    reads: int = 0
    #: custom source: the subtask's splits and positions after these reads
    reader: ReaderState | None = None
    #: custom source: entries that the source keeps itself, by name
    own: dict[str, list[Any]] = field(default_factory=dict)
    #: Spark's own end offset, for inputs whose position Spark keeps
    offset: Any = None
    #: channel: subtask of the producer → how far its output was read
    channels: dict[int, ChannelPosition] = field(default_factory=dict)
    #: indexes of the input's rows in Spark's ``offsets/<N>``; empty where Spark has no such file, or an older version
    #: wrote it
    sources: tuple[int, ...] = ()
    #: the same for the input's watermark rows
    mark_sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A Parquet file that a batch puts into the channels of its task."""

    #: below the folder of the subtask that wrote it
    path: str
    #: in bytes
    size: int
    rows: int
    #: tasks that still had to read it when a restore copied it; empty: all tasks that read the channel
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreludeDocument:
    """``prelude.json``: a history is computed as a batch, up to a watermark. It binds until that batch is recorded."""

    #: watermark of what the live sources had when this was written; their rows are in the folder of `attempt`
    watermark_ms: int
    #: name of that folder
    attempt: str
    run: int
    #: bounded source → numbers of the files in its list that the first batch reads; None: the first batch reads no
    #: files
    first: dict[str, list[int]] | None = None
    #: the query that needs these files, and no others, in its state
    query: QueryDescription | None = None
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """``schema.json``: the columns that a task puts into its channels, as its readers were planned with them."""

    #: Spark's JSON schema
    columns: Json
    #: the same, with the columns that were dropped in this lineage; None: none were
    known: Json | None = None
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """``batches/<N>.json``: the outputs of batch N are prepared and do not change any more (pre-commit)."""

    batch: int
    #: SHA-256 of Spark's offsets/<N>; empty in a batch run, and if a restored task had finished
    offsets_hash: str
    #: run that wrote the record
    run: int
    #: Spark's offsets/<N> itself, so that it can be restored; empty in a batch run, and in a record that a restore
    #: wrote
    offsets: str = ""
    #: input → its position after the batch
    inputs: dict[str, InputPosition] = field(default_factory=dict)
    #: sink uid → what `prepare` has returned and `commit` will be given
    committables: dict[str, list[Json]] = field(default_factory=dict)
    #: files that the batch puts into the channels of its task, in order
    segments: tuple[Segment, ...] = ()
    #: rows that went out, if a sink or channel counts them
    rows_out: int | None = None
    #: watermark of the query in this batch
    watermark_ms: int | None = None
    #: True: the batch ran at the end of time, and flushed the state
    flush: bool = False
    #: the query, as far as its state depends on it; None in a batch run, and where an older version wrote it
    windows: QueryDescription | None = None
    #: ``prepare``: milliseconds spent in writing the outputs
    timings_ms: dict[str, int] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """``end.json``: the subtask has flushed and called finish() (FLIP-147: EndOfData). Void if batches follow it."""

    #: last batch
    batch: int
    run: int
    #: True: a drain has ended it; False: its inputs have ended
    drained: bool
    #: watermark before the flush. A drained job that is resumed gets it back
    watermark_before_flush_ms: int | None = None
    #: last batch before the flush
    batch_before_flush: int = -1
    #: None where an older version wrote it
    ended_ms: int | None = None
    #: as in the result of the run
    notes: tuple[str, ...] = ()
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """``drain.json``: a drain has begun and is completed, also after a crash; void if a later run's batch follows."""

    run: int
    begun_ms: int
    format: int = FORMAT_VERSION
