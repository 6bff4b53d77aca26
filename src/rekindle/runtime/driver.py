"""The driver's loop: events go to the protocol, its commands are carried out in order, and their outcomes are events.

One thread, the loop, feeds the protocol; nothing in it blocks for long. Orders to a task run on a thread of the task's
own, one after the other. Commits run on another thread, savepoints are copied on a third, and files that are no longer
needed are deleted on a fourth. So a cancel is durable within moments, whatever hangs, and only the request for a large
savepoint waits for it.

The driver writes nothing that the protocol did not order, except its heartbeat.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rekindle.errors import ControlError, RekindleError, error_from
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import JobState
from rekindle.runtime.checkpointing import Checkpointing
from rekindle.runtime.committing import commit, seal
from rekindle.runtime.definition import RunContext
from rekindle.runtime.driven import drive_no_more
from rekindle.runtime.heartbeat import Heartbeat
from rekindle.runtime.mailbox import Mailbox
from rekindle.runtime.orders import TaskOrders
from rekindle.runtime.ports import Lifeline, TaskRunner
from rekindle.runtime.requests import Requests
from rekindle.runtime.retention import Retention
from rekindle.runtime.rhythm import rhythms
from rekindle.runtime.standing import RunStanding
from rekindle.runtime.worker import Worker
from rekindle.storage.documents.runs import Result
from rekindle.storage.job_storage import JobStorage


class Driver:
    """The driver of one run of one job.

    Args:
        job: the protocol, not started yet.
        runners: one for each subtask of the job that may have to run.
        started: the facts that the protocol is started with.
        events: the queue of events for the protocol.
    """

    def __init__(
        self,
        run: RunContext,
        job: JobMachine,
        runners: Mapping[SubtaskId, TaskRunner],
        checkpointing: Checkpointing,
        *,
        started: e.JobStarted,
        events: Mailbox,
        engine: Lifeline,
    ) -> None:
        self._storage = run.storage
        self._run = run.run
        self._clock = run.clock
        self._pauses = run.pauses
        self._job = job
        self._checkpointing = checkpointing
        self._started = started
        self._events = events
        self._engine = engine
        self._elapsed = run.elapsed
        self._standing = RunStanding(run)
        # Before the threads, which no one would end: it reads the storage, which may refuse that.
        self._heartbeat = Heartbeat(run.storage, run.run, job, runners, run.clock, run.graph)
        self._sinks, self._savepoints = Worker("sinks"), Worker("savepoints")
        self._orders = TaskOrders(run, runners, self._sinks, lambda: self._exited)
        self._retention = Retention(run.storage, run.run, runners)
        self._requests = Requests(run, lambda: job.state, lambda: self._exited, self._heartbeat.asked)
        self._exited = False
        #: time of the last event of the job
        self._happened_s = time.monotonic()
        #: True if this process has made a request
        self._called = False
        #: the newer run that has taken over; None: there is none
        self._fenced_by: int | None = None
        self.result: Result | None = None
        self._failed_over: c.FailOver | None = None

    def run(self) -> Result | c.FailOver:
        """Loop until the run is over; return its result, or the order to continue in the next run of this process.

        Raises:
            ControlError: ``DRIVER_FENCED``, a newer run has taken over.
            StorageError: ``STORAGE_GONE``, or the storage refuses a write.
            JobError: ``DRIVER_FAILED``: the loop has met what no one has foreseen.
        """
        try:
            self._feed(self._started)
            self._engine.watch(self._engine_died)
            self._loop()
        except BaseException as error:
            cause = self._standing.cause_of(error)
            self._give_up(cause)
            if cause is error:
                raise
            raise cause from error
        finally:
            self._engine.close()
            self._orders.close_all()
            canceled = self.result is not None and self.result.state == JobState.CANCELED.value
            self._savepoints.close()  # savepoints that the end waits for are done: the protocol has waited
            leave_s = self._pauses.leave_s
            self._orders.end(0 if canceled else leave_s)
            self._retention.close(0 if canceled else leave_s)
            # Also on a cancel, which waits for nothing else: the sinks must release what they hold open.
            self._sinks.close(leave_s)
            drive_no_more(self._storage, self._run.run)
        if self._fenced_by is not None:
            raise ControlError("DRIVER_FENCED", run=self._run.run, job=self._storage.job, newer=self._fenced_by)
        if self._failed_over is not None:
            return self._failed_over
        self._heartbeat.beat()
        assert self.result is not None, "the protocol exits only after it has recorded a result"
        return self.result

    def _loop(self) -> None:
        snapshots_at, pace = 0.0, self._storage.store.pace
        control, heartbeat = rhythms(pace, self._pauses)
        while not self._exited:
            now = time.monotonic()
            called, self._called = self._called, False
            due = control.is_due(now, self._happened_s)
            rung = called or (due and self._requests.rung())
            self._happened_s = now if rung else self._happened_s  # a client that rings may wait for a sign of life
            asked = rung or (due and self._requests.are_overdue(now))
            if heartbeat.is_due(now, self._happened_s):
                asked |= not (self._standing.look() and self._heartbeat.beat(heartbeat.pause_s))
            if asked and self._is_fenced():
                return
            if asked:
                for request in self._requests.heard(now):
                    self._feed_waiting()  # first what was before the request: its client may have seen the batch
                    self._feed(request)
            now_ms = self._elapsed.now_ms()
            self._feed(e.Ticked(now_ms=now_ms))
            if now >= snapshots_at:
                snapshots_at = now + self._pauses.loop_s * (pace - 1)
                self._orders.tick(now_ms)
                self._take_snapshots()
            self._drain_queue()

    def _give_up(self, error: BaseException) -> None:
        """Stop all tasks after the loop itself failed, as when the storage refuses a write; record that if possible."""
        self._exited = True
        self._orders.kill_all()
        document = error.to_json() if isinstance(error, RekindleError) else None
        result = Result(run=self._run.run, state=JobState.FAILED.value, ended_ms=self._clock(), error=document)
        with contextlib.suppress(Exception):
            if self._storage.fence.newer_than(self._run.run) is None and not self._storage.fence.is_deleted(self._run):
                self._heartbeat.ended(self._storage.record_result(result))
                self._heartbeat.beat()

    def _drain_queue(self) -> None:
        event = self._events.take(self._pauses.loop_s)
        if event is not None:
            self._feed(event)
            self._feed_waiting()

    def _feed_waiting(self) -> None:
        while not self._exited and (event := self._events.take()) is not None:
            self._feed(event)

    def _feed(self, event: e.Event) -> None:
        if not isinstance(event, e.Ticked):
            self._happened_s = time.monotonic()
        self._heartbeat.heard(event)
        if isinstance(event, e.TaskFailed):
            self._orders.failed(event.task)
        commands = self._job.handle(event)
        for command in commands:
            self._heartbeat.ordered(command)
            _EXECUTE[type(command)](self, command)
        if any(isinstance(command, c.TakeSnapshot) for command in commands):
            self._take_snapshots()  # once for all of them

    def _engine_died(self, reason: str) -> None:
        self._events.post(e.EngineDied(reason=reason, replaceable=self._engine.replaceable))

    # -- watching -----------------------------------------------------------------------------------------------------

    def _is_fenced(self) -> bool:
        self._fenced_by = self._standing.fenced_by()
        if self._fenced_by is not None:
            self._feed(e.DriverFenced(newer_run=self._fenced_by))
        return self._fenced_by is not None

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _take_snapshots(self) -> None:
        for event in self._checkpointing.snapshots():
            self._events.post(event)

    def _write_manifest(self, command: c.WriteManifest) -> None:
        if self._is_fenced():
            return
        age_ms, began_s = self._job.now_ms - command.triggered_ms, time.monotonic()
        try:
            self._standing.refuse_if_gone()
            manifest = self._checkpointing.complete(replace(command, triggered_ms=self._clock() - age_ms))
            self._heartbeat.completed(manifest, age_ms + round((time.monotonic() - began_s) * 1_000))
        except RekindleError as error:
            self._events.post(e.ManifestFailed(checkpoint=command.checkpoint, detail=str(error)))
        else:
            # A run that has taken over since finds the manifest, and commits it itself.
            if not self._is_fenced():
                self._events.post(e.ManifestWritten(checkpoint=command.checkpoint))

    def _commit(self, command: c.CommitTransactions) -> None:
        self._sinks.submit(lambda: self._events.post(commit(self._checkpointing, command)))

    def _seal(self, command: c.SealSavepoint) -> None:
        self._savepoints.submit(lambda: self._events.post(seal(self._checkpointing, command, lambda: self._exited)))

    def _abort_checkpoint(self, command: c.AbortCheckpoint) -> None:
        self._checkpointing.abort(command.checkpoint)

    def _discard_older(self, command: c.DiscardOlder) -> None:
        self._retention.order(command)

    # -- results and answers ------------------------------------------------------------------------------------------

    def _record_result(self, command: c.RecordResult) -> None:
        if self._is_fenced():
            return  # a fenced driver reports that, and not the failure that the fencing has caused
        self._standing.refuse_if_gone()  # then that is reported, and not the failure that it has caused
        error = error_from(*command.error).to_json() if command.error else None
        result = Result(
            run=self._run.run,
            state=command.state,
            ended_ms=self._clock(),
            checkpoint=command.checkpoint,
            savepoint=command.savepoint,
            notes=command.notes,
            error=error,
        )
        # Before the result: after it there may be no other run that finds what is missing.
        self._heartbeat.beat()
        self.result = self._storage.record_result(result)
        self._heartbeat.ended(self.result)
        self._events.post(e.ResultRecorded())

    def _fail_over(self, command: c.FailOver) -> None:
        self._failed_over = command

    def _exit(self, command: c.Exit) -> None:
        self._exited = True

    def look(self) -> None:
        """Read the requests now; may be called from any thread."""
        self._called = True
        self._events.wake()

    @property
    def number(self) -> int:
        """The number of its run."""
        return self._run.run

    @property
    def storage(self) -> JobStorage:
        """The storage of its job."""
        return self._storage

    @property
    def heartbeat(self) -> Heartbeat:
        """The heartbeat, which writes the status of the run."""
        return self._heartbeat


_EXECUTE: dict[type[c.Command], Callable[[Driver, Any], None]] = {
    c.StartTask: lambda driver, command: driver._orders.start(command),
    c.SuspendTask: lambda driver, command: driver._orders.suspend(command),
    c.FinishTask: lambda driver, command: driver._orders.finish(command),
    c.CloseTask: lambda driver, command: driver._orders.close(command),
    c.KillTask: lambda driver, command: driver._orders.kill(command),
    c.StopSources: lambda driver, command: driver._orders.stop_sources(command),
    c.AllowReading: lambda driver, command: driver._orders.allow(command),
    c.TakeSnapshot: lambda driver, command: driver._checkpointing.order(command),
    c.WriteManifest: Driver._write_manifest,
    c.CommitTransactions: Driver._commit,
    c.SealSavepoint: Driver._seal,
    c.AbortCheckpoint: Driver._abort_checkpoint,
    c.DiscardOlder: Driver._discard_older,
    c.RecordResult: Driver._record_result,
    c.AnswerRequest: lambda driver, command: driver._requests.answer(command),
    c.ReportFailure: lambda driver, command: None,  # the heartbeat hears every command
    c.FailOver: Driver._fail_over,
    c.Exit: Driver._exit,
}
"""Command → function that carries it out."""
