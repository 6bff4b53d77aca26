"""The assignment of the files of a bounded source to the subtasks of one task: Flink's split enumerator.

Theory of operation
-------------------

A *split* is a file, named by its index in the frozen list. The splits that were unread when the lineage began are
handed out from first to last, a range of splits at a time, to any subtask that asks. The *log* of the assignments is
the whole state: each entry names the subtask that got the next range, and where that range ends. So two subtasks that
want the same entry only have to agree on which of them wrote it.

A range is a 2p-th of what is left (guided self-scheduling), at least one split: the first ranges are long, the last
ones short. So the log has some 2p·ln(n) entries, and the subtasks end at about the same time, however fast each of them
is. A split that was handed out stays with its subtask; only a restore takes back the splits that were not read.

A subtask reads its splits in order, so the number that it has read identifies them. With that number of every subtask,
as of one checkpoint, `unread` is the enumerator's state in it (FLIP-27; FLIP-147: the splits of a finished subtask are
read).

This module does not know files, or how the log is kept.
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

    #: subtask that reads the range
    subtask: int
    #: number of splits that are handed out after this entry
    until: int


class Enumerator:
    """The splits of one source that the subtasks of one task share.

    Args:
        sizes: bytes of every file of the frozen list.
        parallelism: number of subtasks.
        unread: ranges of splits to hand out; None: every file.
    """

    def __init__(self, sizes: Sequence[int], parallelism: int, unread: Ranges | None = None) -> None:
        ranges = ((0, len(sizes)),) if unread is None else unread
        self._parallelism = parallelism
        #: the splits to hand out, by their index in the frozen list
        self._splits = [split for first, until in ranges for split in range(first, until)]
        #: at index n: bytes of the first n of them
        self._bytes = [0, *accumulate(sizes[split] for split in self._splits)]
        #: number of splits that are handed out
        self._given = 0
        #: number of entries of the log
        self.entries = 0
        self._owned: dict[int, list[int]] = {}

    @property
    def total_bytes(self) -> int:
        """The size of all splits to hand out, in bytes."""
        return self._bytes[-1]

    @property
    def exhausted(self) -> bool:
        """Return whether every split is handed out."""
        return self._given >= len(self._splits)

    def next_for(self, subtask: int) -> Assignment | None:
        """Return the entry that would give a subtask the next range; None: nothing is left."""
        if self.exhausted:
            return None
        begin = self._bytes[self._given]
        share = (self._bytes[-1] - begin) // (2 * self._parallelism)
        return Assignment(subtask, max(self._given + 1, bisect_right(self._bytes, begin + share) - 1))

    def append(self, entry: Assignment) -> None:
        """Take in the next entry of the log; ValueError if it does not follow the last."""
        if not self._given < entry.until <= len(self._splits):
            raise ValueError(f"{entry} cannot follow where {self._given} of {len(self._splits)} are handed out")
        self._owned.setdefault(entry.subtask, []).extend(self._splits[self._given : entry.until])
        self._given, self.entries = entry.until, self.entries + 1

    def owned(self, subtask: int) -> Sequence[int]:
        """Return the splits given to a subtask, in the order in which it reads them."""
        return self._owned.get(subtask, ())

    def ahead(self, subtask: int, read: int) -> Iterator[int]:
        """Yield the splits that a subtask may still read: its own after the first `read`, then all not handed out."""
        yield from self._owned.get(subtask, ())[read:]
        yield from islice(self._splits, self._given, None)

    def unread(self, read: Mapping[int, int]) -> Ranges:
        """Return the splits still to be read; `read`: subtask → number of its own splits that it has read."""
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
