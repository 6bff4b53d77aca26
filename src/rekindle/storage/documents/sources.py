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

    #: absolute URI, percent-encoded, as Spark's logs hold it
    path: str
    size: int
    #: least event time in it, ms, where the list is in the order of that; None: no row has one
    first_ms: int | None = None
    #: mark that tells it from a file that takes its place: the ETag of an object, else when it was last modified, in ms
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFiles:
    """``files.json``: what a bounded source consists of, fixed when the job first starts."""

    source: str
    files: tuple[FrozenFile, ...]
    #: columns read from the files (Spark's JSON schema), partition columns of a Hive layout included
    schema: Json
    #: names of columns that come from ``key=value`` folders
    partition_columns: tuple[str, ...] = ()
    #: folder below which key=value parts are looked for, absolute URI
    base: str = ""
    #: the files are in the order of their least event times
    by_time: bool = False
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAssignment:
    """``splits/…/<k>.json``: the next range of a source's splits has a reader; see `rekindle.protocol.enumerator`."""

    subtask: int
    #: number of the splits that have been handed out, these among them
    until: int
    run: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsGiven:
    """``splits/…/<k>.given.json``: splits of a custom source have readers; see `rekindle.protocol.custom_splits`."""

    given: tuple[GivenSplit, ...]
    run: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A Parquet file with rows that were read of a custom source."""

    #: below the folder of the subtask's reads of that source
    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead:
    """``reads/<source>/<k>.json``: what one read of a custom source has given is durable, and is not read again."""

    #: the split that was read, with its position before; None: nothing, since all splits of the subtask have ended
    split: Split | None
    #: position of the subtask after it, in all of its splits
    state: ReaderState
    files: tuple[StagedFile, ...]
    rows: int
    run: int
    #: name → entries that the source keeps itself, as of this read
    own: dict[str, list[Any]] = field(default_factory=dict)
    format: int = FORMAT_VERSION
