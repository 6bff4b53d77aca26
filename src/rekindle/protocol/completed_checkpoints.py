"""The checkpoints that are complete and committed: the newest, those that are pinned, and those to discard.

This is Flink's ``CompletedCheckpointStore``. A checkpoint of which a savepoint is being made is settled, and pinned
until the savepoint is whole: only the request for it waits.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol.pending_checkpoint import PendingCheckpoint, Phase


class CompletedCheckpoints:
    """The completed checkpoints of a job, as far as they are remembered."""

    def __init__(self, config: Config) -> None:
        self._retained = config.checkpoint_retained
        #: number of the newest checkpoint whose manifest exists
        self.latest: int | None = None
        #: `Snapshots.changes` that the newest committed checkpoint covers; None: this run has committed none
        self.changes: int | None = None
        #: time at which that one was last found to be still up to date; None: it was not
        self.confirmed_ms: int | None = None
        #: checkpoint under way → number of changes when it was triggered: all of them are in it
        self._triggered: dict[int, int] = {}
        #: settled checkpoints of which a savepoint is being made
        self.sealing: dict[int, PendingCheckpoint] = {}

    def triggered(self, number: int, changes: int) -> None:
        """Note that a checkpoint is triggered, and the number of changes until then."""
        self._triggered[number] = changes

    def failed(self, number: int) -> None:
        """Note that a checkpoint has failed."""
        self._triggered.pop(number)

    def complete(self, number: int) -> None:
        """Note that the manifest of a checkpoint exists."""
        self.latest = max(number, self.latest or 0)

    def committed(self, checkpoint: PendingCheckpoint) -> tuple[c.Command, ...]:
        """Take in a committed checkpoint; return the order to seal the savepoint that was asked for with it, if any."""
        # One that was triggered before may be committed after it: a savepoint is not subsumed.
        self.changes, self.confirmed_ms = max(self._triggered.pop(checkpoint.number), self.changes or 0), None
        directory = checkpoint.asked.directory
        if directory is None:
            checkpoint.move(Phase.COMPLETE)
            return ()
        checkpoint.move(Phase.SEALING)
        self.sealing[checkpoint.number] = checkpoint
        return (c.SealSavepoint(checkpoint=checkpoint.number, directory=directory),)

    def sealed(self, number: int) -> PendingCheckpoint | None:
        """Unpin and return a checkpoint whose savepoint is whole, or could not be made; None: none was being made."""
        checkpoint = self.sealing.pop(number, None)
        if checkpoint is not None:
            checkpoint.move(Phase.COMPLETE)
        return checkpoint

    def discard_older(self) -> c.DiscardOlder:
        """Order to discard older checkpoints, after each commit and at the start of a driver.

        The newest checkpoint is kept whatever the setting says: the job resumes from it (FLIP-45).
        """
        return c.DiscardOlder(keep=max(1, self._retained), pinned=tuple(self.sealing))
