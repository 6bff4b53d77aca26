"""The choice of the next checkpoint: requests in their order, then periodic checkpoints when they are due.

A checkpoint that all tasks wait for (a stop, a final checkpoint) comes first. Requests wait in a queue, savepoints
before manual checkpoints, then by age. If too many wait, the last one is dropped. Periodic checkpoints come last; their
times are in `periodic`.

This module does not know whether there is room for a checkpoint, or which subtasks take part.
"""

from __future__ import annotations

from rekindle.config import Config
from rekindle.protocol.pending_checkpoint import CheckpointRequest
from rekindle.protocol.periodic import Periodic
from rekindle.protocol.reasons import CheckpointKind

QUEUE_LIMIT = 100
"""The number of requests that may wait at a time."""

DEMANDED = (CheckpointKind.STOP, CheckpointKind.FINAL)
"""Kinds of checkpoints that all tasks wait for."""

_ORDER = {CheckpointKind.SAVEPOINT: 0, CheckpointKind.MANUAL: 1}


class Schedule:
    """The requests that wait, and the times before which no checkpoint is taken."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.queue: list[CheckpointRequest] = []
        self.periodic = Periodic(config.checkpoint_interval_ms, config.checkpoint_interval_during_backlog_ms)
        #: time before which a failed final or stop checkpoint is not tried again
        self.not_before_ms = 0

    @property
    def unaligned(self) -> bool:
        """Return whether checkpoints are unaligned by default."""
        return self._config.checkpoint_mode == "unaligned"

    def ask(self, asked: CheckpointRequest) -> CheckpointRequest | None:
        """Queue a request; return the request that is dropped because too many wait, or None."""
        self.queue.append(asked)
        self.queue.sort(key=lambda item: _ORDER[item.kind])
        return self.queue.pop() if len(self.queue) > QUEUE_LIMIT else None

    def take_queue(self) -> list[CheckpointRequest]:
        """Return the requests that wait, and empty the queue."""
        queue, self.queue = self.queue, []
        return queue

    def next(
        self, now_ms: int, demanded: CheckpointRequest | None, *, periodic: bool, sealing: bool
    ) -> CheckpointRequest | None:
        """Return the checkpoint to take now; None: none is wanted yet.

        Args:
            demanded: the checkpoint that all tasks wait for; None: they wait for none.
            periodic: True if periodic checkpoints are taken.
            sealing: True while a savepoint is being made: no other begins meanwhile.
        """
        if demanded is not None:
            return demanded if now_ms >= self.not_before_ms else None
        waiting = next((one for one in self.queue if one.directory is None or not sealing), None)
        if waiting is not None:
            return waiting
        if periodic and self.periodic.interval_ms and now_ms >= self.periodic.due_ms:
            return CheckpointRequest(kind=CheckpointKind.PERIODIC, unaligned=self.unaligned)
        return None

    def triggered(self, now_ms: int, asked: CheckpointRequest) -> None:
        """Note that the checkpoint that `next` returned is taken."""
        if asked.kind is CheckpointKind.PERIODIC:
            self.periodic.taken(now_ms)
        elif asked.kind not in DEMANDED:
            self.queue.remove(asked)

    def failed(self, now_ms: int, kind: CheckpointKind) -> None:
        """Note that a checkpoint has failed: one that all tasks wait for is tried again after a pause."""
        if kind in DEMANDED:
            self.not_before_ms = now_ms + self._config.restart_delay_ms

    def settled(self, now_ms: int) -> None:
        """Note that a checkpoint is committed: the next periodic one keeps the minimum pause."""
        self.periodic.pause(now_ms + self._config.checkpoint_min_pause_ms)

    def wait(self, until_ms: int) -> None:
        """Take no checkpoint before this time, except those that a user asks for."""
        self.not_before_ms = max(self.not_before_ms, until_ms)
        self.periodic.pause(until_ms)
