"""Feeding a channel's segments to the query that reads it.

A channel's content is derived from its producer's batch records, in their order (DESIGN 5). The cursor into it tells
how many of the producer's batches were read whole, and how many segments of the next one. It goes no further than it
was allowed to (`AllowReading`). A batch without segments needs no reading: the cursor passes it by itself.

Two threads use a feed, the query's (`recorded`, `after`, `admit`) and the driver's (`allow`); whoever owns it locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from rekindle.channels.admission import MAX_FILES, AdmissionSizer
from rekindle.channels.feed import Feed
from rekindle.channels.inbox import Inbox
from rekindle.storage.documents import FrozenFile, InputPosition


class ChannelFeed(Feed):
    """The segments of one producer.

    Args:
        segments: batch of the producer → its segments, with absolute addresses; asked for batches that have a record.
    """

    def __init__(
        self,
        inbox: Inbox,
        position: InputPosition,
        sizer: AdmissionSizer,
        segments: Callable[[int], Sequence[FrozenFile]],
    ) -> None:
        super().__init__(inbox, position, sizer)
        self._load = segments
        #: segments of batches that are not read whole, by batch
        self._known: dict[int, Sequence[FrozenFile]] = {}
        #: how many of the producer's batches may be read
        self._allowed = position.batches

    @property
    def read(self) -> int:
        """How many of the producer's batches need not be read any more, empty ones included."""
        return self._passed(self.position).batches

    def allow(self, upto: int) -> bool:
        """More may be read; whether that alone, batches being empty, has moved `read`."""
        before = self.read
        self._allowed = max(self._allowed, upto)
        return self.read > before

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """See `Feed`."""
        super().recorded(position, batch_duration_ms)
        self._known = {batch: known for batch, known in self._known.items() if batch >= position.batches}

    def _ahead(self) -> Sequence[FrozenFile]:
        first = self.position.segment
        return list(islice(self._from(self.position.batches), first, first + MAX_FILES))

    def _from(self, batch: int) -> Iterator[FrozenFile]:
        for number in range(batch, self._allowed):
            yield from self._segments(number)

    def _reached(self, position: InputPosition) -> InputPosition:
        batches, segment = position.batches, position.segment + len(self._outstanding)
        while segment and segment >= len(self._segments(batches)):
            segment -= len(self._segments(batches))
            batches += 1
        return self._passed(replace(position, batches=batches, segment=segment))

    def _passed(self, position: InputPosition) -> InputPosition:
        """The position with the empty batches in front of it behind it, as far as it may go."""
        batches = position.batches
        while position.segment == 0 and batches < self._allowed and not self._segments(batches):
            batches += 1
        return replace(position, batches=batches)

    def _segments(self, batch: int) -> Sequence[FrozenFile]:
        if batch not in self._known:
            self._known[batch] = tuple(self._load(batch))
        return self._known[batch]
