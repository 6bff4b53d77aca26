"""New numbers for the sources of a query whose plan has other inputs, or the same in another order.

Spark keeps its position in a source by the number of the source in the plan: a line of ``offsets/<N>``, a folder below
``sources/``. Batch records tell the numbers of each input (`InputPosition.sources`). So a copy of these files can be
written for a plan in which an input is new, removed, or at another place: each source that stays keeps its position,
and a new one has read nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rekindle.progress.directory import Offsets
from rekindle.storage.documents.batch import InputPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers that Spark gives to the sources of a plan."""

    #: number of sources in the plan
    count: int
    #: input → the sources that read its data, and those that read its watermark rows
    inputs: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
    #: True if a source is used twice in such a way that Spark reads it once
    shared: bool = False


class UnknownNumbersError(Exception):
    """The error that the old numbers of an input's sources are not known; the message says why."""


def lines_of_plan(now: Numbers, before: Mapping[str, InputPosition]) -> tuple[int | None, ...]:
    """Return for each source of a plan its old number; None: it is new.

    Args:
        before: input → its last position.

    Raises:
        UnknownNumbersError: the old numbers are not known.
    """
    if now.shared:
        raise UnknownNumbersError("its query uses an input twice")
    found: list[int | None] = [None] * now.count
    for uid, groups in now.inputs.items():
        position = before.get(uid)
        if position is None:
            continue
        if not position.sources:
            raise UnknownNumbersError("an older version noted its positions; let it run once with the old inputs")
        for numbers, old in zip(groups, (position.sources, position.mark_sources), strict=True):
            if old and len(old) != len(numbers):
                raise UnknownNumbersError(f"it uses its input {uid} {len(numbers)} times, and {len(old)} times before")
            for number, line in zip(numbers, old, strict=False):
                found[number] = line
    return tuple(found)


def renumbered(offsets: Offsets, lines: Sequence[int | None]) -> Offsets:
    """Return the plan of a batch for a query with these sources."""
    ends = tuple(None if line is None else offsets.sources[line] for line in lines)
    return replace(offsets, sources=ends, names=())


def moved(path: str, lines: Sequence[int | None]) -> list[str]:
    """Return the paths of a file of a progress directory for a plan with these sources: [] if its source is removed."""
    top, _, below = path.partition("/")
    if top != "sources":
        return [path]
    folder, _, name = below.partition("/")
    return [f"sources/{number}/{name}" for number, line in enumerate(lines) if line is not None and str(line) == folder]
