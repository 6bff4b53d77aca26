"""The checkpoints under way, the oldest first: which of them is late, to be written, given up, or in the way."""

from __future__ import annotations

from rekindle.protocol.checkpoint_schedule import DEMANDED
from rekindle.protocol.pending_checkpoint import GIVEN_UP_IN, CheckpointRequest, PendingCheckpoint, Phase
from rekindle.protocol.reasons import Reason

_COMPLETING = (Phase.WRITING, Phase.COMMITTING)


class UnderWay(dict[int, PendingCheckpoint]):
    """Number → checkpoint that was triggered and has not settled."""

    def at(self, number: int, phase: Phase) -> PendingCheckpoint | None:
        """The checkpoint with this number, if it is in this phase."""
        pending = self.get(number)
        return pending if pending and pending.phase is phase else None

    @property
    def committing(self) -> int | None:
        """Number of the one that is being committed."""
        return next((one.number for one in self.values() if one.phase is Phase.COMMITTING), None)

    def expired(self, now_ms: int, limit_ms: int) -> PendingCheckpoint | None:
        """The oldest that takes too long and can be given up."""
        late = (one for one in self.values() if now_ms - one.triggered_ms >= limit_ms)
        return next((one for one in late if one.phase in GIVEN_UP_IN), None)

    def late_to_align(self, now_ms: int, limit_ms: int) -> PendingCheckpoint | None:
        """The oldest, if it is aligned and its time for that is up; a savepoint stays aligned, and so do all at 0."""
        oldest = next(iter(self.values()), None)
        if not limit_ms or oldest is None or oldest.phase is not Phase.ACKNOWLEDGING:
            return None
        if oldest.asked.unaligned or oldest.asked.directory is not None or now_ms - oldest.triggered_ms < limit_ms:
            return None
        return oldest

    def has_room(self, asked: CheckpointRequest, most: int) -> bool:
        """Return True if another may begin. An unaligned one goes alone, and so does one that all tasks wait for."""
        alone = asked.unaligned or asked.kind in DEMANDED or any(one.asked.unaligned for one in self.values())
        return len(self) < (1 if alone else most)

    def next_to_write(self) -> PendingCheckpoint | None:
        """The oldest that all have acknowledged, if none is being completed."""
        if not {one.phase for one in self.values()}.isdisjoint(_COMPLETING):
            return None
        return next((one for one in self.values() if one.phase is Phase.READY), None)

    def given_up_for(self, reason: Reason) -> list[PendingCheckpoint]:
        """Those that can still be given up; one that all have acknowledged needs no task any more."""
        phases = (Phase.ACKNOWLEDGING,) if reason is Reason.TASK_FAILURE else GIVEN_UP_IN
        return [one for one in self.values() if one.phase in phases]
