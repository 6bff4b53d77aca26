"""The offsets from which topics are read, and to which: what a read takes, and what is not there any more. Pure.

A *position* is topic → partition → offset of the next message, as JSON has it: partitions are texts. A partition that
comes to a known topic is read from offset 0. A topic that was not read before begins with what is there of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

Position: TypeAlias = Mapping[str, Mapping[str, int]]


class Extent(NamedTuple):
    """The offsets of the messages that a partition has."""

    #: offset of the oldest one that is kept
    first: int
    #: offset after the newest one that may be read: before that of an open transaction
    end: int
    #: offset after the newest one that is written
    written: int


Extents: TypeAlias = Mapping[str, Mapping[int, Extent]]
"""Topic → partition → what is there."""


class OffsetsGoneError(Exception):
    """A partition does not have the offset at which it is to be read next.

    Args:
        offset: the next one to be read.
        extent: what is there.
    """

    def __init__(self, topic: str, partition: int, offset: int, extent: Extent) -> None:
        super().__init__(topic, partition, offset, extent)
        self.topic, self.partition, self.offset, self.extent = topic, partition, offset, extent


class ReadRange(NamedTuple):
    """A partition, and the offsets that are read of it: the last one is not."""

    topic: str
    partition: int
    first: int
    until: int


def ranges_after(
    position: Position, extents: Extents, at_most: int, *, until: Extents | None = None
) -> list[ReadRange]:
    """Return what the next read takes of each partition, in proportion to what it has.

    Args:
        at_most: about so many messages in all, and one of each partition that has any.
        until: what was there at an earlier time: nothing is read that came later; None: all is.

    Raises:
        OffsetsGoneError: messages after the position were deleted, or the topic is another one now.
    """
    found = _left(position, extents)
    left = [one for one in (found if until is None else _cut(found, until)) if one.until > one.first]
    total = sum(one.until - one.first for one in left)
    if total <= at_most:
        return left
    return [one._replace(until=one.first + max(1, (one.until - one.first) * at_most // total)) for one in left]


def after(position: Position, ranges: list[ReadRange]) -> dict[str, dict[str, int]]:
    """Return the position once these were read."""
    made = {topic: dict(partitions) for topic, partitions in position.items()}
    for one in ranges:
        made.setdefault(one.topic, {})[str(one.partition)] = one.until
    return made


def with_new_topics(position: Position, extents: Extents) -> Position:
    """Return the position with the topics that were not read before, each partition at what is there of it.

    Also where a partition has nothing: with the topic once known, it would be looked for at offset 0.
    """
    return {**{topic: place for topic, place in earliest(extents).items() if topic not in position}, **position}


def earliest(extents: Extents) -> Position:
    """Return the position at which what is there begins."""
    return {topic: {str(number): one.first for number, one in each.items()} for topic, each in extents.items()}


def at_time(found: Mapping[tuple[str, int], int], extents: Extents) -> Position:
    """Return the position at which the messages of a time or later begin.

    Args:
        found: (topic, partition) → offset of the first of them; -1: it is yet to come.
    """
    return {
        topic: {
            str(number): one.written if found[topic, number] < 0 else found[topic, number]
            for number, one in each.items()
        }
        for topic, each in extents.items()
    }


def may_lack(found: Mapping[tuple[str, int], int], extents: Extents) -> list[tuple[str, int]]:
    """Return the partitions of which messages of that time or later may have been deleted: no older one is kept."""
    return [
        (topic, number)
        for topic, each in extents.items()
        for number, one in each.items()
        if found[topic, number] == one.first > 0
    ]


def at_offsets(said: Mapping[str, Mapping[int, int]], extents: Extents) -> Position:
    """Return the position that a user has said: for each partition an offset, -2 for the first, -1 for the end.

    Raises:
        ValueError: it has other partitions than the topics, with the reason.
    """
    wanted = {(topic, number) for topic, each in said.items() for number in each}
    there = {(topic, number) for topic, each in extents.items() for number in each}
    for topic, number in sorted(wanted ^ there):
        raise ValueError(
            f"partition {number} of topic {topic!r} {'is not in it' if (topic, number) in there else 'is not there'}."
        )
    return {
        topic: {
            str(number): {-2: extents[topic][number].first, -1: extents[topic][number].written}.get(at, at)
            for number, at in each.items()
        }
        for topic, each in said.items()
    }


def refuse_gone(position: Position, extents: Extents) -> None:
    """Raise `OffsetsGoneError` where a partition cannot be read on from the position."""
    for _ in _left(position, extents):
        pass


def _cut(ranges: Iterable[ReadRange], extents: Extents) -> Iterator[ReadRange]:
    """Yield of each range what was there."""
    for one in ranges:
        there = extents.get(one.topic, {}).get(one.partition)
        yield one._replace(until=min(one.until, one.first if there is None else there.end))


def _left(position: Position, extents: Extents) -> Iterator[ReadRange]:
    """Yield all that is there after the position."""
    for topic, partitions in extents.items():
        known = position.get(topic)
        for partition, extent in partitions.items():
            first = extent.first if known is None else known.get(str(partition), 0)
            if not extent.first <= first <= extent.written:
                raise OffsetsGoneError(topic, partition, first, extent)
            yield ReadRange(topic, partition, first, max(first, extent.end))
