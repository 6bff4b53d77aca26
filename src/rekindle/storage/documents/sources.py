"""The documents of bounded sources: which files they consist of, and which subtask was given which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.protocol.custom_splits import GivenSplit, ReaderState, Split
from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFile:
    """A file of a bounded source."""

    #: absolute URI, percent-encoded, as in Spark's logs
    path: str
    #: in bytes
    size: int
    #: least event time in the file, if the list is in that order; None: no row has an event time
    first_ms: int | None = None
    #: tells the file from another one that replaces it: the ETag of an object, or the time of the last change in ms
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFiles:
    """``files.json``: the files of a bounded source, fixed when the job first starts."""

    #: uid of the source
    source: str
    files: tuple[FrozenFile, ...]
    #: columns of the files, as Spark's JSON schema, with the partition columns of a Hive layout
    schema: Json
    #: names of the columns that come from ``key=value`` folders
    partition_columns: tuple[str, ...] = ()
    #: folder below which ``key=value`` folders are looked for, an absolute URI
    base: str = ""
    #: True: the files are in the order of their least event times
    by_time: bool = False
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAssignment:
    """``splits/…/<k>.json``: the next range of a source's files has a reader (`rekindle.protocol.enumerator`)."""

    #: number of the subtask that reads it
    subtask: int
    #: number of files that have been handed out, with this range
    until: int
    run: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsGiven:
    """``splits/…/<k>.given.json``: splits of a custom source have readers (`rekindle.protocol.custom_splits`)."""

    #: each split, with the subtask that reads it
    given: tuple[GivenSplit, ...]
    run: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A Parquet file with rows that were read from a custom source."""

    #: below the folder of the subtask's reads of that source
    path: str
    #: in bytes
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead:
    """``reads/<source>/<k>.json``: the rows of one read of a custom source are durable, and are not read again."""

    #: the split that was read, with its position before; None: nothing was read, because all splits of the subtask have
    #: ended
    split: Split | None
    #: position of the subtask after the read, in all of its splits
    state: ReaderState
    #: the files with the rows
    files: tuple[StagedFile, ...]
    rows: int
    run: int
    #: entries that the source keeps itself, by name, after this read
    own: dict[str, list[Any]] = field(default_factory=dict)
    format: int = FORMAT_VERSION
