"""Whether what a job needs stays flat while it runs: figures taken again and again, from its second quarter on."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Bound(NamedTuple):
    """How far a figure may rise from the second quarter to the end: noise, not growth."""

    share: float
    #: in the figure's own unit
    more: float


class Verdict(NamedTuple):
    """One figure: its level at the beginning of the second quarter and at the end, and the most that may be."""

    name: str
    before: float
    after: float
    most: float

    @property
    def flat(self) -> bool:
        """Whether it has not grown."""
        return self.after <= self.most


def verdicts(curves: Mapping[str, Sequence[float]], bounds: Mapping[str, Bound]) -> list[Verdict]:
    """Judge each figure that has a bound."""
    return [_verdict(name, curves[name], bound) for name, bound in bounds.items()]


def _verdict(name: str, curve: Sequence[float], bound: Bound) -> Verdict:
    """Medians of the first and of the last third: a garbage collection, or a checkpoint under way, is no growth."""
    later = curve[len(curve) // 4 :]
    third = max(len(later) // 3, 1)
    before, after = statistics.median(later[:third]), statistics.median(later[-third:])
    return Verdict(name, before, after, before * (1 + bound.share) + bound.more)


def growers(before: Mapping[str, int], after: Mapping[str, int], most: int = 25) -> list[tuple[str, int, int]]:
    """Names whose figures rose, by how much: name, before, after."""
    rose = [(name, before.get(name, 0), now) for name, now in after.items() if now > before.get(name, 0)]
    return sorted(rose, key=lambda one: one[1] - one[2])[:most]
