"""Feeding a channel's segments to the query that reads it.

A channel's content is derived from its producers' batch records, each producer's in their order. The cursor
into one producer's tells how many of its batches were read whole, and how many segments of the next one. It goes no
further than it was allowed to (`AllowReading`). Between producers there is no order; an admission takes of each in
turn.

A batch without segments needs no reading: the cursor passes it by itself. That makes no batch record of the reader, so
the place in its last one may lie far before what it has passed. Checkpoints name the place that was passed, and what
lies before that may be deleted. After a restart that batch record is all there is: the batches between
its place and the producer's oldest one had nothing for this reader, or a checkpoint could not have passed them.

Two threads use a feed, the query's (`recorded`, `after`, `admit`) and the driver's (`allow`); its owner locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Protocol

from rekindle.channels.admission import MAX_FILES, AdmissionSizer
from rekindle.channels.feed import Feed
from rekindle.channels.inbox import Inbox
from rekindle.storage.documents.batch import ChannelPosition, InputPosition
from rekindle.storage.documents.sources import FrozenFile


class Output(Protocol):
    """The output of one producer for this reader."""

    @property
    def address(self) -> str:
        """The beginning of the addresses of all its segments, and of no other producer's."""
        ...

    @property
    def oldest(self) -> int:
        """The oldest of its batches whose record was kept when the reader was started; 0 where it has none."""
        ...

    def segments(self, batch: int) -> Sequence[FrozenFile]:
        """Return the segments of a recorded batch, with absolute addresses."""
        ...


class ChannelFeed(Feed):
    """The segments of the producers of one channel.

    Args:
        producers: subtask of the producing task → what it writes.
    """

    def __init__(
        self, inbox: Inbox, position: InputPosition, sizer: AdmissionSizer, producers: Mapping[int, Output]
    ) -> None:
        super().__init__(inbox, position, sizer)
        self._cursors = {
            index: _Cursor(output, _of(position, index).batches) for index, output in sorted(producers.items())
        }

    def read(self, producer: int) -> int:
        """Return how many of a producer's batches need not be read any more, empty ones included."""
        return self._cursors[producer].passed(_of(self.position, producer)).batches

    def allow(self, producer: int, upto: int) -> bool:
        """Let more of a producer be read; return whether that alone, batches being empty, has moved `read`."""
        before, cursor = self.read(producer), self._cursors[producer]
        cursor.allowed = max(cursor.allowed, upto)
        return self.read(producer) > before

    def after(self, admission: int) -> InputPosition:
        """See `Feed`. A batch that read nothing of the channel says at least how far it was empty."""
        if admission > self.position.admission:
            return super().after(admission)
        channels = {index: cursor.passed(_of(self.position, index)) for index, cursor in self._cursors.items()}
        return replace(self.position, channels=channels)

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """See `Feed`."""
        super().recorded(position, batch_duration_ms)
        for index, cursor in self._cursors.items():
            cursor.forget(_of(position, index).batches)

    def _ahead(self) -> Sequence[FrozenFile]:
        rows = zip_longest(*(cursor.ahead(_of(self.position, index)) for index, cursor in self._cursors.items()))
        return list(islice((file for row in rows for file in row if file is not None), MAX_FILES))

    def _reached(self, position: InputPosition) -> InputPosition:
        channels = {
            index: cursor.moved_past(_of(position, index), self._outstanding) for index, cursor in self._cursors.items()
        }
        return replace(position, channels=channels)


class _Cursor:
    """The place that is read in one producer's output, and what is known of that output."""

    def __init__(self, output: Output, recorded: int) -> None:
        self._output = output
        #: no batch from the place in the reader's last batch record up to this one has segments, if that place is
        #: at the beginning of a batch
        self._empty_until = max(recorded, output.oldest)
        #: number of its batches that may be read
        self.allowed = self._empty_until
        #: segments of batches that are not read whole, by batch
        self._known: dict[int, Sequence[FrozenFile]] = {}

    def ahead(self, position: ChannelPosition) -> Iterator[FrozenFile]:
        """Return what may be read from a position on."""
        position = self.passed(position)
        every = (one for batch in range(position.batches, self.allowed) for one in self._segments(batch))
        return islice(every, position.segment, None)

    def moved_past(self, position: ChannelPosition, files: Sequence[FrozenFile]) -> ChannelPosition:
        """Return the position after those of `files` that are this producer's."""
        ours = sum(file.path.startswith(self._output.address) for file in files)
        position = self.passed(position)
        batches, segment = position.batches, position.segment + ours
        while segment and segment >= len(self._segments(batches)):
            segment -= len(self._segments(batches))
            batches += 1
        return self._pass(batches, segment)

    def passed(self, position: ChannelPosition) -> ChannelPosition:
        """Return the position in the last batch record, moved past the empty batches after it, as far as it may go."""
        if position.segment:
            return position
        reached = self._pass(max(position.batches, self._empty_until), 0)
        self._empty_until = reached.batches
        return reached

    def forget(self, batches: int) -> None:
        """Forget the segments of batches that are read whole: those with a number below `batches`."""
        self._known = {batch: known for batch, known in self._known.items() if batch >= batches}

    def _pass(self, batches: int, segment: int) -> ChannelPosition:
        while segment == 0 and batches < self.allowed and not self._segments(batches):
            self._known.pop(batches, None)
            batches += 1
        return ChannelPosition(batches=batches, segment=segment)

    def _segments(self, batch: int) -> Sequence[FrozenFile]:
        known = self._known.get(batch)
        if known is None:
            known = self._known[batch] = tuple(self._output.segments(batch))
        return known


def _of(position: InputPosition, producer: int) -> ChannelPosition:
    return position.channels.get(producer, ChannelPosition())
