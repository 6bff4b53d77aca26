"""The checkpoint coordinator: what is taken when, who has acknowledged, what is complete.

Theory of operation
-------------------

1. A checkpoint is *complete* once its manifest exists. What a pending one goes through stands in `pending_checkpoint`,
   how its barriers flow in `barriers`, who takes part in `checkpoint_plan`.
2. Manifests are written one after the other, each only when the transactions of the one before are committed, so that
   only the newest can name transactions that are not. Recovery begins with committing those (`commits`).
3. Several aligned checkpoints may be under way at a time (`checkpoint.max_concurrent`). An unaligned one goes alone,
   and so does one that all tasks wait for (stop, final): it waits for those that are pending, it does not cancel them.
   A checkpoint that is complete *subsumes* the periodic ones before it.
4. What is asked for, and when the next one is due, is in `checkpoint_schedule`.
5. A savepoint shares its barrier with a checkpoint and is sealed after that one has committed. That may take long, and
   nothing waits for it but who asked: the checkpoint is settled, and pinned until its savepoint is sealed. No other
   savepoint begins meanwhile, except that of a stop.
6. Union-list state is whole or not in a checkpoint at all (`operator_state.check_union`).
7. A task that fails, or is closed before it has acknowledged, fails the checkpoint at once, not at the time-out.
8. Failures are counted in `checkpoint_failures`. Too many fail the job over: its tasks start again, as the restart
   strategy says (`rules`).

This module does not know why a job stops, what a task does, or what a snapshot holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.config import Config
from rekindle.graph.topology import Topology
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.barriers import Barriers
from rekindle.protocol.checkpoint_failures import CheckpointFailures
from rekindle.protocol.checkpoint_plan import CheckpointPlan, named, plan_of
from rekindle.protocol.checkpoint_schedule import Schedule
from rekindle.protocol.commit import CommitPermit, Transactions
from rekindle.protocol.commits import Commits
from rekindle.protocol.completed_checkpoints import CompletedCheckpoints
from rekindle.protocol.events import RestoredTask
from rekindle.protocol.operator_state import check_union
from rekindle.protocol.pending_checkpoint import CheckpointRequest, PendingCheckpoint, Phase, Settled
from rekindle.protocol.reasons import Reason
from rekindle.protocol.states import TaskStatus
from rekindle.protocol.under_way import UnderWay

_Commands = tuple[c.Command, ...]


class Coordinator:
    """State of the coordinator. Its methods return commands; what has settled is taken by `take_settled`."""

    def __init__(self, config: Config, topology: Topology) -> None:
        self._config = config
        self._topology = topology
        self.schedule = Schedule(config)
        self.barriers = Barriers(topology)
        #: what each subtask has written and no checkpoint has committed
        self._transactions = {task: Transactions() for task in self.barriers.batches}
        #: number of the next checkpoint; numbers are never used twice
        self.next_number = 1
        self.pending = UnderWay()
        self.completed = CompletedCheckpoints(config)
        self.commits = Commits(config)
        self.failures = CheckpointFailures(config)
        self._settled: list[Settled] = []

    def start(self, now_ms: int, next_number: int, latest: int | None, committed: bool) -> _Commands:
        """Begin with what the storage holds: what the newest manifest left to commit is committed first (rule 2), and
        what the driver before has not cleaned up is."""
        self.next_number, self.completed.latest = next_number, latest
        self.schedule.begin(now_ms)
        if latest is None or committed:
            return () if latest is None else (self.completed.discard_older(),)
        return (self.commits.recover(latest),)

    def take_settled(self) -> list[Settled]:
        """Return what has settled since this was asked for last."""
        settled, self._settled = self._settled, []
        return settled

    def finished(self, task: SubtaskId) -> None:
        """Note that a task has called ``finish()``: what it has written is its last transaction."""
        self._transactions[task].finished()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is under way or transactions are still to be committed."""
        return bool(self.pending) or self.commits.recovering is not None

    # -- what follows from time and the tasks' statuses ----------------------------------------------------------------

    def advance(
        self, now_ms: int, statuses: Mapping[SubtaskId, TaskStatus], demanded: CheckpointRequest | None, periodic: bool
    ) -> _Commands:
        """Do the next thing that is due: expire, overtake, retry a commit, trigger.

        `demanded`: the checkpoint that all tasks wait for, None where they wait for none.
        """
        expired = self.pending.expired(now_ms, self._config.checkpoint_timeout_ms)
        if expired is not None:
            return self._fail(now_ms, expired, Reason.CHECKPOINT_EXPIRED)
        if self.commits.due(now_ms):
            return (self.commits.again(self.pending.committing),)
        return self._overtake(now_ms) or self._trigger_next(now_ms, statuses, demanded, periodic)

    def _overtake(self, now_ms: int) -> _Commands:
        """Let the oldest aligned checkpoint continue unaligned once its time is up; a savepoint stays aligned."""
        oldest = self.pending.late_to_align(now_ms, self._config.checkpoint_aligned_timeout_ms)
        if oldest is None:
            return ()
        oldest.asked.unaligned = True
        return self._snapshots(self.barriers.overtake(oldest.number))

    def _trigger_next(
        self, now_ms: int, statuses: Mapping[SubtaskId, TaskStatus], demanded: CheckpointRequest | None, periodic: bool
    ) -> _Commands:
        asked = self.schedule.next(now_ms, demanded, periodic=periodic, sealing=bool(self.completed.sealing))
        most = self._config.checkpoint_max_concurrent
        if asked is None or self.commits.recovering is not None or not self.pending.has_room(asked, most):
            return ()
        planned = plan_of(self._topology, statuses, after_tasks_finish=self._config.checkpoint_after_tasks_finish)
        if planned is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING:
            return ()
        self.schedule.triggered(now_ms, asked)
        return self._trigger(now_ms, planned, asked)

    def _trigger(self, now_ms: int, planned: CheckpointPlan | Reason, asked: CheckpointRequest) -> _Commands:
        number, self.next_number = self.next_number, self.next_number + 1
        plan = CheckpointPlan({}, {}) if isinstance(planned, Reason) else planned
        pending = self.pending[number] = PendingCheckpoint(
            number=number,
            asked=asked,
            triggered_ms=now_ms,
            awaited=set(named(plan.to_wait_for)),
            finished=named(plan.finished),
        )
        if isinstance(planned, Reason):
            return self._fail(now_ms, pending, planned)
        return self._snapshots(self.barriers.trigger(number, named(plan.to_trigger), asked.unaligned))

    # -- what has happened ---------------------------------------------------------------------------------------------

    def restore(self, task: SubtaskId, fact: RestoredTask) -> None:
        """Where a subtask stands when the driver starts."""
        self.barriers.restore(task, fact.batch, fact.read)
        self._transactions[task] = Transactions(after=fact.committed)
        self._transactions[task].written(fact.batch)
        if fact.closed or fact.ended:
            self._transactions[task].finished()

    def recorded(self, task: SubtaskId, batch: int, read: Mapping[SubtaskId, int]) -> _Commands:
        """A batch is durable: it is part of the transaction that is open."""
        self._transactions[task].written(batch)
        return self._snapshots(self.barriers.recorded(task, batch, read))

    def acknowledge(self, now_ms: int, task: SubtaskId, number: int, batch: int, uses_union: bool) -> _Commands:
        """A snapshot was taken; late and repeated ones change nothing."""
        pending = self.pending.at(number, Phase.ACKNOWLEDGING)
        if pending is None:
            return ()
        pending.acknowledge(task, batch, uses_union)
        violation = check_union(pending.closing(self._topology)) if pending.phase is Phase.READY else None
        if violation is not None:
            return self._fail(now_ms, pending, violation.reason, violation.detail)
        return self._write_next()

    def decline(self, now_ms: int, number: int, detail: str) -> _Commands:
        """A task could not take its snapshot."""
        pending = self.pending.at(number, Phase.ACKNOWLEDGING)
        return self._fail(now_ms, pending, Reason.CHECKPOINT_DECLINED, detail) if pending else ()

    def closed(self, now_ms: int, task: SubtaskId) -> _Commands:
        """A task has finished (rule 7)."""
        missed = [one for one in self.pending.values() if task in one.awaited]
        failed = [self._fail(now_ms, one, Reason.TASK_FINISHED_MEANWHILE, str(task)) for one in missed]
        self._transactions[task].closed()
        passed_on = self._snapshots(self.barriers.closed(task))
        return (*(command for commands in failed for command in commands), *passed_on)

    def complete(self, now_ms: int, number: int) -> _Commands:
        """The manifest exists: the checkpoint is complete, commit; it subsumes periodic ones before it (rule 3)."""
        pending = self.pending.at(number, Phase.WRITING)
        if pending is None:
            return ()
        pending.move(Phase.COMMITTING)
        self.completed.complete(number)
        self.failures.completed()
        older = [one for one in self.pending.values() if one.number < number and one.asked.subsumable]
        subsumed = [self._fail(now_ms, one, Reason.CHECKPOINT_SUBSUMED) for one in older]
        permit = CommitPermit(number)
        for transactions in self._transactions.values():
            transactions.completed(permit)
        return (c.CommitTransactions(permit=permit), *(command for commands in subsumed for command in commands))

    def manifest_failed(self, now_ms: int, number: int, detail: str) -> _Commands:
        """The manifest could not be written."""
        pending = self.pending.at(number, Phase.WRITING)
        return self._fail(now_ms, pending, Reason.FINALIZE_CHECKPOINT_FAILURE, detail) if pending else ()

    def committed(self, now_ms: int, number: int) -> _Commands:
        """Every sink has committed."""
        pending = self.pending.at(number, Phase.COMMITTING)
        if pending is None and number != self.commits.recovering:
            return ()
        # A try that was called failed may have gone through late: then there is nothing to try again.
        self.commits.succeeded()
        if pending is None:
            return (self.completed.discard_older(), *self._write_next())
        return self._settle(now_ms, pending)

    def commit_failed(self, now_ms: int, number: int) -> bool:
        """Try again later. Return False if there is to be no other try."""
        if number != self.commits.recovering and not self.pending.at(number, Phase.COMMITTING):
            return True
        return self.commits.failed(now_ms)

    def wait(self, until_ms: int) -> None:
        """Too many checkpoints have failed: the count begins again, and none is triggered before."""
        self.failures.begin_again()
        self.schedule.wait(until_ms)

    def sealed(self, number: int, savepoint: str | None, detail: str = "") -> _Commands:
        """The savepoint is whole, or (None) could not be made; its checkpoint is complete either way."""
        checkpoint = self.completed.sealed(number)
        if checkpoint is None:
            return ()
        self._settled.append(Settled(checkpoint=checkpoint, savepoint=savepoint, detail=detail, sealed=True))
        return (self.completed.discard_older(),)

    def give_up(self, now_ms: int, reason: Reason, detail: str = "") -> _Commands:
        """Fail every checkpoint that can still be given up; one that all have acknowledged needs no task any more."""
        open_ones = self.pending.given_up_for(reason)
        return tuple(command for one in open_ones for command in self._fail(now_ms, one, reason, detail))

    def _fail(self, now_ms: int, pending: PendingCheckpoint, reason: Reason, detail: str = "") -> _Commands:
        pending.move(Phase.FAILED)
        del self.pending[pending.number]
        self.schedule.failed(now_ms, pending.asked.kind)
        self.failures.failed(pending.asked, reason, detail)
        self._settled.append(Settled(checkpoint=pending, reason=reason, detail=detail))
        abort = c.AbortCheckpoint(checkpoint=pending.number, reason=reason.explained(detail))
        released = self._snapshots(self.barriers.abort(pending.number))
        return (abort, *released, *self._write_next())

    def _snapshots(self, commands: _Commands) -> _Commands:
        """Pre-commit what belongs to the snapshots that are ordered."""
        for command in commands:
            if isinstance(command, c.TakeSnapshot):
                self._transactions[command.task].snapshot(command.checkpoint, upto=command.batch)
                if self._transactions[command.task].has_finished:
                    self.pending[command.checkpoint].ended.add(command.task)
        return commands

    def _write_next(self) -> _Commands:
        """Write the oldest manifest that is ready, if none is being completed (rule 2)."""
        ready = self.pending.next_to_write()
        if ready is None or self.commits.recovering is not None:
            return ()
        ready.move(Phase.WRITING)
        covered = {task: self._transactions[task].covered(ready.number) for task in sorted(ready.batches)}
        return (
            c.WriteManifest(
                checkpoint=ready.number,
                kind=ready.asked.kind,
                triggered_ms=ready.triggered_ms,
                finished=ready.finished,
                transactions={task: (due[0].first, due[-1].last) for task, due in covered.items() if due},
            ),
        )

    def _settle(self, now_ms: int, pending: PendingCheckpoint) -> _Commands:
        del self.pending[pending.number]
        self.schedule.settled(now_ms)
        self._settled.append(Settled(checkpoint=pending))
        seal = self.completed.committed(pending)
        return (*seal, self.completed.discard_older(), *self._write_next())
