"""The checkpoints that failed in a row: how many a job tolerates, and when it starts again because of them.

They are counted as Flink counts them (its ``CheckpointFailureManager``): by reason, reset by a success. A checkpoint
that a user asked for and that the job can do without (a savepoint, a stop) is not counted: the answer reports its
failure.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol.pending_checkpoint import CheckpointRequest
from rekindle.protocol.reasons import Reason
from rekindle.protocol.restarts import Restarts


class CheckpointFailures:
    """The failures of the checkpoints of one job."""

    def __init__(self, config: Config) -> None:
        self.tolerable = config.checkpoint_tolerable_failures
        #: failures in a row, of those that count
        self.count = 0
        #: reason of the last failure, in words
        self.last = ""
        #: restarts of the job after too many failures; a complete checkpoint is progress
        self.restarts = Restarts(config)

    @property
    def too_many(self) -> bool:
        """Return whether more checkpoints have failed in a row than the job tolerates."""
        return self.count > self.tolerable

    def failed(self, asked: CheckpointRequest, reason: Reason, detail: str) -> None:
        """Count a checkpoint that has failed, if both its reason and its request count."""
        if reason.counts and asked.counts:
            self.count += 1
            self.last = reason.explained(detail)

    def completed(self) -> None:
        """Note that a checkpoint is complete."""
        self.count = 0
        self.restarts.progressed()

    def begin_again(self) -> None:
        """Count from 0 again: too many have failed, and the job starts again."""
        self.count = 0
