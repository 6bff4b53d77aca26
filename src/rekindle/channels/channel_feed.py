"""Feeding a channel's segments to the query that reads it, one admission at a time.

A channel's content is derived from its producer's batch records, in their order (DESIGN 5). A feed owns the cursor into
it: how many of the producer's batches were read whole, and how many segments of the next one. It goes no further than
it was allowed to (`AllowReading`), and admits the next segments only when the admission before is in a batch record, as
`feed.FileFeed` does. A batch without segments needs no reading: the cursor passes it by itself.

Two threads use a feed, the query's (`recorded`, `after`, `admit`) and the driver's (`allow`); whoever owns it locks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from rekindle.channels.admission import MAX_FILES, AdmissionSizer, choose
from rekindle.channels.inbox import Inbox
from rekindle.storage.documents import FrozenFile, InputPosition


class ChannelFeed:
    """The segments of one producer on their way into one query.

    Args:
        inbox: where admissions go.
        position: how far the last batch record says the channel was read.
        sizer: decides how many bytes an admission takes.
        segments: batch of the producer → its segments, with absolute addresses; asked for batches that have a record.
    """

    total_bytes = 0
    """Nobody knows how much will come through a channel."""

    def __init__(
        self,
        inbox: Inbox,
        position: InputPosition,
        sizer: AdmissionSizer,
        segments: Callable[[int], Sequence[FrozenFile]],
    ) -> None:
        self._inbox = inbox
        self._sizer = sizer
        self._load = segments
        #: segments of batches that are not read whole, by batch
        self._known: dict[int, Sequence[FrozenFile]] = {}
        #: how many of the producer's batches may be read
        self._allowed = position.batches
        #: as of the last batch record
        self.position = position
        self._outstanding: Sequence[FrozenFile] = ()
        last = inbox.last_admitted()
        if last > position.admission:
            self._outstanding = inbox.admitted(last)

    @property
    def outstanding(self) -> Sequence[FrozenFile]:
        """The segments on their way that no record covers yet."""
        return self._outstanding

    @property
    def outstanding_bytes(self) -> int:
        """Bytes of that admission."""
        return sum(file.size for file in self._outstanding)

    @property
    def read(self) -> int:
        """How many of the producer's batches need not be read any more, empty ones included."""
        return self._passed(self.position).batches

    def allow(self, upto: int) -> bool:
        """More may be read; whether that alone, batches being empty, has moved `read`."""
        before = self.read
        self._allowed = max(self._allowed, upto)
        return self.read > before

    def admit(self) -> None:
        """Admit the next segments, unless an admission is outstanding or none may be read."""
        if self._outstanding:
            return
        ahead = list(islice(self._ahead(), MAX_FILES))
        if not ahead:
            return
        chosen: Sequence[FrozenFile] = ahead[: choose(ahead, 0, self._sizer.next_bytes())]
        admission = self.position.admission + 1
        if not self._inbox.admit(admission, chosen):
            chosen = self._inbox.admitted(admission)  # an earlier try, or another driver: what was admitted stands
        self._outstanding = chosen

    def after(self, admission: int) -> InputPosition:
        """The position once a batch has read up to `admission`, the outstanding one or an earlier one."""
        if admission <= self.position.admission:
            return self.position
        batches, segment = self.position.batches, self.position.segment + len(self._outstanding)
        while segment and segment >= len(self._segments(batches)):
            segment -= len(self._segments(batches))
            batches += 1
        reached = replace(
            self.position,
            admission=admission,
            files=self.position.files + len(self._outstanding),
            bytes=self.position.bytes + self.outstanding_bytes,
            batches=batches,
            segment=segment,
        )
        return self._passed(reached)

    def recorded(self, position: InputPosition, batch_duration_ms: int) -> None:
        """A batch record with `position` exists."""
        if position.admission > self.position.admission:
            self._sizer.observe(self.outstanding_bytes, batch_duration_ms)
            self._outstanding = ()
        self.position = position
        for batch in [batch for batch in self._known if batch < position.batches]:
            del self._known[batch]

    def _ahead(self) -> Sequence[FrozenFile]:
        """All that may be read from the cursor on."""
        files = [file for batch in range(self.position.batches, self._allowed) for file in self._segments(batch)]
        return files[self.position.segment :]

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
