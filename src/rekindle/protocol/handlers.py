"""Handlers: one function for each kind of event, and the tables of them.

A handler changes the state and returns the commands that follow from its event alone. The commands that follow from the
state afterwards are in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.ending import Ended, Error
from rekindle.protocol.job_parts import JobParts
from rekindle.protocol.pending_checkpoint import CheckpointRequest
from rekindle.protocol.reasons import CheckpointKind, Reason
from rekindle.protocol.requests import STOPPING, refused_checkpoint, refused_in_batch, refused_stop
from rekindle.protocol.results import end, fail, stop_with
from rekindle.protocol.states import JobState, TaskStatus

_Commands = tuple[c.Command, ...]

# -- starting ---------------------------------------------------------------------------------------------------------


def _job_started(job: JobParts, event: e.JobStarted) -> _Commands:
    job.now_ms = event.now_ms
    job.stopping.begin_run(available_now=event.available_now)
    job.engines.restarts.resume(event.engine_failures, event.now_ms)
    commands = job.coordinator.start(
        event.now_ms,
        event.next_checkpoint,
        event.latest_checkpoint,
        committed=event.committed,
        recovers=any(restored.batch >= 0 for restored in event.tasks.values()),
    )
    if event.draining or any(restored.drained for restored in event.tasks.values()):
        job.stopping.carry_through()
    job.become(JobState.RUNNING if job.stopping.stop is None else JobState.STOPPING)
    for task, restored in event.tasks.items():
        job.coordinator.snapshots.restore(task, restored)
        job.tasks.restore(task, restored)
        job.answers.note(restored.notes)
    job.tasks.settle_restored()
    return (*commands, *job.scheduler.begin(job.stopping.stop), *job.coordinator.snapshots.barriers.begin())


# -- tasks ------------------------------------------------------------------------------------------------------------


def _ticked(job: JobParts, event: e.Ticked) -> _Commands:
    job.now_ms = max(job.now_ms, event.now_ms)
    return ()


def _task_started(job: JobParts, event: e.TaskStarted) -> _Commands:
    job.coordinator.schedule.periodic.reads(event.task, backlog=event.backlog)
    job.tasks.step(event)
    return ()


def _batch_recorded(job: JobParts, event: e.BatchRecorded) -> _Commands:
    job.coordinator.schedule.periodic.reads(event.task, backlog=event.backlog)
    if job.tasks.states[event.task].has_sinks and event.rows_out != 0:
        job.coordinator.schedule.periodic.shown(job.now_ms)
    return job.coordinator.snapshots.recorded(event.task, event.batch, event.read)


def _sources_ended(job: JobParts, event: e.SourcesEnded) -> _Commands:
    job.tasks.sources_ended(event.task)
    return ()


def _caught_up(job: JobParts, event: e.CaughtUp) -> _Commands:
    job.tasks.states[event.task].catch_up(event)
    return ()


def _task_suspended(job: JobParts, event: e.TaskSuspended) -> _Commands:
    if job.stopping.stop is None or job.stopping.stop.drain:
        return ()  # late: its stop was given up, and the order given since then will be answered
    return _ended(job, event, Ended.SUSPENDED)


def _task_finished(job: JobParts, event: e.TaskFinished) -> _Commands:
    followed = _ended(job, event, Ended.DRAINED if event.drained else Ended.FINISHED, event.notes)
    job.coordinator.snapshots.finished(event.task)
    return followed


def _ended(
    job: JobParts, event: e.TaskSuspended | e.TaskFinished, how: Ended, notes: tuple[str, ...] = ()
) -> _Commands:
    """Note that a task has ended its data; the first time counts, a repetition changes nothing."""
    job.coordinator.schedule.periodic.reads(event.task, backlog=False)
    if job.tasks.ended(event, how):
        job.answers.note(notes)
    return job.coordinator.snapshots.recorded(event.task, event.batch, {})


def _task_closed(job: JobParts, event: e.TaskClosed) -> _Commands:
    job.tasks.step(event)
    return job.coordinator.closed(job.now_ms, event.task)


def _task_failed(job: JobParts, event: e.TaskFailed) -> _Commands:
    before = job.tasks.states[event.task].status
    task = job.tasks.failed(event)
    if job.engines.lost is not None:
        job.engines.lost.task_failed(before)
        return ()
    if before is TaskStatus.CLOSING:
        savepoint = job.stopping.stop.savepoint if job.stopping.stop else None
        if savepoint is not None and savepoint.path is not None:
            return fail(job, "STOP_FAILED_AFTER_SAVEPOINT", savepoint=savepoint.path, reason=event.reason)
        return fail(job, "TASK_FAILED", task=str(event.task), reason=event.reason)
    if before is task.status:
        return ()
    pause_ms = task.restarts.failed(job.now_ms)
    aborted = job.coordinator.give_up(job.now_ms, Reason.TASK_FAILURE, event.reason)
    if event.permanent:
        failed: Error = ("TASK_FAILED", {"task": str(event.task), "reason": event.reason})
        return aborted + end(job, JobState.FAILED, error=event.error or failed)
    if pause_ms is None:
        return aborted + fail(
            job, "RESTARTS_EXHAUSTED", task=str(event.task), attempts=task.restarts.failures, reason=event.reason
        )
    job.scheduler.restart(event.task, job.now_ms + pause_ms)
    return aborted + (job.stopping.failing(event.task, event.reason) if task.restarts.failures > 1 else ())


# -- checkpoints ------------------------------------------------------------------------------------------------------


def _snapshot_taken(job: JobParts, event: e.SnapshotTaken) -> _Commands:
    return job.coordinator.acknowledge(job.now_ms, event.task, event.checkpoint, event.batch, event.uses_union)


def _snapshot_declined(job: JobParts, event: e.SnapshotDeclined) -> _Commands:
    return job.coordinator.decline(job.now_ms, event.checkpoint, event.detail)


def _manifest_written(job: JobParts, event: e.ManifestWritten) -> _Commands:
    return job.coordinator.settlement.complete(job.now_ms, event.checkpoint)


def _manifest_failed(job: JobParts, event: e.ManifestFailed) -> _Commands:
    return job.coordinator.settlement.manifest_failed(job.now_ms, event.checkpoint, event.detail)


def _transactions_committed(job: JobParts, event: e.TransactionsCommitted) -> _Commands:
    return job.coordinator.settlement.committed(job.now_ms, event.checkpoint)


def _commit_failed(job: JobParts, event: e.CommitFailed) -> _Commands:
    if job.engines.lost is not None:
        job.coordinator.settlement.commit_failed(job.now_ms, event.checkpoint)
        job.engines.lost.commit_failed()
        return ()
    if event.permanent or not job.coordinator.settlement.commit_failed(job.now_ms, event.checkpoint):
        unnamed: Error = (
            "SINK_COMMIT_FAILED",
            {"sink": "-", "checkpoint": event.checkpoint, "reason": event.detail},
        )
        return end(job, JobState.FAILED, error=event.error or unnamed)
    return ()


def _savepoint_sealed(job: JobParts, event: e.SavepointSealed) -> _Commands:
    return job.coordinator.settlement.sealed(event.checkpoint, event.path)


def _savepoint_failed(job: JobParts, event: e.SavepointFailed) -> _Commands:
    return job.coordinator.settlement.sealed(event.checkpoint, None, event.detail)


# -- requests ---------------------------------------------------------------------------------------------------------


def _checkpoint_requested(job: JobParts, event: e.CheckpointRequested) -> _Commands:
    if job.batch:
        verb = "checkpoint" if event.directory is None else "savepoint"
        return (refused_in_batch(job.name, event.request, verb),)
    kind = CheckpointKind.MANUAL if event.directory is None else CheckpointKind.SAVEPOINT
    counts = kind is not CheckpointKind.SAVEPOINT
    unaligned = job.coordinator.schedule.unaligned if counts else event.unaligned
    asked = CheckpointRequest(
        kind=kind, unaligned=unaligned, request=event.request, directory=event.directory, counts=counts
    )
    if job.state is JobState.STOPPING:
        return (refused_checkpoint(event.request, STOPPING),)
    dropped = job.coordinator.schedule.ask(asked)
    return (refused_checkpoint(dropped.request, "too many requests are waiting"),) if dropped else ()


def _late_checkpoint(job: JobParts, event: e.CheckpointRequested) -> _Commands:
    job.answers.late_checkpoint(event)
    return ()


def _stop_requested(job: JobParts, event: e.StopRequested) -> _Commands:
    if job.batch:
        return (refused_in_batch(job.name, event.request, "drain" if event.drain else "stop"),)
    if job.stopping.is_other(event):
        return (refused_stop(job.name, event.request, job.state),)
    if job.stopping.stop is not None:
        job.stopping.stop.join(event.request, unaligned=event.unaligned)
        return ()
    stop = job.stopping.begin(event, unaligned=job.coordinator.schedule.unaligned, now_ms=job.now_ms)
    return stop_with(job, stop)


def _late_stop(job: JobParts, event: e.StopRequested) -> _Commands:
    job.answers.late_stop(event, job.state, job.coordinator.settlement.completed.latest)
    return ()


def _cancel_requested(job: JobParts, event: e.CancelRequested) -> _Commands:
    job.answers.cancel(event)
    return end(job, JobState.CANCELED, waiting=("CANCELED_MEANWHILE", {"job": job.name}))


def _late_cancel(job: JobParts, event: e.CancelRequested) -> _Commands:
    job.answers.late_cancel(event, job.state)
    return ()


def _result_recorded(job: JobParts, event: e.ResultRecorded) -> _Commands:
    job.exited = True
    return (*job.answers.take(), *job.scheduler.kill_open(), c.Exit())


def _engine_died(job: JobParts, event: e.EngineDied) -> _Commands:
    job.engines.died(event.reason, event.replaceable, job.now_ms)
    return ()


def _driver_fenced(job: JobParts, event: e.DriverFenced) -> _Commands:
    """Write nothing more: the storage is the newer run's."""
    job.state, job.exited = JobState.FAILED, True
    return (*job.scheduler.kill(), c.Exit())


HANDLERS: dict[type[e.Event], Callable[[JobParts, Any], _Commands]] = {
    e.JobStarted: _job_started,
    e.Ticked: _ticked,
    e.TaskStarted: _task_started,
    e.BatchRecorded: _batch_recorded,
    e.SourcesEnded: _sources_ended,
    e.CaughtUp: _caught_up,
    e.TaskSuspended: _task_suspended,
    e.TaskFinished: _task_finished,
    e.TaskClosed: _task_closed,
    e.TaskFailed: _task_failed,
    e.SnapshotTaken: _snapshot_taken,
    e.SnapshotDeclined: _snapshot_declined,
    e.ManifestWritten: _manifest_written,
    e.ManifestFailed: _manifest_failed,
    e.TransactionsCommitted: _transactions_committed,
    e.CommitFailed: _commit_failed,
    e.SavepointSealed: _savepoint_sealed,
    e.SavepointFailed: _savepoint_failed,
    e.CheckpointRequested: _checkpoint_requested,
    e.StopRequested: _stop_requested,
    e.CancelRequested: _cancel_requested,
    e.EngineDied: _engine_died,
    e.DriverFenced: _driver_fenced,
}

LATE_HANDLERS: dict[type[e.Event], Callable[[JobParts, Any], _Commands]] = {
    e.CheckpointRequested: _late_checkpoint,
    e.StopRequested: _late_stop,
    e.CancelRequested: _late_cancel,
    e.ResultRecorded: _result_recorded,
    e.DriverFenced: _driver_fenced,
}
"""Handlers of the events that still count once the result is decided and not yet recorded."""
