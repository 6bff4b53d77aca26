"""A log of a job, of bounded size, in segments: an object store has no append, so the newest document is replaced.

A segment is ``<run>-<k>-<first>.json``; the last is the number of its first row. A run never writes a document of
another run: it begins with a segment of its own, which holds the rows of the newest segment that is not full. Of rows
with the same number those of the later segment count. So what a driver still writes that was thought dead disturbs
nothing, and is seen by no one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.documents.history import (
    CheckpointRecord,
    CheckpointSegment,
    EventSegment,
    HistoryEvent,
    RateSample,
    RateSegment,
)
from rekindle.storage.job_documents import JobDocuments

Row = TypeVar("Row")
Segment = EventSegment | CheckpointSegment | RateSegment

_SEGMENT = re.compile(r"(\d+)-(\d+)-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class LogKind(Generic[Row]):
    """One of the logs of a job."""

    #: name of its folder
    name: str
    segment: type[Segment]
    #: rows in a full segment
    rows: int
    #: segments kept
    keep: int
    #: a segment ends when it has so many bytes, however few rows that are
    segment_bytes: int = 256 * 1024


EVENTS: LogKind[HistoryEvent] = LogKind("events", EventSegment, rows=200, keep=25)
CHECKPOINTS: LogKind[CheckpointRecord] = LogKind("checkpoints", CheckpointSegment, rows=100, keep=11)
"""The last thousand, and those of the segment that is being filled."""
RATES: LogKind[RateSample] = LogKind("rates", RateSegment, rows=60, keep=36)
"""Six hours of a row every ten seconds."""


class SegmentName(NamedTuple):
    """The name of a segment; segments are in the order of their names."""

    run: int
    number: int
    #: number of its first row
    first: int


class Numbered(NamedTuple, Generic[Row]):
    """A row and its number, which no other row of the log has and which only grows."""

    number: int
    row: Row


Cache = MutableMapping[tuple[str, str, str], Segment]
"""Job, log and segment → what is in it: of segments that no driver changes any more."""


def segments(storage: JobDocuments, kind: LogKind[Row]) -> list[SegmentName]:
    """Return the names of the segments that there are, the oldest first."""
    names = storage.store.names(layout.history(storage.job, kind.name))
    return sorted(SegmentName(*map(int, match.groups())) for name in names if (match := _SEGMENT.fullmatch(name)))


def in_force(names: Sequence[SegmentName]) -> list[SegmentName]:
    """Return the segments that have a row which no later one has, the oldest first."""
    found: list[SegmentName] = []
    for name in reversed(names):
        if not found or name.first < found[-1].first:
            found.append(name)
    return found[::-1]


def read(storage: JobDocuments, kind: LogKind[Row], after: int = -1, cache: Cache | None = None) -> list[Numbered[Row]]:
    """Return the rows with numbers above `after`, the oldest first.

    What is deleted meanwhile is left out, and so is a segment that is damaged.

    Args:
        cache: where segments are kept that no one changes any more; they are read from there.

    Raises:
        StorageError: ``FORMAT_NEWER``, or the storage does not answer.
    """
    found: list[list[Numbered[Row]]] = []
    for first, rows in _newest_first(storage, kind, cache):
        found.append([Numbered(first + i, row) for i, row in enumerate(rows) if first + i > after])
        if first <= after + 1:
            break
    return [row for rows in reversed(found) for row in rows]


def newest(storage: JobDocuments, kind: LogKind[Row], cache: Cache | None = None) -> list[Numbered[Row]]:
    """Return the rows of the newest segment that has any: the last ones of the log."""
    for first, rows in _newest_first(storage, kind, cache):
        if rows:
            return [Numbered(first + i, row) for i, row in enumerate(rows)]
    return []


def _newest_first(
    storage: JobDocuments, kind: LogKind[Row], cache: Cache | None
) -> Iterator[tuple[int, tuple[Row, ...]]]:
    """Yield the number of the first row of each segment, and its rows that count; the newest segment comes first."""
    names, until = in_force(segments(storage, kind)), None
    listed = {layout.history_segment(storage.job, kind.name, *name) for name in names}
    for key in list(cache or ()):
        if cache is not None and key[:2] == (storage.job, kind.name) and key[2] not in listed:
            cache.pop(key, None)  # it was deleted; another thread may be here too
    for name in reversed(names):
        segment = _segment(storage, kind, name, cache if name != names[-1] else None)
        rows: tuple[Row, ...] = segment.rows if segment is not None else ()  # type: ignore[assignment] # the kind says
        yield name.first, rows if until is None else rows[: until - name.first]
        until = name.first


def _segment(storage: JobDocuments, kind: LogKind[Row], name: SegmentName, cache: Cache | None) -> Segment | None:
    path = layout.history_segment(storage.job, kind.name, *name)
    key = (storage.job, kind.name, path)
    if cache is not None and key in cache:
        return cache[key]
    try:
        segment = storage.read(path, kind.segment)
    except StorageError as error:
        if error.code != "OBJECT_CORRUPT":
            raise
        return None
    if cache is not None and segment is not None:
        cache[key] = segment
    return segment
