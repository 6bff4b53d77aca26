"""The settlement of checkpoints: each is complete and committed in the end, or it fails.

Manifests are written one after the other (rule 2 of `coordinator`). The phases of a checkpoint are in
`pending_checkpoint`, the tries of a commit in `commits`, the completed checkpoints in `completed_checkpoints`.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol.checkpoint_failures import CheckpointFailures
from rekindle.protocol.checkpoint_schedule import Schedule
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.commits import Commits
from rekindle.protocol.completed_checkpoints import CompletedCheckpoints
from rekindle.protocol.pending_checkpoint import PendingCheckpoint, Phase, Settled
from rekindle.protocol.reasons import Reason
from rekindle.protocol.snapshots import Snapshots
from rekindle.protocol.under_way import UnderWay

_Commands = tuple[c.Command, ...]


class Settlement:
    """The manifests, commits and savepoints of one job; `take_settled` returns the checkpoints that have settled."""

    def __init__(self, config: Config, pending: UnderWay, schedule: Schedule, snapshots: Snapshots) -> None:
        self._pending, self._schedule, self._snapshots = pending, schedule, snapshots
        self.completed = CompletedCheckpoints(config)
        self.commits = Commits(config)
        self.failures = CheckpointFailures(config)
        self._settled: list[Settled] = []

    def take_settled(self) -> list[Settled]:
        """Return the checkpoints that have settled since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def write_next(self) -> _Commands:
        """Write the oldest manifest that is ready, if none is being completed (rule 2)."""
        ready = self._pending.next_to_write()
        if ready is None or self.commits.recovering is not None:
            return ()
        ready.move(Phase.WRITING)
        return (
            c.WriteManifest(
                checkpoint=ready.number,
                kind=ready.asked.kind,
                triggered_ms=ready.triggered_ms,
                finished=ready.finished,
                transactions=self._snapshots.covered(ready),
            ),
        )

    def complete(self, now_ms: int, number: int) -> _Commands:
        """Commit a checkpoint whose manifest exists: it is complete, and subsumes periodic ones before it (rule 3)."""
        pending = self._pending.at(number, Phase.WRITING)
        if pending is None:
            return ()
        pending.move(Phase.COMMITTING)
        self.completed.complete(number)
        self.failures.completed()
        older = [one for one in self._pending.values() if one.number < number and one.asked.subsumable]
        subsumed = [self.fail(now_ms, one, Reason.CHECKPOINT_SUBSUMED) for one in older]
        permit = CommitPermit(number)
        self._snapshots.completed(permit)
        return (c.CommitTransactions(permit=permit), *(command for commands in subsumed for command in commands))

    def manifest_failed(self, now_ms: int, number: int, detail: str) -> _Commands:
        """Fail a checkpoint whose manifest could not be written."""
        pending = self._pending.at(number, Phase.WRITING)
        return self.fail(now_ms, pending, Reason.FINALIZE_CHECKPOINT_FAILURE, detail) if pending else ()

    def committed(self, now_ms: int, number: int) -> _Commands:
        """Settle a checkpoint that every sink has committed."""
        pending = self._pending.at(number, Phase.COMMITTING)
        if pending is None and number != self.commits.recovering:
            return ()
        # A try that was called failed may have gone through late: then there is nothing to try again.
        self.commits.succeeded()
        if pending is None:
            return (self.completed.discard_older(), *self.write_next())
        return self._settle(now_ms, pending)

    def commit_failed(self, now_ms: int, number: int) -> bool:
        """Try again later. Return False if there is to be no other try."""
        if number != self.commits.recovering and not self._pending.at(number, Phase.COMMITTING):
            return True
        return self.commits.failed(now_ms)

    def sealed(self, number: int, savepoint: str | None, detail: str = "") -> _Commands:
        """Note that a savepoint is whole, or (None) could not be made; its checkpoint is complete either way."""
        checkpoint = self.completed.sealed(number)
        if checkpoint is None:
            return ()
        self._settled.append(Settled(checkpoint=checkpoint, savepoint=savepoint, detail=detail, sealed=True))
        return (self.completed.discard_older(),)

    def fail(self, now_ms: int, pending: PendingCheckpoint, reason: Reason, detail: str = "") -> _Commands:
        """Give a checkpoint up, and continue with the manifests and barriers that it held up."""
        pending.move(Phase.FAILED)
        del self._pending[pending.number]
        self.completed.failed(pending.number)
        self._schedule.failed(now_ms, pending.asked.kind)
        self.failures.failed(pending.asked, reason, detail)
        self._settled.append(Settled(checkpoint=pending, reason=reason, detail=detail))
        abort = c.AbortCheckpoint(checkpoint=pending.number, reason=reason.explained(detail))
        released = self._snapshots.abort(pending.number)
        return (abort, *released, *self.write_next())

    def _settle(self, now_ms: int, pending: PendingCheckpoint) -> _Commands:
        del self._pending[pending.number]
        self._schedule.settled(now_ms)
        self._settled.append(Settled(checkpoint=pending))
        seal = self.completed.committed(pending)
        return (*seal, self.completed.discard_older(), *self.write_next())
