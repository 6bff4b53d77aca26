"""Who reads which files of a bounded source: Flink's split enumerator, for the subtasks of one task.

Theory of operation
-------------------

A *split* is a file, named by its place in the frozen list. What was unread when the lineage began is handed out front
to back, a range of splits at a time, to whichever subtask asks. The *log* of what was handed out is all there is to
know: each entry says who got the next range, and where that ends. So two who disagree on an entry only have to agree on
which of them stands.

A range is a 2p-th of what is left (guided self-scheduling), at least one split: the first ranges are long, the last
ones short. So the log has some 2p·ln(n) entries, and the subtasks come to their ends at about the same time, however
fast each of them is. A split that was handed out stays with its subtask; only a restore takes back what was not read.

A subtask reads its splits in order, so how many it has read tells which. With that of all subtasks, as of one
checkpoint, `unread` is the enumerator's state in it (FLIP-27; FLIP-147: the splits of a finished subtask are read).

This module does not know files, nor how the log is kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

Ranges = tuple[tuple[int, int], ...]
"""Splits [first, until), in order."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """An entry of the log."""

    #: who reads the range
    subtask: int
    #: how many of the splits are handed out after it
    until: int


class Enumerator:
    """The splits of one source that the subtasks of one task share.

    Args:
        sizes: bytes of every file of the frozen list.
        parallelism: how many subtasks there are.
        unread: what there is to hand out; None: every file.
    """

    def __init__(self, sizes: Sequence[int], parallelism: int, unread: Ranges | None = None) -> None:
        ranges = ((0, len(sizes)),) if unread is None else unread
        self._parallelism = parallelism
        #: the splits to hand out, by their place in the frozen list
        self._splits = [split for first, until in ranges for split in range(first, until)]
        #: bytes of the first n of them
        self._bytes = [0, *accumulate(sizes[split] for split in self._splits)]
        #: how many are handed out
        self._given = 0
        #: entries of the log
        self.entries = 0
        self._owned: dict[int, list[int]] = {}

    @property
    def total_bytes(self) -> int:
        """Bytes of all there is to hand out."""
        return self._bytes[-1]

    @property
    def exhausted(self) -> bool:
        """Whether every split is handed out."""
        return self._given >= len(self._splits)

    def next_for(self, subtask: int) -> Assignment | None:
        """The entry that would give it the next range; None where nothing is left."""
        if self.exhausted:
            return None
        begin = self._bytes[self._given]
        share = (self._bytes[-1] - begin) // (2 * self._parallelism)
        return Assignment(subtask, max(self._given + 1, bisect_right(self._bytes, begin + share) - 1))

    def append(self, entry: Assignment) -> None:
        """The next entry of the log."""
        if not self._given < entry.until <= len(self._splits):
            raise ValueError(f"{entry} cannot follow where {self._given} of {len(self._splits)} are handed out")
        self._owned.setdefault(entry.subtask, []).extend(self._splits[self._given : entry.until])
        self._given, self.entries = entry.until, self.entries + 1

    def owned(self, subtask: int) -> Sequence[int]:
        """What a subtask was given, in the order it is read."""
        return self._owned.get(subtask, ())

    def ahead(self, subtask: int, read: int) -> Iterator[int]:
        """What a subtask that has read so many of its own may still read, in the order of the frozen list."""
        yield from self._owned.get(subtask, ())[read:]
        yield from islice(self._splits, self._given, None)

    def unread(self, read: Mapping[int, int]) -> Ranges:
        """What is still to be read where each subtask has read so many of its own."""
        left = self._splits[self._given :]
        for subtask, owned in self._owned.items():
            left = [*left, *owned[read.get(subtask, 0) :]]
        return _ranges(sorted(left))


def _ranges(splits: Iterable[int]) -> Ranges:
    ranges: list[tuple[int, int]] = []
    for split in splits:
        if ranges and ranges[-1][1] == split:
            ranges[-1] = (ranges[-1][0], split + 1)
        else:
            ranges.append((split, split + 1))
    return tuple(ranges)
