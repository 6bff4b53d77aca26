"""The checkpoints that are complete and committed: the newest, which of them are pinned, which are discarded.

Flink's ``CompletedCheckpointStore``. A checkpoint of which a savepoint is being made is settled, and pinned until that
is whole: nothing waits for it but who asked.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol.pending_checkpoint import PendingCheckpoint, Phase


class CompletedCheckpoints:
    """What is kept of the checkpoints of a job."""

    def __init__(self, config: Config) -> None:
        self._retained = config.checkpoint_retained
        #: number of the newest one whose manifest exists
        self.latest: int | None = None
        #: `Snapshots.changes` that are in the newest one that is committed; None: this run has committed none
        self.changes: int | None = None
        #: when that one was last found to say all that another would; None: it was not
        self.confirmed_ms: int | None = None
        #: checkpoint under way → the changes that there had been when it was triggered: all of them are in it
        self._triggered: dict[int, int] = {}
        #: those that are settled and of which a savepoint is being made
        self.sealing: dict[int, PendingCheckpoint] = {}

    def triggered(self, number: int, changes: int) -> None:
        """Note that a checkpoint is triggered when there have been so many changes."""
        self._triggered[number] = changes

    def failed(self, number: int) -> None:
        """Note that one has failed."""
        self._triggered.pop(number)

    def complete(self, number: int) -> None:
        """Note that a manifest exists."""
        self.latest = max(number, self.latest or 0)

    def committed(self, checkpoint: PendingCheckpoint) -> tuple[c.Command, ...]:
        """Take in one that is committed; return the order to seal the savepoint that was asked for with it."""
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
        """Unpin a checkpoint whose savepoint is whole, or could not be made; None where none was being made."""
        checkpoint = self.sealing.pop(number, None)
        if checkpoint is not None:
            checkpoint.move(Phase.COMPLETE)
        return checkpoint

    def discard_older(self) -> c.DiscardOlder:
        """After each commit; a driver that died in between has left it to the start of the next.

        The newest is kept whatever the setting says: the job resumes from it (FLIP-45).
        """
        return c.DiscardOlder(keep=max(1, self._retained), pinned=tuple(self.sealing))
