"""Sets of subtasks of one vertex, compact and quick: one byte a subtask.

A vertex may have a hundred thousand subtasks, and a checkpoint plan holds several sets of each vertex. So a set is a
string of bytes, and everything done with whole sets runs over it in C: counting, searching, and, by way of long
integers, union, intersection and difference. Python looks at single subtasks only where a caller iterates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import and_, or_

_SWAPPED = bytes((1, 0, *range(2, 256)))
_SHOWN = 8


@dataclass(frozen=True, slots=True, repr=False)
class SubtaskSet(Collection[int]):
    """An immutable set of the subtasks of a vertex. ``len`` counts its members, iteration yields them in order."""

    #: one byte a subtask of the vertex: 1 where it is a member, else 0
    flags: bytes

    @classmethod
    def none(cls, parallelism: int) -> SubtaskSet:
        """Make the empty set for a vertex with `parallelism` subtasks."""
        return cls(bytes(parallelism))

    @classmethod
    def every(cls, parallelism: int) -> SubtaskSet:
        """Make the set of all subtasks of a vertex with `parallelism` subtasks."""
        return cls(b"\1" * parallelism)

    @classmethod
    def of(cls, parallelism: int, subtasks: Iterable[int]) -> SubtaskSet:
        """Make the set of the given subtasks; IndexError if the vertex has no such subtask."""
        flags = bytearray(parallelism)
        for subtask in subtasks:
            if subtask < 0:
                raise IndexError(f"there is no subtask {subtask}")
            flags[subtask] = 1
        return cls(bytes(flags))

    @property
    def parallelism(self) -> int:
        """The number of subtasks of the vertex."""
        return len(self.flags)

    @property
    def is_full(self) -> bool:
        """Return whether every subtask is a member."""
        return 0 not in self.flags

    def __len__(self) -> int:
        return self.flags.count(1)

    def __bool__(self) -> bool:
        return 1 in self.flags

    def __contains__(self, subtask: object) -> bool:
        return isinstance(subtask, int) and 0 <= subtask < len(self.flags) and self.flags[subtask] == 1

    def __iter__(self) -> Iterator[int]:
        subtask = self.flags.find(1)
        while subtask >= 0:
            yield subtask
            subtask = self.flags.find(1, subtask + 1)

    def __invert__(self) -> SubtaskSet:
        return SubtaskSet(self.flags.translate(_SWAPPED))

    def __and__(self, other: SubtaskSet) -> SubtaskSet:
        return self._joined(and_, other)

    def __or__(self, other: SubtaskSet) -> SubtaskSet:
        return self._joined(or_, other)

    def __sub__(self, other: SubtaskSet) -> SubtaskSet:
        return self._joined(and_, ~other)

    def _joined(self, operation: Callable[[int, int], int], other: SubtaskSet) -> SubtaskSet:
        size = len(self.flags)
        if size != len(other.flags):
            raise ValueError(f"sets of {size} and of {len(other.flags)} subtasks are not of the same vertex")
        numbers = (int.from_bytes(flags, "little") for flags in (self.flags, other.flags))
        return SubtaskSet(operation(*numbers).to_bytes(size, "little"))

    def __repr__(self) -> str:
        shown = ", ".join(map(str, islice(self, _SHOWN)))
        more = ", …" if len(self) > _SHOWN else ""
        return f"SubtaskSet({len(self)} of {len(self.flags)}: {shown}{more})"
