"""The progress of two jobs since the cut at which both began, and the rows of one that the other must have by now.

Two jobs never cut their inputs into the same batches, so no two of their checkpoints need to stand at one place. But
their rows can be compared all the same. A checkpoint of one is *covered* by a checkpoint of the other that has read at
least as much of each source, and whose watermarks are at least as far. What the covered one has committed, the other
must have committed too. What comes after it is not comparable yet: the other may still write it.

This module reads nothing but what it is given. It must not know Spark, nor where documents lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import inf
from typing import Any

from rekindle.protocol.enumerator import Ranges
from rekindle.shadowing import custom_sources
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot

FileLog = Mapping[str, int]
"""File that a stream of files has found → Spark's offset in whose batch it was."""

_OF_FILES = "logOffset"
"""The one key of an offset of a stream of files: a number that each query counts for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """The standing of a job at a checkpoint."""

    manifest: Manifest
    #: task, number of Spark's source → the log of a stream of files
    logs: Mapping[tuple[str, int], FileLog] = field(default_factory=dict)


def covered(ours: Sequence[JobStanding], theirs: Sequence[JobStanding]) -> int:
    """Return how many of a job's first checkpoints are covered by the newest one of another job."""
    return next((count for count in range(len(ours), 0, -1) if theirs and covers(theirs[-1], ours[count - 1])), 0)


def covers(later: JobStanding, earlier: JobStanding) -> bool:
    """Return True if a job has read and put out at one checkpoint what another one had at another.

    Tasks and sources that only one of them has do not count.
    """
    tasks = later.manifest.tasks.keys() & earlier.manifest.tasks.keys()
    return (
        bool(tasks)
        and not any(_has_in_flight(one) for task in tasks for one in later.manifest.tasks[task].values())
        and all(_is_as_far(later.manifest.tasks[task], earlier.manifest.tasks[task]) for task in tasks)
        and all(_has_read(later, earlier, task) for task in tasks)
    )


def _has_in_flight(snapshot: SubtaskSnapshot) -> bool:
    return any(first < until for places in snapshot.in_flight.values() for first, until in places.values())


def _is_as_far(later: Mapping[int, SubtaskSnapshot], earlier: Mapping[int, SubtaskSnapshot]) -> bool:
    return _watermark(later.values()) >= _watermark(earlier.values())


def _watermark(subtasks: Collection[SubtaskSnapshot]) -> float:
    """Return the least watermark of a task's subtasks; infinite where all have ended, -1 before the first batch."""
    going = [one.watermark_ms for one in subtasks if one.end is None]
    return min((-1 if watermark is None else watermark for watermark in going), default=inf)


def _has_read(later: JobStanding, earlier: JobStanding, task: str) -> bool:
    ours, theirs = later.manifest, earlier.manifest
    unread, were_unread = ours.unread.get(task, {}), theirs.unread.get(task, {})
    splits, were_splits = ours.operator_state.get(task, {}), theirs.operator_state.get(task, {})
    return (
        all(_is_within(unread[uid], were_unread[uid]) for uid in unread.keys() & were_unread.keys())
        and all(
            custom_sources.has_read(ours.source_kinds.get(uid), splits[uid], were_splits[uid])
            for uid in splits.keys() & were_splits.keys()
        )
        and all(
            _has_come(now, before, _log_of(later, task), _log_of(earlier, task))
            for now, before in _streams(ours.tasks[task], theirs.tasks[task])
        )
    )


def _is_within(left: Ranges, were_left: Ranges) -> bool:
    return all(any(start <= first and until <= end for start, end in were_left) for first, until in left)


def _streams(
    later: Mapping[int, SubtaskSnapshot], earlier: Mapping[int, SubtaskSnapshot]
) -> Iterable[tuple[InputPosition | None, InputPosition]]:
    """Yield the positions, later and earlier, of the streams that Spark reads itself; their tasks have one subtask."""
    now = {uid: one for snapshot in later.values() for uid, one in snapshot.inputs.items()}
    for snapshot in earlier.values():
        for uid, before in snapshot.inputs.items():
            if before.offset is not None and (uid in now or not now):
                yield now.get(uid), before


_LogOf = Callable[[int], "FileLog | None"]


def _log_of(standing: JobStanding, task: str) -> _LogOf:
    return lambda source: standing.logs.get((task, source))


def _has_come(now: InputPosition | None, before: InputPosition, log: _LogOf, log_before: _LogOf) -> bool:
    if now is None:
        return False
    parts, parts_before = _parts(now), _parts(before)
    return len(parts) == len(parts_before) and all(
        _reaches(end, end_before, log(source), log_before(source_before))
        for (source, end), (source_before, end_before) in zip(parts, parts_before, strict=True)
    )


def _parts(position: InputPosition) -> list[tuple[int, Any]]:
    """Return each of Spark's sources that read it, by number (-1: an older version wrote none), and its offset."""
    if len(position.sources) < 2:
        return [(next(iter(position.sources), -1), position.offset)]
    return list(zip(position.sources, position.offset, strict=True))


def _reaches(end: Any, before: Any, log: FileLog | None, log_before: FileLog | None) -> bool:
    if isinstance(end, dict) and isinstance(before, dict) and end.keys() == before.keys() == {_OF_FILES}:
        if log is None or log_before is None:
            return False
        last, last_before = end[_OF_FILES], before[_OF_FILES]
        read = {path for path, offset in log.items() if offset <= last}
        return all(path in read for path, offset in log_before.items() if offset <= last_before)
    return is_at_least(end, before)


def is_at_least(end: Any, before: Any) -> bool:
    """Return True if an offset of a source, as JSON, is surely not before another one of it."""
    if end == before or before is None:
        return True
    if isinstance(end, bool) or isinstance(before, bool):
        return False
    if isinstance(end, int) and isinstance(before, int):
        return end >= before
    if isinstance(end, dict) and isinstance(before, dict):
        return all(key in end and is_at_least(end[key], value) for key, value in before.items())
    if isinstance(end, list) and isinstance(before, list):
        return len(end) == len(before) and all(map(is_at_least, end, before))
    return False


def in_one_line(
    followed: Sequence[Manifest],
    *,
    since: Manifest,
    restored: Mapping[int, int | None],
    rewound: Collection[int],
) -> list[Manifest] | int:
    """Return those checkpoints of a job that continue a cut, one after the other; or the first that does not.

    A job that is started again resumes in its lineage. One that goes back does not continue what it has committed,
    unless its sinks went back too.

    Args:
        since: the checkpoint that is the cut.
        restored: lineage → the checkpoint of this job that it began from; None: from elsewhere.
        rewound: checkpoints that were taken back from the sinks.
    """
    kept, lineage = list[Manifest](), since.lineage
    for manifest in followed:
        if manifest.lineage != lineage:
            back = restored.get(manifest.lineage)
            if back is None or back < since.checkpoint:
                return manifest.checkpoint
            dropped = [one for one in kept if one.checkpoint > back]
            if any(one.transactions and one.checkpoint not in rewound for one in dropped):
                return manifest.checkpoint
            kept, lineage = [one for one in kept if one.checkpoint <= back], manifest.lineage
        kept.append(manifest)
    return kept


def once(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Leave out the checkpoints that failed although their manifest arrived: the next one names their transactions."""
    return [one for one, later in zip_longest(manifests, manifests[1:]) if not _is_repeated(one, later)]


def _is_repeated(manifest: Manifest, later: Manifest | None) -> bool:
    named = _named(manifest)
    return later is not None and later.lineage == manifest.lineage and bool(named) and named <= _named(later)


def _named(manifest: Manifest) -> set[tuple[str, str, int, int]]:
    of_sinks = manifest.transactions.items()
    return {(sink, one.task, one.subtask, one.batch) for sink, transactions in of_sinks for one in transactions}
