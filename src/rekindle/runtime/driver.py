"""The driver's loop: events go to the protocol, its commands are carried out in order, what came of them are events.

One thread, the loop, feeds the protocol; nothing in it blocks for long. Orders to a task run on a thread of the task's
own, one after the other; commits run on another, savepoints are copied on a third, and what is no longer needed is
deleted on a fourth. So a cancel is durable within moments, whatever hangs, and nothing waits for a large savepoint but
who asked for it.

The driver writes nothing that the protocol did not order, but for its heartbeat.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from rekindle.config import Config
from rekindle.errors import ConfigError, ControlError, RekindleError, StorageError, error_from, one_line
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import Job
from rekindle.protocol.states import JobState
from rekindle.runtime.checkpointing import Checkpointing
from rekindle.runtime.closing import CLOSE_S
from rekindle.runtime.control import ControlFolder
from rekindle.runtime.elapsed import Elapsed
from rekindle.runtime.heartbeat import Heartbeat
from rekindle.runtime.ports import Lifeline, TaskRunner
from rekindle.runtime.retention import Retention
from rekindle.runtime.worker import Worker
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.job_storage import JobStorage

LOOP_S = 0.05
CONTROL_S = 0.2
HEARTBEAT_S = 1.0
"""Pauses between looks at requests and between heartbeats, on a store of pace 1 (`Store.pace`)."""
LOOKS_GONE = 3
"""Looks in a row, one before each heartbeat, that find the job deleted, until it counts: a mount may come back."""
LEAVE_S = 5.0
"""How long a run that is over waits for orders that are still being carried out, so that the next does not meet
them."""

_LOG = logging.getLogger("rekindle")

_DRIVEN_HERE: Counter[tuple[str, str, int]] = Counter()
"""Storage, job and run of each driver of this process, from its claim on: its pid alone does not say that it lives."""

_Done = TypeVar("_Done")

Clock = Callable[[], int]
"""Milliseconds since the epoch: for people to read. What is decided goes by `Elapsed`."""


def system_clock() -> int:
    """The machine's time, ms since the epoch."""
    return round(time.time() * 1000)


def drive_here(storage: JobStorage, run: int) -> None:
    """Say that a driver of this process is at work on that run, or about to claim it."""
    _DRIVEN_HERE[storage.store.location, storage.job, run] += 1


def drive_no_more(storage: JobStorage, run: int) -> None:
    """Take back what `drive_here` said."""
    _DRIVEN_HERE[storage.store.location, storage.job, run] -= 1


def is_driven_here(storage: JobStorage, run: int) -> bool:
    """Whether a driver of this process is at work on that run."""
    return _DRIVEN_HERE[storage.store.location, storage.job, run] > 0


class Driver:
    """Runs one run of one job to its end.

    Args:
        job: the protocol, not started yet.
        runners: one for each subtask of the job that may have to run.
        started: the facts the protocol is started with.
    """

    def __init__(
        self,
        storage: JobStorage,
        run: Run,
        job: Job,
        runners: Mapping[SubtaskId, TaskRunner],
        checkpointing: Checkpointing,
        started: e.JobStarted,
        config: Config,
        engine: Lifeline,
        clock: Clock = system_clock,
    ) -> None:
        self._storage = storage
        self._run = run
        self._job = job
        self._runners = runners
        self._checkpointing = checkpointing
        self._started = started
        self._engine = engine
        self._clock = clock
        self._elapsed = Elapsed()
        self._events: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
        self._workers = {task: Worker(f"task-{task}") for task in runners}
        self._sinks = Worker("sinks")
        self._savepoints = Worker("savepoints")
        self._retention = Retention(storage, run, runners)
        #: tasks that an attempt was begun of
        self._begun: set[SubtaskId] = set()
        #: those whose attempt has failed: the next order begins another
        self._failed: set[SubtaskId] = set()
        self._heartbeat = Heartbeat(storage, run, job, runners, clock)
        self._exited = False
        #: the newer run that has taken over
        self._fenced_by: int | None = None
        self._control = ControlFolder(storage)
        #: looks in a row that have found the job deleted
        self._looks_gone = 0
        #: answers that the storage has refused, to be tried again
        self._owed: list[Answer] = []
        self.result: Result | None = None
        self._failed_over: c.FailOver | None = None

    def post(self, event: e.Event) -> None:
        """Take in an event, from any thread but the loop's where a task has failed: asking the engine may take time."""
        if isinstance(event, e.TaskFailed) and event.permanent and self._engine.is_gone():
            # Whatever it looks like: a dying engine loses files, and refuses plans.
            event = replace(event, permanent=False)
        self._events.put(event)

    def run(self) -> Result | c.FailOver:
        """Loop until the run is over; returns how it ended, or how it is left to the next run of this process.

        Raises:
            ControlError: ``DRIVER_FENCED``, a newer run has taken over.
        """
        try:
            self._feed(self._started)
            self._engine.watch(self._engine_died)
            self._loop()
        except BaseException as error:
            if isinstance(error, Exception) and self._is_gone():
                gone = self._gone()
                self._give_up(gone)
                raise gone from error
            self._give_up(error)
            raise
        finally:
            self._engine.close()
            # Behind what the sinks still commit: no sink is closed while it does.
            self._sinks.submit(partial(_close_all, list(self._runners.values())))
            canceled = self.result is not None and self.result.state == JobState.CANCELED.value
            self._savepoints.close()  # the protocol has waited for what the end waits for
            for worker in self._workers.values():
                worker.close(0 if canceled else LEAVE_S)
            self._retention.close(0 if canceled else LEAVE_S)
            # Also on a cancel, which hears of nothing else: what a sink holds open is to be released.
            self._sinks.close(LEAVE_S)
            drive_no_more(self._storage, self._run.run)
        if self._fenced_by is not None:
            raise ControlError("DRIVER_FENCED", run=self._run.run, job=self._storage.job, newer=self._fenced_by)
        if self._failed_over is not None:
            return self._failed_over
        self._heartbeat.beat()
        assert self.result is not None, "the protocol exits only after it has recorded a result"
        return self.result

    def _loop(self) -> None:
        control_at = heartbeat_at = snapshots_at = 0.0
        pace = self._storage.store.pace
        while not self._exited:
            now = time.monotonic()
            if now >= heartbeat_at:
                heartbeat_at = now + HEARTBEAT_S * pace
                self._look_whether_gone()
                if not self._looks_gone:
                    self._heartbeat.beat()
            if now >= control_at:
                control_at = now + CONTROL_S * pace
                if self._is_fenced():
                    return
                self._feed_waiting()  # what had happened when somebody asked is heard before the request
                self._read_control(now)
            now_ms = self._elapsed.now_ms()
            self._feed(e.Ticked(now_ms=now_ms))
            if now >= snapshots_at:
                snapshots_at = now + LOOP_S * (pace - 1)
                for runner in self._runners.values():
                    _tried(partial(runner.tick, now_ms))
                self._take_snapshots()
            self._drain_queue()

    def _give_up(self, error: BaseException) -> None:
        """The loop itself failed, as when the storage refuses a write: stop what runs, and say so if that can be."""
        self._exited = True
        for runner in self._runners.values():
            runner.kill()
        told = error.to_json() if isinstance(error, RekindleError) else None
        result = Result(run=self._run.run, state=JobState.FAILED.value, ended_ms=self._clock(), error=told)
        with contextlib.suppress(Exception):
            if self._storage.fenced_by(self._run.run) is None and not self._storage.is_deleted(self._run):
                self._storage.record_result(result)

    def _drain_queue(self) -> None:
        try:
            self._feed(self._events.get(timeout=LOOP_S))
        except queue.Empty:
            return
        self._feed_waiting()

    def _feed_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while not self._exited:
                self._feed(self._events.get_nowait())

    def _feed(self, event: e.Event) -> None:
        self._heartbeat.heard(event)
        if isinstance(event, e.TaskFailed):
            # No one else says so while it is started again, which may go on for as long as its reason does.
            _LOG.warning("Task %s has failed: %s", event.task, event.reason)
            self._failed.add(event.task)
        for command in self._job.handle(event):
            self._heartbeat.ordered(command)
            _EXECUTE[type(command)](self, command)

    def _engine_died(self, reason: str) -> None:
        self.post(e.EngineDied(reason=reason, replaceable=self._engine.replaceable))

    # -- watching -----------------------------------------------------------------------------------------------------

    def _is_fenced(self) -> bool:
        self._fenced_by = _tried(lambda: self._storage.fenced_by(self._run.run))
        if self._fenced_by is not None:
            self._feed(e.DriverFenced(newer_run=self._fenced_by))
        return self._fenced_by is not None

    def _look_whether_gone(self) -> None:
        """End the run where its job was deleted: what it writes from now on would be found by no one."""
        self._looks_gone = self._looks_gone + 1 if self._is_gone() else 0
        if self._looks_gone >= LOOKS_GONE:
            raise self._gone()

    def _is_gone(self) -> bool:
        """Whether the job is deleted, as it looks now; a storage that does not answer says nothing of that."""
        return bool(_tried(lambda: self._storage.is_deleted(self._run)))

    def _gone(self) -> StorageError:
        uri = self._storage.store.location
        return StorageError("STORAGE_GONE", job=self._storage.job, uri=uri, run=self._run.run)

    def _read_control(self, now_s: float) -> None:
        # Only the reading may fail and be repeated: what follows from a request is carried out whole, or ends the run.
        owed, self._owed = self._owed, []
        for answer in owed:
            self._answer(answer)
        found = _tried(lambda: self._control.look(now_s))
        if found is None:
            return
        for request_id, error in found.unreadable.items():
            self._refuse(request_id, error)
        for request in found.requests:
            if self._exited:
                # What comes after the end is for the next run to refuse.
                return
            if not self._run.answers(request.run):
                self._refuse(request.id, ControlError("REQUEST_STALE", run=request.run))
            elif request.verb not in _EVENTS:
                verbs = ", ".join(_EVENTS)
                self._refuse(request.id, ConfigError("VERB_UNKNOWN", verb=request.verb, hint="", verbs=verbs))
            else:
                self._feed(_EVENTS[request.verb](request))
        with contextlib.suppress(ControlError):  # it has just been fenced, and hears of that at its next look
            _tried(lambda: self._control.clean(now_s))

    def _refuse(self, request_id: str, error: RekindleError) -> None:
        """Answer a request that the protocol never hears of."""
        self._answer(Answer(id=request_id, job=self._storage.job, state="", answered_ms=0, error=error.to_json()))

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _order(self, task: SubtaskId, act: Callable[[], e.Event | None]) -> None:
        """Carry out an order on the task's own thread; what goes wrong is its failure."""

        def carry_out() -> None:
            if self._exited:
                return
            try:
                event = act()
            except BaseException as error:  # whatever it is: an order never ends without a word
                event = e.TaskFailed(
                    task=task,
                    reason=one_line(error),
                    permanent=isinstance(error, RekindleError) and error.permanent,
                    error=_known(error),
                )
            if event is not None:
                self.post(event)

        self._workers[task].submit(carry_out)

    def _end_attempt(self, task: SubtaskId) -> None:
        """Close an attempt, before the next one, behind what its sinks commit now; one that cannot be waited for goes
        over into the next. On the task's own thread."""
        runner = self._runners[task]
        runner.abandon()
        if not self._sinks.ask(partial(_close, runner), CLOSE_S):
            _LOG.warning("Task %s goes on without its sinks being closed: they still commit", task)

    def _is_over(self, task: SubtaskId) -> bool:
        """Return True, once, if the attempt of a task has failed."""
        failed = task in self._failed
        self._failed.discard(task)
        return failed

    def _start_task(self, command: c.StartTask) -> None:
        runner, task = self._runners[command.task], command.task
        again = task in self._begun
        self._begun.add(task)
        self._failed.discard(task)

        def start() -> None:
            if again:
                self._end_attempt(task)
            # What failed may have failed because of a newer run, whose query this one's would disturb.
            if self._storage.fenced_by(self._run.run) is None:
                runner.start()

        self._order(command.task, start)

    def _suspend_task(self, command: c.SuspendTask) -> None:
        runner, task = self._runners[command.task], command.task
        again = self._is_over(task)

        def suspend() -> e.Event:
            if again:
                self._end_attempt(task)
            return e.TaskSuspended(task=task, batch=runner.suspend())

        self._order(task, suspend)

    def _finish_task(self, command: c.FinishTask) -> None:
        runner, task = self._runners[command.task], command.task
        again = self._is_over(task)

        def finish() -> e.Event:
            if again:
                self._end_attempt(task)
            batch, notes = runner.finish(command.drain)
            return e.TaskFinished(task=task, batch=batch, drained=command.drain, notes=notes)

        self._order(task, finish)

    def _close_task(self, command: c.CloseTask) -> None:
        runner, task = self._runners[command.task], command.task

        def close() -> e.Event:
            runner.close()
            return e.TaskClosed(task=task)

        self._order(task, close)

    def _stop_sources(self, command: c.StopSources) -> None:
        self._runners[command.task].stop_sources()

    def _allow_reading(self, command: c.AllowReading) -> None:
        self._runners[command.task].allow(command.producer, command.upto)

    def _kill_task(self, command: c.KillTask) -> None:
        if command.task in self._runners:
            self._runners[command.task].kill()

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _take_snapshot(self, command: c.TakeSnapshot) -> None:
        self._checkpointing.order(command)
        self._take_snapshots()

    def _take_snapshots(self) -> None:
        for event in self._checkpointing.snapshots():
            self.post(event)

    def _write_manifest(self, command: c.WriteManifest) -> None:
        if self._is_fenced():
            return
        age_ms = self._job.now_ms - command.triggered_ms
        try:
            if self._is_gone():
                raise self._gone()
            self._checkpointing.complete(replace(command, triggered_ms=self._clock() - age_ms))
        except RekindleError as error:
            self.post(e.ManifestFailed(checkpoint=command.checkpoint, detail=str(error)))
        else:
            # A run that has taken over since finds the manifest, and commits it itself.
            if not self._is_fenced():
                self.post(e.ManifestWritten(checkpoint=command.checkpoint))

    def _commit(self, command: c.CommitTransactions) -> None:
        number = command.permit.checkpoint

        def commit() -> None:
            try:
                self._checkpointing.commit(command.permit)
            except Exception as error:
                # No one else says so while it is tried again.
                _LOG.warning("Checkpoint %d is not committed yet: %s", number, error)
                permanent = isinstance(error, RekindleError) and error.permanent
                failed = e.CommitFailed(checkpoint=number, detail=str(error), permanent=permanent, error=_known(error))
                self.post(failed)
            else:
                self.post(e.TransactionsCommitted(checkpoint=number))

        self._sinks.submit(commit)

    def _seal(self, command: c.SealSavepoint) -> None:
        def look() -> None:
            if self._exited:
                reason = "the job has ended meanwhile"
                raise ControlError("SAVEPOINT_FAILED", path=command.directory, reason=reason)

        def seal() -> None:
            try:
                path, size_bytes = self._checkpointing.seal(command.checkpoint, command.directory, look)
            except Exception as error:
                self.post(e.SavepointFailed(checkpoint=command.checkpoint, detail=str(error)))
            else:
                self.post(e.SavepointSealed(checkpoint=command.checkpoint, path=path, size_bytes=size_bytes))

        self._savepoints.submit(seal)

    def _abort_checkpoint(self, command: c.AbortCheckpoint) -> None:
        self._checkpointing.abort(command.checkpoint)

    def _discard_older(self, command: c.DiscardOlder) -> None:
        self._retention.order(command)

    # -- results and answers ------------------------------------------------------------------------------------------

    def _record_result(self, command: c.RecordResult) -> None:
        if self._is_fenced():
            return  # whoever failed because of its successor is told so, and not of what came of it
        if self._is_gone():
            raise self._gone()  # so is what failed because its files are no longer there
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
        self.result = self._storage.record_result(result)
        self.post(e.ResultRecorded())

    def _answer_request(self, command: c.AnswerRequest) -> None:
        error = error_from(*command.error).to_json() if command.error else None
        self._answer(
            Answer(
                id=command.request,
                job=self._storage.job,
                state=self._job.state.value,
                answered_ms=0,
                checkpoint=command.checkpoint,
                savepoint=command.savepoint,
                notes=command.notes,
                error=error,
            )
        )

    def _answer(self, answer: Answer) -> None:
        """Answer, durably. Whoever asked waits; a storage that refuses the answer is no reason to end the job."""
        made = replace(answer, state=answer.state or self._job.state.value, answered_ms=self._clock())
        if _tried(lambda: self._storage.answer(made)) is None:
            self._owed.append(made)

    def _fail_over(self, command: c.FailOver) -> None:
        self._failed_over = command

    def _exit(self, command: c.Exit) -> None:
        self._exited = True

    @property
    def number(self) -> int:
        """The number of its run."""
        return self._run.run

    @property
    def storage(self) -> JobStorage:
        """Where its job is kept."""
        return self._storage

    @property
    def state(self) -> JobState:
        """The job's state, from any thread."""
        return self._job.state

    @property
    def heartbeat(self) -> Heartbeat:
        """What the driver shows of itself."""
        return self._heartbeat


def _known(error: BaseException) -> tuple[str, dict[str, object]] | None:
    """Code and parameters, for an event."""
    return (error.code, error.parameters) if isinstance(error, RekindleError) else None


def _tried(act: Callable[[], _Done]) -> _Done | None:
    """What `act` returns; None where the storage refuses, and it is to be tried again in a moment."""
    try:
        return act()
    except StorageError as error:
        _LOG.warning("The storage refuses, and is tried again: %s", error)
        return None


_EVENTS: dict[str, Callable[[Request], e.Event]] = {
    "checkpoint": lambda request: e.CheckpointRequested(request=request.id),
    "savepoint": lambda request: e.CheckpointRequested(
        request=request.id, directory=request.savepoint, unaligned=request.unaligned
    ),
    "stop": lambda request: e.StopRequested(
        request=request.id, drain=request.drain, directory=request.savepoint, unaligned=request.unaligned
    ),
    "cancel": lambda request: e.CancelRequested(request=request.id),
}
"""Verb of a request → what the protocol hears. Any other verb is answered with an error."""


def _close(runner: TaskRunner) -> None:
    """However an attempt ends, it is closed (FLIP-147: close() also on failure and cancel)."""
    try:
        runner.close()
    except Exception as error:
        _LOG.warning("A task could not be closed: %s", error)


def _close_all(runners: Sequence[TaskRunner]) -> None:
    """Close what a run leaves open, side by side: one that hangs keeps no other from it."""
    threads = [threading.Thread(target=_close, args=(runner,), name="close", daemon=True) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


_EXECUTE: dict[type[c.Command], Callable[[Driver, Any], None]] = {
    c.StartTask: Driver._start_task,
    c.SuspendTask: Driver._suspend_task,
    c.FinishTask: Driver._finish_task,
    c.CloseTask: Driver._close_task,
    c.KillTask: Driver._kill_task,
    c.StopSources: Driver._stop_sources,
    c.AllowReading: Driver._allow_reading,
    c.TakeSnapshot: Driver._take_snapshot,
    c.WriteManifest: Driver._write_manifest,
    c.CommitTransactions: Driver._commit,
    c.SealSavepoint: Driver._seal,
    c.AbortCheckpoint: Driver._abort_checkpoint,
    c.DiscardOlder: Driver._discard_older,
    c.RecordResult: Driver._record_result,
    c.AnswerRequest: Driver._answer_request,
    c.FailOver: Driver._fail_over,
    c.Exit: Driver._exit,
}
"""Command → how it is carried out."""
