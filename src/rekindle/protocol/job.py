"""The job: one door, `handle(event) -> commands`.

Theory of operation
-------------------

`handle` does three things: it checks that the event is legal (and otherwise raises, with nothing changed), lets its
handler change the state, and then runs the *state-triggered* rules until nothing more follows:

1. a checkpoint has settled → its request is answered;
2. a task's data has ended, its restart is due, or its final checkpoint is complete → order what follows (`tasks`);
3. every open task waits → one checkpoint at once, for all of them (FLIP-147; FLIP-45 for a stop);
4. every task is closed and nothing is left to commit → the result is recorded, and only then reported;
5. a checkpoint is due, late, or to be overtaken, a commit is to be tried again → do it (`coordinator`).

Ending. A natural end, a drain and a stop differ in two places only: whether a task is ordered to finish or to suspend,
and what the result is called. A stop without a savepoint is taken in the job's mode: if that is unaligned, or the time
of an aligned one is up, no task reads on. An order to end that meets a failure is repeated after the restart delay; a
plain stop whose checkpoint fails is given up and the job continues, except what had finished by itself; a drain, whose
flush cannot be taken back, is carried through. A stop that asks for a savepoint ends with the checkpoint of that
savepoint, no earlier; it reads all that is in the channels first, unless it is asked not to. Cancel records its result
first and asks no task.

A batch run is a job like any other whose tasks have one batch each, all of their input. It has one checkpoint, the
final one, that commits everything; there is no place before it where it could be stopped (FLIP-45: a stop ends with a
checkpoint), so of the requests it grants cancel alone, and periodic checkpoints are not taken.

This module does not know Spark, storage, sinks, threads or the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rekindle.config import Config
from rekindle.errors import ProtocolError
from rekindle.graph.job_graph import JobGraph
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.coordinator import Coordinator
from rekindle.protocol.ending import Ended, Error, Stop, final_state
from rekindle.protocol.engine import GRACE_MS, NEEDS_NO_ENGINE, LostEngine
from rekindle.protocol.pending_checkpoint import CheckpointRequest, PendingCheckpoint, Settled
from rekindle.protocol.reasons import CheckpointKind, Reason
from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import JOB_EVENTS, JOB_STEPS, TASK_STEPS, JobState, TaskStatus
from rekindle.protocol.stopping import STOPPING, Stopping, answered, refusal
from rekindle.protocol.story import Story
from rekindle.protocol.tasks import Tasks

_Commands = tuple[c.Command, ...]


class JobMachine:
    """The state machine of one run of a job."""

    def __init__(self, graph: JobGraph, config: Config, *, batch: bool = False) -> None:
        self.name = graph.name
        self.config = config
        #: its tasks have one batch each, and one checkpoint commits them
        self.batch = batch
        self.state = JobState.CREATED
        self.now_ms = 0
        self.coordinator = Coordinator(config, graph.topology)
        self.tasks = Tasks(graph, self.coordinator.barriers, config)
        self.requests = Stopping(graph.name)
        #: set once the engine is gone, which never comes back in this run
        self.lost: LostEngine | None = None
        #: engines that have died in a row
        self.engines = Restarts(config)
        #: nothing more is heard or said
        self.exited = False
        self.notes: list[str] = []
        self.story = Story()

    @property
    def stop(self) -> Stop | None:
        """The stop or drain in force."""
        return self.requests.stop

    # -- the door ---------------------------------------------------------------------------------------------------

    def handle(self, event: e.Event) -> _Commands:
        """Take in one fact; return what is to be done, in order.

        Raises:
            ProtocolError: ``ILLEGAL_EVENT``; the state is as it was.
        """
        handlers = _LATE_HANDLERS if self.state.terminal else _HANDLERS
        too_late = self.exited or (self.state.terminal and type(event) not in handlers)
        request = event.request if isinstance(event, _REQUESTS) else None
        if too_late or request in self.requests.heard:
            return ()
        self._check(event)
        if request is not None:
            self.requests.hear(request)
        self.story.step += 1
        commands = [*handlers[type(event)](self, event)]
        commands += self._follow()
        for command in commands:
            if isinstance(command, c.TakeSnapshot):
                self.tasks.snapshots(command.task, command.checkpoint)
        numbered = tuple(replace(command, cause=self.story.step) for command in commands)
        self.story.tell(event, numbered)
        return numbered

    def _check(self, event: e.Event) -> None:
        legal = JOB_EVENTS.get(self.state, e.ALL)
        if type(event) not in legal:
            raise self._illegal(event, f"job {self.name}", self.state.value, [kind.__name__ for kind in legal])
        named, states = event.tasks if isinstance(event, e.JobStarted) else (), self.tasks.states
        for task in (event.task,) if isinstance(event, e.TaskEvent) else named:
            if task not in states:
                raise self._illegal(event, str(task), "no task of this job", [str(known) for known in states])
        if isinstance(event, e.TaskEvent) and type(event) in TASK_STEPS:
            status, steps = states[event.task].status, TASK_STEPS[type(event)]
            if status not in steps:
                raise self._illegal(event, str(event.task), status.value, [before.value for before in steps])

    def _become(self, state: JobState) -> None:
        assert (self.state, state) in JOB_STEPS, f"a job goes from {self.state.value} to {state.value} by no step"
        self.state = state

    def _illegal(self, event: e.Event, subject: str, state: str, legal: list[str]) -> ProtocolError:
        return ProtocolError(
            "ILLEGAL_EVENT",
            event=type(event).__name__,
            subject=subject,
            state=state,
            legal=", ".join(legal),
            story=str(self.story),
        )

    # -- starting ---------------------------------------------------------------------------------------------------

    def _job_started(self, event: e.JobStarted) -> _Commands:
        self.now_ms = event.now_ms
        self.engines.resume(event.engine_failures, event.now_ms)
        commands = self.coordinator.start(event.now_ms, event.next_checkpoint, event.latest_checkpoint, event.committed)
        if event.draining or any(restored.drained for restored in event.tasks.values()):
            self.requests.carry_through()
        self._become(JobState.RUNNING if self.stop is None else JobState.STOPPING)
        for task, restored in event.tasks.items():
            self.coordinator.restore(task, restored)
            self.tasks.restore(task, restored)
            self.notes += restored.notes
        self.tasks.settle_restored()
        return (*commands, *self.tasks.begin(self.stop), *self.coordinator.barriers.begin())

    # -- tasks ------------------------------------------------------------------------------------------------------

    def _ticked(self, event: e.Ticked) -> _Commands:
        self.now_ms = max(self.now_ms, event.now_ms)
        return ()

    def _task_started(self, event: e.TaskStarted) -> _Commands:
        self.tasks.step(event)
        return ()

    def _batch_recorded(self, event: e.BatchRecorded) -> _Commands:
        return self.coordinator.recorded(event.task, event.batch, event.read)

    def _sources_ended(self, event: e.SourcesEnded) -> _Commands:
        self.tasks.sources_ended(event.task)
        return ()

    def _task_suspended(self, event: e.TaskSuspended) -> _Commands:
        if self.stop is None or self.stop.drain:
            return ()  # late: the stop it belongs to was given up, and what was ordered since then follows
        return self._ended(event, Ended.SUSPENDED)

    def _task_finished(self, event: e.TaskFinished) -> _Commands:
        followed = self._ended(event, Ended.DRAINED if event.drained else Ended.FINISHED, event.notes)
        self.coordinator.finished(event.task)
        return followed

    def _ended(self, event: e.TaskSuspended | e.TaskFinished, how: Ended, notes: tuple[str, ...] = ()) -> _Commands:
        """Take in that a task has ended its data; what it did first counts, a repetition changes nothing."""
        before = self.tasks.states[event.task].status
        task = self.tasks.step(event)
        if task.status is TaskStatus.WAITING and before is not TaskStatus.WAITING:
            task.ended, task.restart_ms = how, None
            self.notes += notes
        return self.coordinator.recorded(event.task, event.batch, {})

    def _task_closed(self, event: e.TaskClosed) -> _Commands:
        self.tasks.step(event)
        return self.coordinator.closed(self.now_ms, event.task)

    def _task_failed(self, event: e.TaskFailed) -> _Commands:
        before = self.tasks.states[event.task].status
        task = self.tasks.step(event)
        if self.lost is not None:
            self.lost.failures += before not in NEEDS_NO_ENGINE or before is TaskStatus.CLOSING
            return ()
        if before is TaskStatus.CLOSING:
            savepoint = self.stop.savepoint if self.stop else None
            if savepoint is not None:
                return self._fail("STOP_FAILED_AFTER_SAVEPOINT", savepoint=savepoint, reason=event.reason)
            return self._fail("TASK_FAILED", task=str(event.task), reason=event.reason)
        if before is task.status:
            return ()
        pause_ms = task.restarts.failed(self.now_ms)
        aborted = self.coordinator.give_up(self.now_ms, Reason.TASK_FAILURE, event.reason)
        if event.permanent:
            failed: Error = ("TASK_FAILED", {"task": str(event.task), "reason": event.reason})
            return aborted + self._end(JobState.FAILED, error=event.error or failed)
        if pause_ms is None:
            return aborted + self._fail(
                "RESTARTS_EXHAUSTED", task=str(event.task), attempts=task.restarts.failures, reason=event.reason
            )
        task.restart_ms = self.now_ms + pause_ms
        return aborted

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _snapshot_taken(self, event: e.SnapshotTaken) -> _Commands:
        return self.coordinator.acknowledge(self.now_ms, event.task, event.checkpoint, event.batch, event.uses_union)

    def _snapshot_declined(self, event: e.SnapshotDeclined) -> _Commands:
        return self.coordinator.decline(self.now_ms, event.checkpoint, event.detail)

    def _manifest_written(self, event: e.ManifestWritten) -> _Commands:
        return self.coordinator.complete(self.now_ms, event.checkpoint)

    def _manifest_failed(self, event: e.ManifestFailed) -> _Commands:
        return self.coordinator.manifest_failed(self.now_ms, event.checkpoint, event.detail)

    def _transactions_committed(self, event: e.TransactionsCommitted) -> _Commands:
        return self.coordinator.committed(self.now_ms, event.checkpoint)

    def _commit_failed(self, event: e.CommitFailed) -> _Commands:
        if self.lost is not None:
            self.coordinator.commit_failed(self.now_ms, event.checkpoint)
            self.lost.failures += 1
            return ()
        if event.permanent or not self.coordinator.commit_failed(self.now_ms, event.checkpoint):
            unnamed: Error = (
                "SINK_COMMIT_FAILED",
                {"sink": "-", "checkpoint": event.checkpoint, "reason": event.detail},
            )
            return self._end(JobState.FAILED, error=event.error or unnamed)
        return ()

    def _savepoint_sealed(self, event: e.SavepointSealed) -> _Commands:
        return self.coordinator.sealed(event.checkpoint, event.path)

    def _savepoint_failed(self, event: e.SavepointFailed) -> _Commands:
        return self.coordinator.sealed(event.checkpoint, None, event.detail)

    # -- requests ---------------------------------------------------------------------------------------------------

    def _checkpoint_requested(self, event: e.CheckpointRequested) -> _Commands:
        if self.batch:
            verb = "checkpoint" if event.directory is None else "savepoint"
            return self.requests.refused_in_batch(event.request, verb)
        kind = CheckpointKind.MANUAL if event.directory is None else CheckpointKind.SAVEPOINT
        counts = kind is not CheckpointKind.SAVEPOINT
        unaligned = self.coordinator.unaligned if counts else event.unaligned
        asked = CheckpointRequest(
            kind=kind, unaligned=unaligned, request=event.request, directory=event.directory, counts=counts
        )
        if self.state is JobState.STOPPING:
            return (refusal(event.request, STOPPING),)
        dropped = self.coordinator.ask(asked)
        return (refusal(dropped.request, "too many requests are waiting"),) if dropped else ()

    def _late_checkpoint(self, event: e.CheckpointRequested) -> _Commands:
        self.requests.late_checkpoint(event)
        return ()

    def _stop_requested(self, event: e.StopRequested) -> _Commands:
        if self.batch:
            return self.requests.refused_in_batch(event.request, "drain" if event.drain else "stop")
        if self.requests.is_other(event):
            return (self.requests.refused_stop(event.request, self.state),)
        if self.stop is not None:
            self.requests.join(self.stop, event)
            return ()
        self._become(JobState.STOPPING)
        stop = self.requests.begin(event, unaligned=self.coordinator.unaligned, now_ms=self.now_ms)
        refused = self.requests.refused_checkpoints(self.coordinator.take_queue())
        return (*refused, *self.tasks.stop_sources(stop, self.now_ms))

    def _late_stop(self, event: e.StopRequested) -> _Commands:
        self.requests.late_stop(event, self.state, self.coordinator.latest, self.notes)
        return ()

    def _cancel_requested(self, event: e.CancelRequested) -> _Commands:
        self.requests.answers.append(c.AnswerRequest(request=event.request))
        return self._end(JobState.CANCELED, waiting=("CANCELED_MEANWHILE", {"job": self.name}))

    def _late_cancel(self, event: e.CancelRequested) -> _Commands:
        self.requests.late_cancel(event, self.state)
        return ()

    # -- ending -----------------------------------------------------------------------------------------------------

    def _fail(self, code: str, **parameters: object) -> _Commands:
        return self._end(JobState.FAILED, error=(code, parameters))

    def _end(self, state: JobState, *, error: Error | None = None, waiting: Error | None = None) -> _Commands:
        """Decide the result. `waiting`: the answer to requests that it overtakes."""
        aborted = self.coordinator.give_up(self.now_ms, Reason.JOB_ENDED)
        told = waiting or error
        self.requests.overtaken(
            told,
            under_way=[
                *(one.checkpoint for one in self.coordinator.take_settled()),
                *self.coordinator.pending.values(),
            ],
            queue=self.coordinator.queue,
            sealing=self.coordinator.sealing.values(),
        )
        self._become(state)
        savepoint = self.requests.end(told, self.coordinator.latest, self.notes)
        result = c.RecordResult(
            state=state.value,
            checkpoint=self.coordinator.latest,
            savepoint=savepoint,
            notes=tuple(self.notes),
            error=error,
        )
        return (*aborted, result)

    def _result_recorded(self, event: e.ResultRecorded) -> _Commands:
        self.exited = True
        return (*self.requests.take_answers(), *self.tasks.kill_open(), c.Exit())

    def _engine_died(self, event: e.EngineDied) -> _Commands:
        if self.lost is None:
            self.lost = LostEngine(event.reason, event.replaceable, self.now_ms)
        return ()

    def _driver_fenced(self, event: e.DriverFenced) -> _Commands:
        """Write nothing more: the storage is the newer run's."""
        self.state, self.exited = JobState.FAILED, True
        return (*self.tasks.kill(), c.Exit())

    # -- without an engine --------------------------------------------------------------------------------------------

    def _without_engine(self, lost: LostEngine) -> _Commands | None:
        """Return what to do now that there is none; None: continue as always."""
        statuses = set(self.tasks.statuses().values())
        plain_stop = self.stop is not None and not self.stop.drain and self.stop.directory is None
        if lost.may_go_on(statuses, plain_stop=plain_stop, tasks=len(self.tasks.states)):
            if self.stop is not None and plain_stop:
                self.stop.unaligned = True  # nothing reads what lies between tasks
            self.tasks.hurry(self.now_ms)
            return None
        if self.stop is None and not statuses <= NEEDS_NO_ENGINE and self.now_ms < lost.since_ms + GRACE_MS:
            return ()
        delay_ms = self.engines.failed(self.now_ms) if lost.replaceable else None
        if delay_ms is None:
            return self._fail("SPARK_DIED", reason=lost.reason)
        self.exited = True
        over = c.FailOver(reason=lost.reason, failures=self.engines.failures, delay_ms=delay_ms)
        return (*self.tasks.kill(), over, c.Exit())

    # -- what follows from the state ----------------------------------------------------------------------------------

    def _follow(self) -> list[c.Command]:
        commands: list[c.Command] = []
        while True:
            over = self.state.terminal or self.exited or self.state is JobState.CREATED
            more = () if over else self._next()
            if not more:
                return commands
            commands += more

    def _next(self) -> _Commands:
        settled = self.coordinator.take_settled()
        if settled:
            return tuple(command for one in settled for command in self._settle(one)) or self._next()
        if self.lost is not None:
            instead = self._without_engine(self.lost)
            if instead is not None:
                return instead
        if self.coordinator.failures > self.config.checkpoint_tolerable_failures:
            return self._fail_over()
        if self.stop is not None and self.stop.may_overtake(self.now_ms, self.config.checkpoint_aligned_timeout_ms):
            self.stop.unaligned = True
        ordered = (*self.tasks.orders(self.now_ms, self.stop), *self._closable())
        if ordered:
            return ordered
        statuses = self.tasks.statuses()
        if set(statuses.values()) == {TaskStatus.CLOSED} and not self.coordinator.busy:
            if self.stop is None and self.coordinator.sealing:
                return ()  # an end by itself waits for savepoints, a stop for its own alone (`_closable`)
            return self._end(final_state(self.tasks.ends()))
        return self.coordinator.advance(
            self.now_ms, statuses, self._demanded(set(statuses.values())), periodic=self.stop is None and not self.batch
        )

    def _fail_over(self) -> _Commands:
        """Too many checkpoints have failed: start every task again after a pause, or end where that is enough."""
        failures, tolerable = self.coordinator.failures, self.config.checkpoint_tolerable_failures
        reason = self.coordinator.last_failure
        failing: Error = ("CHECKPOINTS_FAILING", {"failures": failures, "tolerable": tolerable, "reason": reason})
        pause_ms = self.coordinator.restarts.failed(self.now_ms)
        if pause_ms is None:
            return self._end(JobState.FAILED, error=failing)
        aborted = self.coordinator.give_up(self.now_ms, Reason.TASK_FAILURE, "the job starts again")
        self.coordinator.wait(self.now_ms + pause_ms)
        self.tasks.fail_over(self.now_ms + pause_ms)
        return (c.ReportFailure(error=failing), *aborted)

    def _closable(self) -> _Commands:
        """A stop that owes a savepoint ends with the checkpoint of that savepoint, no earlier."""
        if self.stop is not None and self.stop.waits_for_savepoint:
            return ()
        return tuple(self.tasks.closable())

    def _demanded(self, statuses: set[TaskStatus]) -> CheckpointRequest | None:
        if not statuses <= {TaskStatus.WAITING, TaskStatus.CLOSED}:
            return None
        if any(one.kind is CheckpointKind.STOP for one in self.coordinator.sealing.values()):
            return None
        if self.stop is None:
            return CheckpointRequest(kind=CheckpointKind.FINAL, unaligned=self.coordinator.unaligned)
        unaligned = self.stop.unaligned
        return CheckpointRequest(
            kind=CheckpointKind.STOP, unaligned=unaligned, directory=self.stop.directory, counts=self.stop.drain
        )

    def _settle(self, settled: Settled) -> _Commands:
        checkpoint, stop = settled.checkpoint, self.stop
        if settled.reason is not None:
            return self._settle_failed(checkpoint, settled.reason, settled.detail)
        if not settled.sealed:
            if self.tasks.completed(checkpoint.number, checkpoint.batches):
                self.engines.progressed()
            if checkpoint.directory is not None:
                return ()  # who asked for the savepoint is answered when that is made
        if stop is not None and stop.waits_for_savepoint and checkpoint.kind is CheckpointKind.STOP:
            stop.savepoint, stop.savepoint_failure, stop.settled = settled.savepoint, settled.detail, True
            if stop.savepoint is None and not stop.drain:
                return self._give_up(stop, settled.detail)
        return tuple(answered(settled, request) for request in checkpoint.requests)

    def _settle_failed(self, checkpoint: PendingCheckpoint, reason: Reason, detail: str) -> _Commands:
        words = reason.explained(detail)
        if checkpoint.kind is CheckpointKind.STOP and self.stop is not None and not self.stop.drain:
            return self._give_up(self.stop, words)
        if (
            checkpoint.kind in (CheckpointKind.STOP, CheckpointKind.FINAL)
            and reason is Reason.TASKS_FINISHED_FEATURE_OFF
        ):
            # It would be refused forever, and what has not been committed must not be called finished.
            tolerable = self.config.checkpoint_tolerable_failures
            return self._fail("CHECKPOINTS_FAILING", failures=1, tolerable=tolerable, reason=words)
        failed: Error = ("CHECKPOINT_FAILED", {"checkpoint": checkpoint.number, "job": self.name, "reason": words})
        return tuple(c.AnswerRequest(request=request, error=failed) for request in checkpoint.requests)

    def _give_up(self, stop: Stop, reason: str) -> _Commands:
        """Give up a plain stop that failed: the job continues. What had finished by itself keeps waiting."""
        self._become(JobState.RUNNING)
        return (*self.requests.give_up(stop, reason), *self.tasks.go_on())


_HANDLERS: dict[type[e.Event], Callable[[JobMachine, Any], _Commands]] = {
    e.JobStarted: JobMachine._job_started,
    e.Ticked: JobMachine._ticked,
    e.TaskStarted: JobMachine._task_started,
    e.BatchRecorded: JobMachine._batch_recorded,
    e.SourcesEnded: JobMachine._sources_ended,
    e.TaskSuspended: JobMachine._task_suspended,
    e.TaskFinished: JobMachine._task_finished,
    e.TaskClosed: JobMachine._task_closed,
    e.TaskFailed: JobMachine._task_failed,
    e.SnapshotTaken: JobMachine._snapshot_taken,
    e.SnapshotDeclined: JobMachine._snapshot_declined,
    e.ManifestWritten: JobMachine._manifest_written,
    e.ManifestFailed: JobMachine._manifest_failed,
    e.TransactionsCommitted: JobMachine._transactions_committed,
    e.CommitFailed: JobMachine._commit_failed,
    e.SavepointSealed: JobMachine._savepoint_sealed,
    e.SavepointFailed: JobMachine._savepoint_failed,
    e.CheckpointRequested: JobMachine._checkpoint_requested,
    e.StopRequested: JobMachine._stop_requested,
    e.CancelRequested: JobMachine._cancel_requested,
    e.EngineDied: JobMachine._engine_died,
    e.DriverFenced: JobMachine._driver_fenced,
}

_LATE_HANDLERS: dict[type[e.Event], Callable[[JobMachine, Any], _Commands]] = {
    e.CheckpointRequested: JobMachine._late_checkpoint,
    e.StopRequested: JobMachine._late_stop,
    e.CancelRequested: JobMachine._late_cancel,
    e.ResultRecorded: JobMachine._result_recorded,
    e.DriverFenced: JobMachine._driver_fenced,
}
"""What is still taken in once the result is decided and not yet recorded."""

_REQUESTS = (e.CheckpointRequested, e.StopRequested, e.CancelRequested)
