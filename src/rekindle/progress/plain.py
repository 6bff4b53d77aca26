"""What a plain Structured Streaming query has left: where it stopped, and whose sources its offsets are of.

Theory of operation
-------------------

A query writes ``offsets/N`` before a batch and ``commits/N`` after it. So a directory that it has left shows one of
two pictures: it stopped between two batches (the newest of both is N), or in one (``offsets/N+1`` and ``commits/N``):
then batch N+1 is *unfinished*. What it was to read is planned; whether its sink has got it, no one can say. Any other
picture is of a query that does not write each batch down (asynchronous progress, continuous processing), or of a
damaged directory, and is refused.

The lines of ``offsets/N`` have no names but in version 2 of the log: the first is the first source of the query's plan,
and so on. A reader of the new plan takes the line of its place, or of its name. What the line looks like tells the kind
of source, and for Kafka its topics; whatever does not fit is refused, since Spark would read on somewhere else.

This module is pure: it reads no file, and knows no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rekindle.errors import RestoreError


class Standing(NamedTuple):
    """Where a stopped query stands."""

    #: its last committed batch
    batch: int
    #: the batch it had planned and not committed; None: it stopped between two batches
    unfinished: int | None = None


class SourceReader(NamedTuple):
    """A source of a query's plan."""

    #: ``files``, ``kafka``, or what Spark calls it
    kind: str
    #: what the user has named it, which Spark 4.2 and later let him
    name: str | None = None
    #: topics that it subscribes to; empty where they are not named one by one
    topics: frozenset[str] = frozenset()
    #: folder or pattern of a file source, as it was given
    place: str = ""


def standing(path: str, offsets: Sequence[int], commits: Sequence[int]) -> Standing:
    """Where the query stands whose directory `path` holds batches with these numbers.

    Raises:
        RestoreError: ``SPARK_CHECKPOINT_MISSING``, ``SPARK_CHECKPOINT_EMPTY``, ``SPARK_CHECKPOINT_GAP``.
    """
    if not offsets:
        raise RestoreError("SPARK_CHECKPOINT_MISSING", path=path)
    if not commits:
        raise RestoreError("SPARK_CHECKPOINT_EMPTY", path=path)
    planned, committed = max(offsets), max(commits)
    if planned - committed not in (0, 1):
        reason = f"it has planned batch {planned} and committed batch {committed}"
        raise RestoreError("SPARK_CHECKPOINT_GAP", path=path, reason=reason)
    needed = range(max(committed - 1, 0), committed + 1)
    missing = [
        f"{log}/{batch}"
        for log, found in (("offsets", offsets), ("commits", commits))
        for batch in needed
        if batch not in found
    ]
    if missing:
        raise RestoreError("SPARK_CHECKPOINT_GAP", path=path, reason=f"it lacks {', '.join(missing)}")
    return Standing(committed, planned if planned > committed else None)


def lines_of(
    path: str, names: Sequence[str], ends: Sequence[str | None], readers: Sequence[SourceReader | None]
) -> tuple[int | None, ...]:
    """For each reader of a plan the line of ``offsets/<N>`` that is its own.

    Args:
        path: of the checkpoint, for the message.
        names: of the lines, in version 2 of the log; else empty.
        ends: the lines.
        readers: of the plan, in its order; None for one that the old plan did not have. Its line is None.

    Raises:
        RestoreError: ``SPARK_CHECKPOINT_DIFFERS``.
    """
    kept = [reader for reader in readers if reader is not None]
    if len(kept) != len(ends):
        reason = f"it has offsets of {len(ends)} sources, and the query reads {len(kept)}"
        raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=reason)
    line = _by_name(path, names, kept) if _named(names) else {index: index for index in range(len(kept))}
    for index, reader in enumerate(kept):
        _check_kind(path, line[index], ends[line[index]], reader)
    places = iter(range(len(kept)))
    return tuple(None if reader is None else line[next(places)] for reader in readers)


def folders_of(
    path: str, names: Sequence[str], ends: Sequence[str | None], present: Collection[str]
) -> tuple[str, ...]:
    """The folder below ``sources/`` that belongs to each line of ``offsets/<N>``.

    It is called by the line's number, or by its name; but a source that a plan uses several times, as in a join with
    itself, has as many lines and one folder.

    Args:
        path: of the checkpoint, for the message.
        names: of the lines, in version 2 of the log; else empty.
        ends: the lines.
        present: the folders that there are; sources of some kinds have none.

    Raises:
        RestoreError: ``SPARK_CHECKPOINT_DIFFERS``, no one can say which line is whose.
    """
    own = tuple(names) or tuple(str(line) for line in range(len(ends)))
    if all(kind_of(end) in (None, "other") or folder in present for folder, end in zip(own, ends, strict=True)):
        return own
    if len(present) == 1 and len(set(ends)) == 1:
        return tuple(present) * len(ends)
    reason = "it uses a source several times beside others, and which is which is not known"
    raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=reason)


def _named(names: Sequence[str]) -> bool:
    """Whether the user has named the sources; otherwise version 2 calls them by their numbers."""
    return any(not name.isdigit() for name in names)


def _by_name(path: str, names: Sequence[str], readers: Sequence[SourceReader]) -> Mapping[int, int]:
    told = [reader.name for reader in readers]
    if sorted(names) != sorted(str(name) for name in told):
        reason = f"its sources are called {', '.join(names)}, those of the query {', '.join(map(str, told))}"
        raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=reason)
    return {index: names.index(str(name)) for index, name in enumerate(told)}


def _check_kind(path: str, line: int, end: str | None, reader: SourceReader) -> None:
    found = kind_of(end)
    if found is not None and {found, reader.kind} & {"files", "kafka"} and found != reader.kind:
        reason = f"its source {line} is of kind {found}, that of the query {reader.kind}"
        raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=reason)
    if found == "kafka" and reader.topics and not set(json.loads(end or "{}")) <= reader.topics:
        topics, now = ", ".join(sorted(json.loads(end or "{}"))), ", ".join(sorted(reader.topics))
        reason = f"its source {line} has read the topics {topics}, and the query reads {now}"
        raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=reason)


def kind_of(end: str | None) -> str | None:
    """The kind of source that an end offset is of: ``files``, ``kafka``, ``other``; None: it had read nothing yet."""
    if end is None:
        return None
    try:
        offset = json.loads(end)
    except ValueError:
        return "other"
    if isinstance(offset, dict) and set(offset) == {"logOffset"}:
        return "files"
    return "kafka" if _is_kafka(offset) else "other"


def _is_kafka(offset: Any) -> bool:
    """``{topic: {partition: offset}}``."""
    return (
        isinstance(offset, dict)
        and bool(offset)
        and all(
            isinstance(partitions, dict)
            and all(name.isdigit() and isinstance(at, int) for name, at in partitions.items())
            for partitions in offset.values()
        )
    )
