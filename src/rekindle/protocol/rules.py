"""Rules: the commands that follow from the state of a job, whatever event has led to it.

The rules are tried in the order of `_next` until no rule applies. Each changes the state so that it does
not apply a second time. This module does not know events.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.ending import Error, Stop, final_state
from rekindle.protocol.engine import GRACE_MS, NEEDS_NO_ENGINE, LostEngine
from rekindle.protocol.job_parts import JobParts
from rekindle.protocol.pending_checkpoint import CheckpointRequest, PendingCheckpoint, Settled
from rekindle.protocol.reasons import CheckpointKind, Reason
from rekindle.protocol.requests import answered
from rekindle.protocol.results import end, fail, stop_with
from rekindle.protocol.states import JobState, TaskStatus

_Commands = tuple[c.Command, ...]


def follow(job: JobParts) -> list[c.Command]:
    """Apply the rules until none applies any more; return their commands, in order."""
    commands: list[c.Command] = []
    while True:
        over = job.state.terminal or job.exited or job.state is JobState.CREATED
        more = () if over else _next(job)
        if not more:
            return commands
        commands += more


def _next(job: JobParts) -> _Commands:
    stop = job.stopping.stop
    settled = job.coordinator.settlement.take_settled()
    if settled:
        job.tasks.states.touch_all()
        return tuple(command for one in settled for command in _settle(job, one)) or _next(job)
    if job.engines.lost is not None:
        instead = _without_engine(job, job.engines.lost)
        if instead is not None:
            return instead
    if job.coordinator.settlement.failures.too_many:
        return _fail_over(job)
    if stop is None and job.stopping.available_now and job.tasks.have_caught_up():
        job.tasks.states.touch_all()
        return stop_with(job, job.stopping.begin_by_itself()) or _next(job)
    if stop is not None and stop.may_overtake(job.now_ms):
        _overtake(job, stop)
    due = job.scheduler.due(job.now_ms)
    ordered = (*job.scheduler.orders(due, job.now_ms, stop), *_closable(job, due))
    if ordered:
        return ordered
    statuses = job.tasks.states.held()
    if statuses == {TaskStatus.CLOSED} and not job.coordinator.busy:
        if stop is None and job.coordinator.settlement.completed.sealing:
            return ()  # an end by itself waits for savepoints, a stop for its own alone (`_closable`)
        return end(job, final_state(job.tasks.ends()))
    return job.coordinator.advance(
        job.now_ms,
        job.tasks.states.statuses,
        _demanded(job, statuses),
        periodic=stop is None and not job.batch,
    )


def _settle(job: JobParts, settled: Settled) -> _Commands:
    checkpoint, stop = settled.checkpoint, job.stopping.stop
    if settled.reason is not None:
        return _settle_failed(job, checkpoint, settled.reason, settled.detail)
    if not settled.sealed:
        if job.tasks.completed(checkpoint.number, checkpoint.batches):
            job.engines.restarts.progressed()
        if checkpoint.asked.directory is not None:
            return ()  # the request for the savepoint is answered when that is made
    asked = stop.savepoint if stop is not None else None
    if stop is not None and asked is not None and not asked.settled and checkpoint.asked.kind is CheckpointKind.STOP:
        asked.settle(settled.savepoint, settled.detail)
        if asked.path is None and not stop.drain:
            return _give_up(job, stop, settled.detail)
    return tuple(answered(settled, request) for request in checkpoint.asked.requests)


def _settle_failed(job: JobParts, checkpoint: PendingCheckpoint, reason: Reason, detail: str) -> _Commands:
    words, stop = reason.explained(detail), job.stopping.stop
    kind, forever = checkpoint.asked.kind, reason is Reason.TASKS_FINISHED_FEATURE_OFF
    # A stop that no one has asked for would come again, and be refused again.
    may_go_on = stop is not None and not stop.drain and (bool(stop.requests) or not forever)
    if kind is CheckpointKind.STOP and stop is not None and may_go_on:
        return _give_up(job, stop, words)
    if kind in (CheckpointKind.STOP, CheckpointKind.FINAL) and forever:
        # A job with uncommitted data must not be called finished.
        tolerable = job.coordinator.settlement.failures.tolerable
        return fail(job, "CHECKPOINTS_FAILING", failures=1, tolerable=tolerable, reason=words)
    failed: Error = ("CHECKPOINT_FAILED", {"checkpoint": checkpoint.number, "job": job.name, "reason": words})
    return tuple(c.AnswerRequest(request=request, error=failed) for request in checkpoint.asked.requests)


def _give_up(job: JobParts, stop: Stop, reason: str) -> _Commands:
    """Give up a plain stop that failed: the job continues. Tasks that had finished by themselves keep waiting."""
    job.become(JobState.RUNNING)
    return (*job.stopping.give_up(stop, reason), *job.scheduler.go_on())


def _overtake(job: JobParts, stop: Stop) -> None:
    """Let a stop name what lies in the channels: every task may be held where it is."""
    stop.overtake()
    job.tasks.states.touch_all()


def _closable(job: JobParts, tasks: Iterable[SubtaskId]) -> _Commands:
    """Close those of these tasks that may be closed; a stop with a savepoint waits for its checkpoint first."""
    if job.stopping.stop is not None and job.stopping.stop.waits_for_savepoint:
        return ()
    return tuple(job.scheduler.closable(tasks))


def _demanded(job: JobParts, statuses: set[TaskStatus]) -> CheckpointRequest | None:
    if not statuses <= {TaskStatus.WAITING, TaskStatus.CLOSED}:
        return None
    if any(one.asked.kind is CheckpointKind.STOP for one in job.coordinator.settlement.completed.sealing.values()):
        return None
    if job.stopping.stop is None:
        return CheckpointRequest(kind=CheckpointKind.FINAL, unaligned=job.coordinator.schedule.unaligned)
    stop, savepoint = job.stopping.stop, job.stopping.stop.savepoint
    directory = savepoint.directory if savepoint is not None else None
    return CheckpointRequest(kind=CheckpointKind.STOP, unaligned=stop.unaligned, directory=directory, counts=stop.drain)


def _fail_over(job: JobParts) -> _Commands:
    """Start every task again after a pause, since too many checkpoints have failed; end the job if no try is left."""
    failures = job.coordinator.settlement.failures
    counted = {"failures": failures.count, "tolerable": failures.tolerable, "reason": failures.last}
    pause_ms = failures.restarts.failed(job.now_ms)
    failing: Error = ("CHECKPOINTS_FAILING", counted)
    if pause_ms is None:
        return end(job, JobState.FAILED, error=failing)
    aborted = job.coordinator.give_up(job.now_ms, Reason.TASK_FAILURE, "the job starts again")
    failures.begin_again()
    job.coordinator.schedule.wait(job.now_ms + pause_ms)
    job.scheduler.fail_over(job.now_ms + pause_ms)
    return (c.ReportFailure(error=failing), *aborted)


def _without_engine(job: JobParts, lost: LostEngine) -> _Commands | None:
    """Return the commands for a job without an engine; None: continue as usual."""
    stop = job.stopping.stop
    statuses = job.tasks.states.held()
    plain_stop = stop is not None and stop.plain
    if lost.may_go_on(statuses, plain_stop=plain_stop, tasks=len(job.tasks.states)):
        if stop is not None and plain_stop:
            _overtake(job, stop)  # nothing reads what lies between tasks
        job.scheduler.hurry(job.now_ms)
        return None
    if stop is None and not statuses <= NEEDS_NO_ENGINE and job.now_ms < lost.since_ms + GRACE_MS:
        return ()
    delay_ms = job.engines.restarts.failed(job.now_ms) if lost.replaceable else None
    if delay_ms is None:
        return fail(job, "SPARK_DIED", reason=lost.reason)
    job.exited = True
    over = c.FailOver(reason=lost.reason, failures=job.engines.restarts.failures, delay_ms=delay_ms)
    return (*job.scheduler.kill(), over, c.Exit())
