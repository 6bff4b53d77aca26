"""The barriers that a subtask has seen: they decide when it takes its snapshot, and when that snapshot is whole.

Theory of operation
-------------------

A subtask reads any number of *channels*; a place in one is a *position*, the number of items in front of it. Methods
take in facts and return outcomes, in the order in which they are to be carried out. For each checkpoint there is at
most one `AlignedSnapshot`, and then either one `Aligned` or one `Aborted`::

                 first barrier                    last barrier, or end, of the open channels
    (nothing) ─────────────────► pending ────────────────────────────────────────────► Aligned
                                    │  newer barrier, cancellation, [end of a channel]
                                    └──────────────────────────────────────────────────► Aborted

- *Aligned*: a channel that has delivered its barrier is held back. The snapshot is taken when the last barrier has
  come, so nothing is in flight.
- *Unaligned* (FLIP-76): the snapshot is taken at the first barrier and no channel is held back. In flight is what lies
  in each channel between the position read when the snapshot was taken and the position of its barrier.
- An aligned checkpoint becomes unaligned once one of its barriers comes unaligned (a task upstream has changed to that)
  or its time has run out. Its snapshot is taken then, so one rule serves all three.

Only one checkpoint is pending at a time; ids only grow. If several are under way in a job, the caller keeps the
barriers of the next one after those of this one, in channels that are held back. The channels to wait for are those
open when the checkpoint began. A channel's end counts as its barrier, for the pending checkpoint and for all that
follow (FLIP-147, "Some of the Precedent Tasks are Finished"). Barrier and end of one channel, or the same barrier
twice, count once.

This module does not know what is in a channel, when a barrier is put into it, what time it is, or who acknowledges. It
follows Flink's ``SingleCheckpointBarrierHandler``, with two differences on purpose. A pending checkpoint that is older
than a cancelled one is reported as subsumed (Flink's coordinator waits for its time-out). An announced barrier does not
count: it neither begins nor subsumes a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rekindle.protocol.alignment_outcomes import Aborted, Aligned, AlignedSnapshot, Channel, Outcome
from rekindle.protocol.channel_state import ChannelState, illegal
from rekindle.protocol.reasons import Reason


@dataclass(slots=True)
class _Pending:
    """A checkpoint that has begun and is not whole."""

    checkpoint: int
    #: channels that were open when it began, and whose barrier or end was not seen yet
    awaited: set[Channel]
    #: position read in each channel that was awaited when the snapshot was taken; None: it is not taken yet
    cut: dict[Channel, int] | None = None
    #: channel no longer awaited → position of its barrier, or of its end
    places: dict[Channel, int] = field(default_factory=dict)


@dataclass(slots=True)
class Alignment:
    """The barriers of one subtask.

    Args:
        channels: its channels; none for a root.
        after_tasks_finish: if False, the end of a channel aborts the pending checkpoint, as before FLIP-147.
    """

    channels: ChannelState
    after_tasks_finish: bool = True
    #: id of the latest checkpoint begun or cancelled here, -1 before the first
    latest: int = field(default=-1, init=False)
    _pending: _Pending | None = field(default=None, init=False)
    #: ids above `latest` that the coordinator has given up
    _given_up: frozenset[int] = field(default=frozenset(), init=False)

    # -- what can be seen ---------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Return whether the latest checkpoint has begun and is neither whole nor aborted."""
        return self._pending is not None

    @property
    def in_flight(self) -> dict[Channel, tuple[int, int]]:
        """The data in flight of the pending checkpoint, as far as it is known: channel → positions [from, to)."""
        if self._pending is None or self._pending.cut is None:
            return {}
        ranges = {
            channel: (start, self._pending.places.get(channel, self.channels.read[channel]))
            for channel, start in self._pending.cut.items()
        }
        return {channel: (start, end) for channel, (start, end) in ranges.items() if end > start}

    # -- what has happened in a channel -------------------------------------------------------------------------------

    def barrier(
        self, channel: Channel, checkpoint: int, *, unaligned: bool = False, position: int | None = None
    ) -> tuple[Outcome, ...]:
        """Note that a barrier was seen: an aligned one when it is reached, an unaligned one when it is put down.

        On a channel that has ended it only begins the checkpoint. A stale one changes nothing: its channel is not held
        back for it.

        Args:
            position: number of items in front of it; None: as many as were read so far.

        Raises:
            ProtocolError: ``ILLEGAL_EVENT`` if the subtask has read beyond it, or has not reached an aligned one.
        """
        if self._is_stale(checkpoint):
            return ()
        place = self.channels.read[channel] if position is None else position
        overtakes = unaligned or self._is_unaligned(checkpoint)
        if place < self.channels.read[channel] or (place > self.channels.read[channel] and not overtakes):
            where = f"channel {channel} was read up to {self.channels.read[channel]}"
            raise illegal(f"a barrier of checkpoint {checkpoint} at {place}", where, "one at the position read")
        outcomes, pending = self._begun(checkpoint)
        if overtakes:
            outcomes += self._cut(pending)
        else:
            self.channels.block(channel)
        return (*outcomes, *self._seen(pending, channel, place))

    def ended(self, channel: Channel) -> tuple[Outcome, ...]:
        """Note that a channel has ended (EndOfPartition) and was read to its end; a repetition changes nothing.

        FLIP-147: from now on it counts as aligned, for the pending checkpoint and for all that follow.
        """
        if channel not in self.channels.open:
            return ()
        self.channels.end(channel)
        if self._pending is None:
            return ()
        if not self.after_tasks_finish:
            return self._aborted(self._pending, Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM)
        return self._seen(self._pending, channel, self.channels.read[channel])

    def cancelled(self, channel: Channel, checkpoint: int) -> tuple[Outcome, ...]:
        """Note that a cancellation barrier was read: a task upstream has given the checkpoint up.

        A pending checkpoint that is older is given up with it, since its barrier cannot come any more. The cancellation
        of an older checkpoint, or of one that has ended here already, is ignored.
        """
        if channel not in self.channels.open:
            raise illegal(f"a cancellation in channel {channel}", "it has ended", "those in open channels")
        reason = Reason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
        if checkpoint > self.latest:
            subsumed = self._subsumed()
            self._advance(checkpoint)
            return (*subsumed, Aborted(checkpoint, reason))
        if self._pending is not None and checkpoint == self.latest:
            return self._aborted(self._pending, reason)
        return ()

    # -- what the coordinator says ------------------------------------------------------------------------------------

    def triggered(self, checkpoint: int, *, unaligned: bool = False) -> tuple[Outcome, ...]:
        """Begin a checkpoint that the coordinator triggers here, at a root or after producers that have all finished.

        This acts as if a barrier had come in each open channel at the position read, without holding it back. So the
        checkpoint is whole at once, and subsumes a pending one (FLIP-147, "All the Precedent Tasks are Finished").
        """
        if self._is_stale(checkpoint):
            return ()
        outcomes, pending = self._begun(checkpoint)
        if unaligned:
            outcomes += self._cut(pending)
        pending.places |= {channel: self.channels.read[channel] for channel in pending.awaited}
        pending.awaited.clear()
        return (*outcomes, *self._whole(pending))

    def timed_out(self, checkpoint: int) -> tuple[Outcome, ...]:
        """Let the pending checkpoint continue unaligned: the time to align has run out.

        This has no effect on a checkpoint that is unaligned already, has ended here, or has not begun. The caller
        delivers the barriers that are still in the channels as unaligned ones.
        """
        if self._pending is None or checkpoint != self.latest:
            return ()
        return tuple(self._cut(self._pending))

    def aborted(self, checkpoint: int) -> None:
        """Drop a checkpoint that the coordinator has given up: its channels continue, its later barriers are stale.

        The pending checkpoint continues if it is another one, even an older one.
        """
        if self._pending is not None and checkpoint == self.latest:
            self._finished()
        elif checkpoint > self.latest:
            self._given_up |= {checkpoint}

    # -- the one pending checkpoint -----------------------------------------------------------------------------------

    def _is_stale(self, checkpoint: int) -> bool:
        over = checkpoint == self.latest and self._pending is None
        return checkpoint < self.latest or over or checkpoint in self._given_up

    def _is_unaligned(self, checkpoint: int) -> bool:
        return self._pending is not None and checkpoint == self.latest and self._pending.cut is not None

    def _begun(self, checkpoint: int) -> tuple[list[Outcome], _Pending]:
        """Return the pending checkpoint with this id, which is not stale; begin it, and end an older one, if needed."""
        if self._pending is not None and checkpoint == self.latest:
            return [], self._pending
        outcomes: list[Outcome] = [*self._subsumed()]
        self._advance(checkpoint)
        self._pending = _Pending(checkpoint, set(self.channels.open))
        return outcomes, self._pending

    def _advance(self, checkpoint: int) -> None:
        self.latest = checkpoint
        self._given_up = frozenset(number for number in self._given_up if number > checkpoint)

    def _cut(self, pending: _Pending) -> list[Outcome]:
        """Take the snapshot now, unless it is taken: from here on the checkpoint is unaligned."""
        if pending.cut is not None:
            return []
        self.channels.unblock()
        pending.cut = {channel: self.channels.read[channel] for channel in pending.awaited}
        return [AlignedSnapshot(pending.checkpoint, unaligned=True)]

    def _seen(self, pending: _Pending, channel: Channel, place: int) -> tuple[Outcome, ...]:
        if channel in pending.awaited:
            pending.awaited.remove(channel)
            pending.places[channel] = place
        return self._whole(pending)

    def _whole(self, pending: _Pending) -> tuple[Outcome, ...]:
        if pending.awaited:
            return ()
        taken = () if pending.cut is not None else (AlignedSnapshot(pending.checkpoint, unaligned=False),)
        aligned = Aligned(pending.checkpoint, self.in_flight)
        self._finished()
        return (*taken, aligned)

    def _subsumed(self) -> tuple[Outcome, ...]:
        if self._pending is None:
            return ()
        return self._aborted(self._pending, Reason.CHECKPOINT_DECLINED_SUBSUMED)

    def _aborted(self, pending: _Pending, reason: Reason) -> tuple[Outcome, ...]:
        self._finished()
        return (Aborted(pending.checkpoint, reason),)

    def _finished(self) -> None:
        self._pending = None
        self.channels.unblock()
