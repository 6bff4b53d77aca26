"""The commit that is under way: it is tried again until it succeeds, or the restart strategy allows no more tries.

At most one is under way: the next manifest is written only after it.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.restarts import Restarts


class Commits:
    """The tries to commit the transactions that the newest manifest names."""

    def __init__(self, config: Config) -> None:
        #: checkpoint whose transactions recovery is committing; None: recovery is done
        self.recovering: int | None = None
        #: time at which a failed commit is tried again; None: no try is due
        self.again_ms: int | None = None
        self._tries = Restarts(config)

    def recover(self, checkpoint: int) -> c.CommitTransactions:
        """Commit the transactions that an earlier run has left."""
        self.recovering = checkpoint
        return c.CommitTransactions(permit=CommitPermit(checkpoint))

    def due(self, now_ms: int) -> bool:
        """Return True if another try is due."""
        return self.again_ms is not None and now_ms >= self.again_ms

    def again(self, committing: int | None) -> c.CommitTransactions:
        """Try again to commit the checkpoint `committing` of this run; None: the one that recovery commits."""
        self.again_ms = None
        return c.CommitTransactions(permit=CommitPermit(committing or self.recovering or 0))

    def failed(self, now_ms: int) -> bool:
        """Try again later. Return False if there is to be no other try."""
        pause_ms = self._tries.failed(now_ms)
        self.again_ms = None if pause_ms is None else now_ms + pause_ms
        return pause_ms is not None

    def succeeded(self) -> None:
        """Note that all is committed, and plan no more tries: one that was reported failed may have succeeded late."""
        self.recovering = self.again_ms = None
        self._tries.progressed()
