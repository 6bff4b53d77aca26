"""The sources of a query under other numbers, when its plan has other inputs, or the same in another order.

Spark keeps what it has read of a source by the number of the source in the plan: a line of ``offsets/<N>``, a folder
below ``sources/``. Batch records tell which numbers were whose (`InputPosition.sources`). So a copy of what Spark keeps
can be written for a plan in which an input is new, gone, or stands elsewhere: each source that stays continues where it
stood, and one that is new has read nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rekindle.progress.directory import Offsets
from rekindle.storage.documents.batch import InputPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers that Spark gives to the sources of a plan."""

    #: how many there are
    count: int
    #: input → the sources that read its data, and those that read its watermark rows
    inputs: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
    #: a source is used twice in such a way that Spark reads it once
    shared: bool = False


class UnknownNumbersError(Exception):
    """Which source was whose is not known; the message says why."""


def lines_of_plan(now: Numbers, before: Mapping[str, InputPosition]) -> tuple[int | None, ...]:
    """Return for each source of a plan the number that it had; None for one that is new.

    Args:
        before: of the inputs as they were.

    Raises:
        UnknownNumbersError: it is not known.
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
    """Return what is planned for a batch as it is for a plan with these sources."""
    ends = tuple(None if line is None else offsets.sources[line] for line in lines)
    return replace(offsets, sources=ends, names=())


def moved(path: str, lines: Sequence[int | None]) -> list[str]:
    """Return where a file of a progress directory lies for a plan with these sources: nowhere if its source is gone."""
    top, _, below = path.partition("/")
    if top != "sources":
        return [path]
    folder, _, name = below.partition("/")
    return [f"sources/{number}/{name}" for number, line in enumerate(lines) if line is not None and str(line) == folder]
