"""The checkpoint coordinator: it triggers checkpoints, collects acknowledgements, and knows which are complete.

Theory of operation
-------------------

1. A checkpoint is *complete* once its manifest exists. The phases of a pending one are in `pending_checkpoint`, its
   barriers in `barriers`, the subtasks that take part in `checkpoint_plan`.
2. Manifests are written one after the other, each only when the transactions of the one before are committed, so that
   only the newest can name transactions that are not. Recovery begins with committing those (`commits`).
3. Several aligned checkpoints may be under way at a time (`checkpoint.max_concurrent`). An unaligned one goes alone,
   and so does one that all tasks wait for (stop, final): it waits for those that are pending, it does not cancel them.
   A checkpoint that is complete *subsumes* the periodic ones before it.
4. The requests, and when the next checkpoint is due, are in `checkpoint_schedule`.
5. A savepoint shares its barrier with a checkpoint and is sealed after that one has committed. That may take long, and
   only the request waits for it: the checkpoint is settled, and pinned until its savepoint is sealed. No other
   savepoint begins meanwhile, except that of a stop.
6. Union-list state is whole or not in a checkpoint at all (`operator_state.check_union`).
7. A task that fails, or is closed before it has acknowledged, fails the checkpoint at once, not at the time-out.
8. After a recovery the first rows for a sink do not wait for an interval (`periodic`).
9. A periodic checkpoint is left out where it would say what the newest one says: nothing was recorded, read, ended or
   closed since. What is asked for, and what all tasks wait for, is always taken. The first of a run is too.
10. Failures are counted in `checkpoint_failures`. Too many fail the job over: its tasks start again, as the restart
   strategy says (`rules`).

This module does not know why a job stops, what a task does, or what a snapshot holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rekindle.config import Config
from rekindle.graph.topology import Topology
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.checkpoint_plan import CheckpointPlan, named, plan_of
from rekindle.protocol.checkpoint_schedule import Schedule
from rekindle.protocol.operator_state import check_union
from rekindle.protocol.pending_checkpoint import CheckpointRequest, PendingCheckpoint, Phase
from rekindle.protocol.reasons import CheckpointKind, Reason
from rekindle.protocol.settlement import Settlement
from rekindle.protocol.snapshots import Snapshots
from rekindle.protocol.states import TaskStatus
from rekindle.protocol.under_way import UnderWay

_Commands = tuple[c.Command, ...]

Statuses = Callable[[], Mapping[SubtaskId, TaskStatus]]


class Coordinator:
    """The checkpoints of a job, from trigger to commit; its methods return commands."""

    def __init__(self, config: Config, topology: Topology) -> None:
        self._config = config
        self._topology = topology
        self.schedule = Schedule(config)
        #: number of the next checkpoint; numbers are never used twice
        self.next_number = 1
        self.pending = UnderWay()
        self.snapshots = Snapshots(topology, self.pending)
        self.settlement = Settlement(config, self.pending, self.schedule, self.snapshots)

    def start(self, now_ms: int, next_number: int, latest: int | None, *, committed: bool, recovers: bool) -> _Commands:
        """Begin with the state of the storage: commit what the newest manifest has left (rule 2), else clean up.

        Args:
            latest: the newest checkpoint; None: there is none.
            committed: True if all transactions of `latest` are committed.
            recovers: True if the job has had batches before.
        """
        self.next_number, self.settlement.completed.latest = next_number, latest
        self.schedule.periodic.begin(now_ms, recovers=recovers)
        if latest is None or committed:
            return () if latest is None else (self.settlement.completed.discard_older(),)
        return (self.settlement.commits.recover(latest),)

    @property
    def busy(self) -> bool:
        """Return whether a checkpoint is under way or transactions are still to be committed."""
        return bool(self.pending) or self.settlement.commits.recovering is not None

    # -- what follows from time and the tasks' statuses ----------------------------------------------------------------

    def advance(self, now_ms: int, statuses: Statuses, demanded: CheckpointRequest | None, periodic: bool) -> _Commands:
        """Do the next thing that is due: expire, give up what cannot be whole, overtake, retry a commit, trigger.

        Args:
            statuses: called for the status of each subtask where a checkpoint is to be triggered.
            demanded: the checkpoint that all tasks wait for; None: they wait for none.
            periodic: True if periodic checkpoints are taken.
        """
        expired = self.pending.expired(now_ms, self._config.checkpoint_timeout_ms)
        if expired is not None:
            return self.settlement.fail(now_ms, expired, Reason.CHECKPOINT_EXPIRED)
        passed = self.snapshots.barriers.passed()
        if passed is not None:
            return self.decline(now_ms, passed, "a task has read past its barrier, as an earlier driver had planned")
        if self.settlement.commits.due(now_ms):
            return (self.settlement.commits.again(self.pending.committing),)
        return self._overtake(now_ms) or self._trigger_next(now_ms, statuses, demanded, periodic)

    def _overtake(self, now_ms: int) -> _Commands:
        """Let the oldest aligned checkpoint continue unaligned once its time is up; a savepoint stays aligned."""
        oldest = self.pending.late_to_align(now_ms, self._config.checkpoint_aligned_timeout_ms)
        if oldest is None:
            return ()
        oldest.asked.unaligned = True
        return self.snapshots.overtake(oldest.number)

    def _trigger_next(
        self, now_ms: int, statuses: Statuses, demanded: CheckpointRequest | None, periodic: bool
    ) -> _Commands:
        asked = self.schedule.next(now_ms, demanded, periodic=periodic, sealing=bool(self.settlement.completed.sealing))
        most = self._config.checkpoint_max_concurrent
        if asked is None or self.settlement.commits.recovering is not None or not self.pending.has_room(asked, most):
            return ()
        planned = plan_of(self._topology, statuses(), after_tasks_finish=self._config.checkpoint_after_tasks_finish)
        if planned is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING:
            return ()
        self.schedule.triggered(now_ms, asked)
        if asked.kind is CheckpointKind.PERIODIC and self.snapshots.changes == self.settlement.completed.changes:
            self.settlement.completed.confirmed_ms = now_ms
            return ()
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
        self.settlement.completed.triggered(number, self.snapshots.changes)
        if isinstance(planned, Reason):
            return self.settlement.fail(now_ms, pending, planned)
        return self.snapshots.trigger(number, named(plan.to_trigger), asked.unaligned)

    # -- what has happened ---------------------------------------------------------------------------------------------

    def acknowledge(self, now_ms: int, task: SubtaskId, number: int, batch: int, uses_union: bool) -> _Commands:
        """Note that a subtask has taken its snapshot; late and repeated ones change nothing."""
        pending = self.pending.at(number, Phase.ACKNOWLEDGING)
        if pending is None:
            return ()
        pending.acknowledge(task, batch, uses_union)
        violation = check_union(pending.closing(self._topology)) if pending.phase is Phase.READY else None
        if violation is not None:
            return self.settlement.fail(now_ms, pending, violation.reason, violation.detail)
        return self.settlement.write_next()

    def decline(self, now_ms: int, number: int, detail: str) -> _Commands:
        """Fail a checkpoint that a task could not take its snapshot for."""
        pending = self.pending.at(number, Phase.ACKNOWLEDGING)
        return self.settlement.fail(now_ms, pending, Reason.CHECKPOINT_DECLINED, detail) if pending else ()

    def closed(self, now_ms: int, task: SubtaskId) -> _Commands:
        """Note that a task is closed: checkpoints that it has not acknowledged fail (rule 7)."""
        missed = [one for one in self.pending.values() if task in one.awaited]
        failed = [self.settlement.fail(now_ms, one, Reason.TASK_FINISHED_MEANWHILE, str(task)) for one in missed]
        passed_on = self.snapshots.closed(task)
        return (*(command for commands in failed for command in commands), *passed_on)

    def give_up(self, now_ms: int, reason: Reason, detail: str = "") -> _Commands:
        """Fail every checkpoint that this reason can still end."""
        open_ones = self.pending.given_up_for(reason)
        return tuple(command for one in open_ones for command in self.settlement.fail(now_ms, one, reason, detail))
