"""The checkpoints under way, the oldest first, and the choice of the one to expire, overtake, write or give up."""

from __future__ import annotations

from rekindle.protocol.checkpoint_schedule import DEMANDED
from rekindle.protocol.pending_checkpoint import GIVEN_UP_IN, CheckpointRequest, PendingCheckpoint, Phase
from rekindle.protocol.reasons import Reason

_COMPLETING = (Phase.WRITING, Phase.COMMITTING)


class UnderWay(dict[int, PendingCheckpoint]):
    """A dict: number → checkpoint that was triggered and has not settled."""

    def at(self, number: int, phase: Phase) -> PendingCheckpoint | None:
        """Return the checkpoint with this number, if it is in this phase."""
        pending = self.get(number)
        return pending if pending and pending.phase is phase else None

    @property
    def committing(self) -> int | None:
        """The number of the checkpoint that is being committed; None: there is none."""
        return next((one.number for one in self.values() if one.phase is Phase.COMMITTING), None)

    def expired(self, now_ms: int, limit_ms: int) -> PendingCheckpoint | None:
        """Return the oldest checkpoint that takes too long to be acknowledged: what is ready waits for us alone."""
        late = (one for one in self.values() if now_ms - one.triggered_ms >= limit_ms)
        return next((one for one in late if one.phase is Phase.ACKNOWLEDGING), None)

    def late_to_align(self, now_ms: int, limit_ms: int) -> PendingCheckpoint | None:
        """Return the oldest checkpoint if it has aligned for `limit_ms`; None for a savepoint, or a limit of 0."""
        oldest = next(iter(self.values()), None)
        if not limit_ms or oldest is None or oldest.phase is not Phase.ACKNOWLEDGING:
            return None
        if oldest.asked.unaligned or oldest.asked.directory is not None or now_ms - oldest.triggered_ms < limit_ms:
            return None
        return oldest

    def has_room(self, asked: CheckpointRequest, most: int) -> bool:
        """Return True if another may begin. An unaligned one runs alone, and so does one that all tasks wait for."""
        alone = asked.unaligned or asked.kind in DEMANDED or any(one.asked.unaligned for one in self.values())
        return len(self) < (1 if alone else most)

    def next_to_write(self) -> PendingCheckpoint | None:
        """Return the oldest checkpoint that all have acknowledged; None if a manifest is being written or committed."""
        if not {one.phase for one in self.values()}.isdisjoint(_COMPLETING):
            return None
        return next((one for one in self.values() if one.phase is Phase.READY), None)

    def given_up_for(self, reason: Reason) -> list[PendingCheckpoint]:
        """Return the checkpoints to fail for this reason; a failed task fails none that all have acknowledged."""
        phases = (Phase.ACKNOWLEDGING,) if reason is Reason.TASK_FAILURE else GIVEN_UP_IN
        return [one for one in self.values() if one.phase in phases]
