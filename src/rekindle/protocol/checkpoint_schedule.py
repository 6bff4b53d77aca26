"""Which checkpoint is wanted next: requests in their order, periodic ones when they are due, no sooner than they may.

What all tasks wait for (a stop, a final checkpoint) comes first. Requests wait in a queue, ordered savepoint > manual
and then by age; of too many the last is dropped. Last come periodic ones.

This module does not know whether there is room for a checkpoint, or who takes part.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol.pending_checkpoint import CheckpointRequest
from rekindle.protocol.reasons import CheckpointKind

QUEUE_LIMIT = 100
"""Requests that may wait at a time."""

DEMANDED = (CheckpointKind.STOP, CheckpointKind.FINAL)
"""What all tasks wait for."""

_ORDER = {CheckpointKind.SAVEPOINT: 0, CheckpointKind.MANUAL: 1}


class Schedule:
    """The requests that wait, and the times before which nothing is taken."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.queue: list[CheckpointRequest] = []
        #: when a periodic one may next be taken
        self.periodic_due_ms = 0
        #: a failed final or stop checkpoint is not tried again before
        self.not_before_ms = 0

    def begin(self, now_ms: int) -> None:
        """Begin to count at the start of a run."""
        self.periodic_due_ms = now_ms + self._config.checkpoint_interval_ms

    @property
    def unaligned(self) -> bool:
        """Whether checkpoints are unaligned unless something else is asked for."""
        return self._config.checkpoint_mode == "unaligned"

    def ask(self, asked: CheckpointRequest) -> CheckpointRequest | None:
        """Queue a request; returns the one that is dropped, where there are too many."""
        self.queue.append(asked)
        self.queue.sort(key=lambda item: _ORDER[item.kind])
        return self.queue.pop() if len(self.queue) > QUEUE_LIMIT else None

    def take_queue(self) -> list[CheckpointRequest]:
        """Return the requests that wait, which wait no more."""
        queue, self.queue = self.queue, []
        return queue

    def next(
        self, now_ms: int, demanded: CheckpointRequest | None, *, periodic: bool, sealing: bool
    ) -> CheckpointRequest | None:
        """Return what is wanted now; `sealing`: a savepoint is being made, and no other begins meanwhile."""
        if demanded is not None:
            return demanded if now_ms >= self.not_before_ms else None
        waiting = next((one for one in self.queue if one.directory is None or not sealing), None)
        if waiting is not None:
            return waiting
        if periodic and self._config.checkpoint_interval_ms and now_ms >= self.periodic_due_ms:
            return CheckpointRequest(kind=CheckpointKind.PERIODIC, unaligned=self.unaligned)
        return None

    def triggered(self, now_ms: int, asked: CheckpointRequest) -> None:
        """Note that what `next` returned is taken."""
        if asked.kind is CheckpointKind.PERIODIC:
            self.begin(now_ms)
        elif asked.kind not in DEMANDED:
            self.queue.remove(asked)

    def failed(self, now_ms: int, kind: CheckpointKind) -> None:
        """Note that one has failed: what all tasks wait for is tried again after a pause."""
        if kind in DEMANDED:
            self.not_before_ms = now_ms + self._config.restart_delay_ms

    def settled(self, now_ms: int) -> None:
        """Note that one is committed: periodic ones keep their distance."""
        self.periodic_due_ms = max(self.periodic_due_ms, now_ms + self._config.checkpoint_min_pause_ms)

    def wait(self, until_ms: int) -> None:
        """Let none be taken before, except those asked for."""
        self.not_before_ms = max(self.not_before_ms, until_ms)
        self.periodic_due_ms = max(self.periodic_due_ms, until_ms)
