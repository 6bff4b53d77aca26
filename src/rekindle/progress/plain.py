"""The checkpoint of a plain Structured Streaming query: where it stopped, and the source of each of its offsets.

Theory of operation
-------------------

A query writes ``offsets/N`` before a batch and ``commits/N`` after it. So its directory is in one of two states: it
stopped between two batches (the newest of both is N), or in one (``offsets/N+1`` and ``commits/N``). In the second case
batch N+1 is *unfinished*: its input is planned, but it is not known whether its sink has the rows. Any other state
comes from a query that does not record each batch (asynchronous progress, continuous processing), or from damage, and
is refused.

The lines of ``offsets/N`` have names only in version 2 of the log: the first is the first source of the query's plan,
and so on. A reader of the new plan takes the line of its place, or of its name. The form of a line shows the kind of
source, and for Kafka its topics. A line that does not fit is refused: Spark would continue at another place.

This module is pure: it reads no file, and knows no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rekindle.errors import RestoreError


class Standing(NamedTuple):
    """The last batches of a stopped query."""

    #: last committed batch
    batch: int
    #: batch that was planned and not committed; None: the query stopped between two batches
    unfinished: int | None = None


class SourceReader(NamedTuple):
    """A source of a query's plan."""

    #: ``files``, ``kafka``, or Spark's name of another kind
    kind: str
    #: name that the user has given it (Spark 4.2 or later); None: it has none
    name: str | None = None
    #: topics that it subscribes to; empty: they are not named one by one
    topics: frozenset[str] = frozenset()
    #: folder or pattern of a file source, as it was given
    place: str = ""


def standing(path: str, offsets: Sequence[int], commits: Sequence[int]) -> Standing:
    """Return the last batches of the query whose directory `path` holds batches with these numbers.

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
    """Return for each reader of a plan the number of its line in ``offsets/<N>``.

    Args:
        path: path of the checkpoint, for the message.
        names: names of the lines, in version 2 of the log; else empty.
        ends: the lines.
        readers: readers of the plan, in its order; None for one that the old plan did not have: its line is None.

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
    """Return the folder below ``sources/`` that belongs to each line of ``offsets/<N>``.

    Its name is the line's number, or name. But a source that a plan uses several times, as in a join with itself, has
    several lines and one folder.

    Args:
        path: path of the checkpoint, for the message.
        names: names of the lines, in version 2 of the log; else empty.
        ends: the lines.
        present: the folders that exist; sources of some kinds have none.

    Raises:
        RestoreError: ``SPARK_CHECKPOINT_DIFFERS``, the folders cannot be assigned to the lines.
    """
    own = tuple(names) or tuple(str(line) for line in range(len(ends)))
    if all(kind_of(end) in (None, "other") or folder in present for folder, end in zip(own, ends, strict=True)):
        return own
    if len(present) == 1 and len(set(ends)) == 1:
        return tuple(present) * len(ends)
    reason = "it uses a source several times beside others, and which is which is not known"
    raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=reason)


def _named(names: Sequence[str]) -> bool:
    """Return whether the user has named the sources; if not, their names in version 2 are their numbers."""
    return any(not name.isdigit() for name in names)


def _by_name(path: str, names: Sequence[str], readers: Sequence[SourceReader]) -> Mapping[int, int]:
    given = [reader.name for reader in readers]
    if sorted(names) != sorted(str(name) for name in given):
        reason = f"its sources are called {', '.join(names)}, those of the query {', '.join(map(str, given))}"
        raise RestoreError("SPARK_CHECKPOINT_DIFFERS", path=path, reason=reason)
    return {index: names.index(str(name)) for index, name in enumerate(given)}


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
    """Return the kind of source of an end offset: ``files``, ``kafka``, ``other``; None: it had read nothing yet."""
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
    """Return whether an offset has Kafka's form ``{topic: {partition: offset}}``."""
    return (
        isinstance(offset, dict)
        and bool(offset)
        and all(
            isinstance(partitions, dict)
            and all(name.isdigit() and isinstance(at, int) for name, at in partitions.items())
            for partitions in offset.values()
        )
    )
