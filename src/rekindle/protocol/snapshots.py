"""The snapshots of the subtasks: barriers cut the batches of each, and assign them to checkpoints.

A batch record is the pre-commit, in `commit`; the place of a barrier is in `barriers`. A snapshot is both in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rekindle.graph.topology import Topology
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.barriers import Barriers
from rekindle.protocol.commit import CommitPermit, Transactions
from rekindle.protocol.events import RestoredTask
from rekindle.protocol.pending_checkpoint import PendingCheckpoint
from rekindle.protocol.under_way import UnderWay

_Commands = tuple[c.Command, ...]


class Snapshots:
    """The batches of every subtask, cut by the checkpoints under way."""

    def __init__(self, topology: Topology, pending: UnderWay) -> None:
        self.barriers = Barriers(topology)
        self._pending = pending
        #: number of events that report that a task has called ``finish()``
        self._ends = 0
        #: subtask → its transactions that no checkpoint has committed
        self._transactions = {task: Transactions() for task in self.barriers.batches}

    def restore(self, task: SubtaskId, fact: RestoredTask) -> None:
        """Take in the state of a subtask when the driver starts."""
        self.barriers.restore(task, fact.batch, fact.read)
        self._transactions[task] = Transactions(after=fact.committed)
        self._transactions[task].written(fact.batch)
        if fact.closed or fact.ended:
            self._transactions[task].finished()

    def recorded(self, task: SubtaskId, batch: int, read: Mapping[SubtaskId, int]) -> _Commands:
        """Note that a batch is durable: it is part of the open transaction."""
        self._transactions[task].written(batch)
        return self._pre_commit(self.barriers.recorded(task, batch, read))

    def finished(self, task: SubtaskId) -> None:
        """Note that a task has called ``finish()``: its open transaction is its last."""
        self._ends += 1
        self._transactions[task].finished()

    @property
    def changes(self) -> int:
        """A count of changes; while it stays the same, another checkpoint would be equal to the one before it."""
        return self.barriers.changes + self._ends

    def closed(self, task: SubtaskId) -> _Commands:
        """Note that a task is closed: its channels have ended."""
        self._transactions[task].closed()
        return self._pre_commit(self.barriers.closed(task))

    def trigger(self, checkpoint: int, roots: Iterable[SubtaskId], unaligned: bool) -> _Commands:
        """Begin a checkpoint at the roots."""
        return self._pre_commit(self.barriers.trigger(checkpoint, roots, unaligned))

    def overtake(self, checkpoint: int) -> _Commands:
        """Let an aligned checkpoint, the oldest one pending, continue unaligned."""
        return self._pre_commit(self.barriers.overtake(checkpoint))

    def abort(self, checkpoint: int) -> _Commands:
        """Take the barriers of a checkpoint away; the next one commits the transactions pre-committed for it."""
        return self._pre_commit(self.barriers.abort(checkpoint))

    def covered(self, checkpoint: PendingCheckpoint) -> dict[SubtaskId, tuple[int, int]]:
        """Return subtask → first and last batch that the manifest of a checkpoint names, if it names any."""
        covered = {task: self._transactions[task].covered(checkpoint.number) for task in sorted(checkpoint.batches)}
        return {task: (due[0].first, due[-1].last) for task, due in covered.items() if due}

    def completed(self, permit: CommitPermit) -> None:
        """Note that a checkpoint is complete: the transactions pre-committed for it are to be committed."""
        for transactions in self._transactions.values():
            transactions.completed(permit)

    def _pre_commit(self, commands: _Commands) -> _Commands:
        """Pre-commit the batches that belong to the snapshots among these commands; return the commands."""
        for command in commands:
            if isinstance(command, c.TakeSnapshot):
                self._transactions[command.task].snapshot(command.checkpoint, upto=command.batch)
                if self._transactions[command.task].has_finished:
                    self._pending[command.checkpoint].ended.add(command.task)
        return commands
