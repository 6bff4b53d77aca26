"""The checkpoint coordinator: what is taken when, who has acknowledged, what is complete.

Theory of operation
-------------------

One checkpoint at a time goes through the phases of `Phase`::

    ACKNOWLEDGING ──all have──► WRITING ──manifest exists──► COMMITTING ──► [SEALING] ──► settled
         │ declined, expired,      │ the write
         │ a task failed,          │ failed
         │ the job ended           │
         └────────► failed ◄───────┘

1. A checkpoint is *complete* once its manifest exists; from then on it cannot fail, it can only be late. Commits are
   retried with back-off until they succeed or the job gives up.
2. The next checkpoint is triggered only when the transactions of the last one are committed, so that only the newest
   manifest can name transactions that are not. Recovery begins with committing those.
3. Requests wait in a queue, ordered savepoint > manual > periodic and then by age. A checkpoint that the tasks wait for
   (stop, final) goes first; it waits for the pending one, it does not cancel it.
4. A savepoint shares its barrier with a checkpoint and is sealed after that one has committed.
5. Failures are counted as Flink counts them: by reason, in a row, reset by a success. One that somebody wished for and
   the job can do without (a savepoint, a stop) is not counted: its failure is told to whoever asked.

This module does not know why a job stops, what a task does, or what a snapshot holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rekindle.config import Config
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.checkpoint_plan import CheckpointPlan, plan
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.reasons import CheckpointKind, Reason
from rekindle.protocol.states import TaskStatus

QUEUE_LIMIT = 100
"""Requests that may wait at a time."""

_ORDER = {CheckpointKind.SAVEPOINT: 0, CheckpointKind.MANUAL: 1}
_DEMANDED = (CheckpointKind.STOP, CheckpointKind.FINAL)


class Phase(Enum):
    """Where a pending checkpoint stands."""

    ACKNOWLEDGING = "acknowledging"
    WRITING = "writing"
    COMMITTING = "committing"
    SEALING = "sealing"


@dataclass(slots=True, kw_only=True)
class Asked:
    """A checkpoint that is asked for, by a user or by the job."""

    kind: CheckpointKind
    #: who is answered when it has settled
    request: str | None = None
    directory: str | None = None
    #: whether its failure is counted
    counts: bool = True


@dataclass(slots=True, kw_only=True)
class PendingCheckpoint:
    """A checkpoint under way."""

    number: int
    kind: CheckpointKind
    triggered_ms: int
    #: subtasks that have not acknowledged yet
    awaited: set[SubtaskId]
    #: last batch of each that has acknowledged
    batches: dict[SubtaskId, int] = field(default_factory=dict)
    #: how many take part in all
    participants: int
    #: had finished before it was triggered
    finished: tuple[SubtaskId, ...]
    #: had ended their data before it was triggered: its completion is what they wait for
    waiting: tuple[SubtaskId, ...]
    #: requests it answers
    requests: tuple[str, ...] = ()
    #: where to copy it to
    directory: str | None = None
    #: whether its failure is counted (rule 5)
    counts: bool = True
    phase: Phase = Phase.ACKNOWLEDGING
    completed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How a checkpoint ended."""

    checkpoint: PendingCheckpoint
    #: None where it is complete and committed
    reason: Reason | None = None
    #: words on the reason, or why its savepoint failed
    detail: str = ""
    #: path of its savepoint
    savepoint: str | None = None


@dataclass(slots=True)
class Coordinator:
    """State of the coordinator. Its methods return commands; what has settled is taken from `settled`."""

    config: Config
    #: number of the next checkpoint; numbers are never used twice
    next_number: int = 1
    pending: PendingCheckpoint | None = None
    #: checkpoint whose transactions recovery is committing
    recovering: int | None = None
    #: when a failed commit is tried again
    commit_again_ms: int | None = None
    #: commits that failed in a row
    commit_failures: int = 0
    queue: list[Asked] = field(default_factory=list)
    #: counted failures in a row, and the last one's words
    failures: int = 0
    last_failure: str = ""
    latest: int | None = None
    #: when a periodic one may next be taken
    periodic_due_ms: int = 0
    #: a failed final or stop checkpoint is not tried again before
    not_before_ms: int = 0
    settled: list[Settled] = field(default_factory=list)

    def start(self, now_ms: int, next_number: int, latest: int | None, committed: bool) -> tuple[c.Command, ...]:
        """Begin with what the storage holds; what the newest manifest left to commit is committed first (rule 2)."""
        self.next_number, self.latest = next_number, latest
        self.periodic_due_ms = now_ms + self.config.checkpoint_interval_ms
        if latest is None or committed:
            return ()
        self.recovering = latest
        return (c.CommitTransactions(permit=CommitPermit(latest)),)

    def ask(self, asked: Asked) -> bool:
        """Queue a request; False where the queue is full."""
        if len(self.queue) >= QUEUE_LIMIT:
            return False
        self.queue.append(asked)
        self.queue.sort(key=lambda item: _ORDER[item.kind])
        return True

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is under way or transactions are still to be committed."""
        return self.pending is not None or self.recovering is not None

    def advance(
        self,
        now_ms: int,
        statuses: Mapping[SubtaskId, TaskStatus],
        demanded: Asked | None,
        periodic: bool,
    ) -> tuple[c.Command, ...]:
        """Do what time and the tasks' statuses call for: expire, retry a commit, trigger the next.

        `demanded`: the checkpoint that all tasks wait for, None where they wait for none.
        """
        if self.pending and now_ms - self.pending.triggered_ms >= self.config.checkpoint_timeout_ms:
            expired = self.fail(now_ms, Reason.CHECKPOINT_EXPIRED)
            if expired:
                return expired
        if self.commit_again_ms is not None and now_ms >= self.commit_again_ms:
            self.commit_again_ms = None
            return (c.CommitTransactions(permit=CommitPermit(self._committing())),)
        planned = plan(statuses, after_tasks_finish=self.config.checkpoint_after_tasks_finish)
        if self.busy or planned is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING:
            return ()
        if demanded is not None:
            return self._trigger(now_ms, statuses, planned, demanded) if now_ms >= self.not_before_ms else ()
        if self.queue:
            return self._trigger(now_ms, statuses, planned, self.queue.pop(0))
        if periodic and self.config.checkpoint_interval_ms and now_ms >= self.periodic_due_ms:
            self.periodic_due_ms = now_ms + self.config.checkpoint_interval_ms
            return self._trigger(now_ms, statuses, planned, Asked(kind=CheckpointKind.PERIODIC))
        return ()

    def _trigger(
        self,
        now_ms: int,
        statuses: Mapping[SubtaskId, TaskStatus],
        planned: CheckpointPlan | Reason,
        asked: Asked,
    ) -> tuple[c.Command, ...]:
        number, self.next_number = self.next_number, self.next_number + 1
        refusal = planned if isinstance(planned, Reason) else None
        taking_part = CheckpointPlan((), ()) if isinstance(planned, Reason) else planned
        self.pending = PendingCheckpoint(
            number=number,
            kind=asked.kind,
            triggered_ms=now_ms,
            awaited=set(taking_part.to_trigger),
            participants=len(taking_part.to_trigger) + len(taking_part.finished),
            finished=taking_part.finished,
            waiting=tuple(task for task in taking_part.to_trigger if statuses[task] is TaskStatus.WAITING),
            requests=() if asked.request is None else (asked.request,),
            directory=asked.directory,
            counts=asked.counts,
        )
        if refusal is not None:
            return self.fail(now_ms, refusal)
        return tuple(c.TakeSnapshot(task=task, checkpoint=number) for task in taking_part.to_trigger)

    def acknowledge(self, task: SubtaskId, number: int, batch: int) -> tuple[c.Command, ...]:
        """A snapshot was taken; late and repeated ones change nothing."""
        pending = self._in(number, Phase.ACKNOWLEDGING)
        if pending is None:
            return ()
        pending.awaited.discard(task)
        pending.batches[task] = batch
        if pending.awaited:
            return ()
        pending.phase = Phase.WRITING
        return (
            c.WriteManifest(
                checkpoint=number, kind=pending.kind, triggered_ms=pending.triggered_ms, finished=pending.finished
            ),
        )

    def decline(self, now_ms: int, number: int, detail: str) -> tuple[c.Command, ...]:
        """A task could not take its snapshot."""
        pending = self._in(number, Phase.ACKNOWLEDGING)
        return self.fail(now_ms, Reason.CHECKPOINT_DECLINED, detail) if pending else ()

    def complete(self, now_ms: int, number: int) -> tuple[c.Command, ...]:
        """The manifest exists: the checkpoint is complete, commit."""
        pending = self._in(number, Phase.WRITING)
        if pending is None:
            return ()
        pending.phase, pending.completed_ms = Phase.COMMITTING, now_ms
        self.latest, self.failures = number, 0
        return (c.CommitTransactions(permit=CommitPermit(number)),)

    def manifest_failed(self, now_ms: int, number: int, detail: str) -> tuple[c.Command, ...]:
        """The manifest could not be written."""
        pending = self._in(number, Phase.WRITING)
        return self.fail(now_ms, Reason.FINALIZE_CHECKPOINT_FAILURE, detail) if pending else ()

    def committed(self, now_ms: int, number: int) -> tuple[c.Command, ...]:
        """Every sink has committed."""
        pending = self._in(number, Phase.COMMITTING)
        if pending is None and number != self.recovering:
            return ()
        # A try that was called failed may have gone through late: then there is nothing to try again.
        self.recovering, self.commit_failures, self.commit_again_ms = None, 0, None
        if pending is None:
            return ()
        if pending.directory is not None:
            pending.phase = Phase.SEALING
            return (c.SealSavepoint(checkpoint=number, directory=pending.directory),)
        return self._settle(now_ms, Settled(checkpoint=pending))

    def commit_failed(self, now_ms: int, number: int) -> None:
        """Try again later; `commit_failures` tells how often in a row."""
        if number == self.recovering or self._in(number, Phase.COMMITTING):
            self.commit_failures += 1
            self.commit_again_ms = now_ms + self.backoff_ms(self.commit_failures)

    def sealed(self, now_ms: int, number: int, savepoint: str | None, detail: str = "") -> tuple[c.Command, ...]:
        """The savepoint is whole, or (None) could not be made; its checkpoint is complete either way."""
        pending = self._in(number, Phase.SEALING)
        if pending is None:
            return ()
        return self._settle(now_ms, Settled(checkpoint=pending, savepoint=savepoint, detail=detail))

    def fail(self, now_ms: int, reason: Reason, detail: str = "") -> tuple[c.Command, ...]:
        """Give up the pending checkpoint, if there is one.

        Once its manifest is being written only that write can fail it: everything it needs is there.
        """
        pending = self.pending
        failing = Phase.WRITING if reason is Reason.FINALIZE_CHECKPOINT_FAILURE else Phase.ACKNOWLEDGING
        if pending is None or pending.phase is not failing:
            return ()
        self.pending = None
        if pending.kind in _DEMANDED:
            self.not_before_ms = now_ms + self.config.restart_delay_ms
        if reason.counts and pending.counts:
            self.failures += 1
            self.last_failure = reason.explained(detail)
        self.settled.append(Settled(checkpoint=pending, reason=reason, detail=detail))
        return (c.AbortCheckpoint(checkpoint=pending.number, reason=reason.explained(detail)),)

    def backoff_ms(self, failures: int) -> int:
        """Pause after the given number of failures in a row: doubles, up to a limit."""
        return int(min(self.config.restart_delay_ms * 2 ** (failures - 1), self.config.restart_delay_max_ms))

    def _settle(self, now_ms: int, settled: Settled) -> tuple[c.Command, ...]:
        self.pending = None
        self.periodic_due_ms = max(self.periodic_due_ms, now_ms + self.config.checkpoint_min_pause_ms)
        self.settled.append(settled)
        # The newest is kept whatever the setting says: the job resumes from it (FLIP-45).
        return (c.DiscardOlder(keep=max(1, self.config.checkpoint_retained)),)

    def _in(self, number: int, phase: Phase) -> PendingCheckpoint | None:
        pending = self.pending
        return pending if pending and pending.number == number and pending.phase is phase else None

    def _committing(self) -> int:
        return self.pending.number if self.pending else self.recovering or 0
