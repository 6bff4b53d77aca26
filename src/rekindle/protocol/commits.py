"""The commit that is under way: it is tried again until it succeeds, or the restart strategy says no.

At most one is under way: the next manifest is written only after it.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol import commands as c
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.restarts import Restarts


class Commits:
    """The tries to commit what the newest manifest names."""

    def __init__(self, config: Config) -> None:
        #: checkpoint whose transactions recovery is committing
        self.recovering: int | None = None
        #: when a failed commit is tried again
        self.again_ms: int | None = None
        self._tries = Restarts(config)

    def recover(self, checkpoint: int) -> c.CommitTransactions:
        """Commit what an earlier run has left."""
        self.recovering = checkpoint
        return c.CommitTransactions(permit=CommitPermit(checkpoint))

    def due(self, now_ms: int) -> bool:
        """Return True if another try is due."""
        return self.again_ms is not None and now_ms >= self.again_ms

    def again(self, committing: int | None) -> c.CommitTransactions:
        """Try again; `committing`: the checkpoint of this run that is, None where recovery is."""
        self.again_ms = None
        return c.CommitTransactions(permit=CommitPermit(committing or self.recovering or 0))

    def failed(self, now_ms: int) -> bool:
        """Try again later. Return False if there is to be no other try."""
        pause_ms = self._tries.failed(now_ms)
        self.again_ms = None if pause_ms is None else now_ms + pause_ms
        return pause_ms is not None

    def succeeded(self) -> None:
        """Note that all is committed. A try that was called failed may have gone through late: none follows."""
        self.recovering = self.again_ms = None
        self._tries.progressed()
