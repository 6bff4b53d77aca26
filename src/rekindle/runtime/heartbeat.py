"""The heartbeat: a driver writes its status, ``status.json``, once a second, and the history with it.

It hears the events and commands of the protocol, and keeps the facts that are in no other document: the checkpoints in
progress and those that failed, the last failure of each task and of the job, and the counts over all runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rekindle.errors import ControlError, RekindleError, StorageError, error_from
from rekindle.graph.job_graph import JobGraph
from rekindle.history.recorder import Recorder
from rekindle.history.totals import Totals, earlier_failures, earlier_stats, sum_of, taken_over
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.ending import Error
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import TASK_STEPS
from rekindle.runtime.occupation import confirmed_until
from rekindle.runtime.ports import TaskRunner
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.control import Request
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.documents.status import CheckpointStats, Failure, Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process

_LOG = logging.getLogger(__name__)

HISTORY = 50
"""The number of checkpoints that the status keeps."""

_END_OF_TIME_MS = 253_000_000_000_000
"""A watermark of the year 9987 or later is the end of an input, or a flush: it has no lag."""


class Heartbeat:
    """The writer of the status of one run."""

    def __init__(
        self,
        storage: JobStorage,
        run: Run,
        job: JobMachine,
        runners: Mapping[SubtaskId, TaskRunner],
        clock: Callable[[], int],
        graph: JobGraph,
    ) -> None:
        self._storage = storage
        self._run = run
        self._job = job
        self._runners = runners
        self._clock = clock
        self._beat, self._next_beat_ms = 0, 0
        self._unshown: set[SubtaskId] = set()  # the log reports each once
        last, identity = storage.status(), storage.identity()
        self._identity = identity.id if identity else ""
        #: newest first; replaced as a whole, because others read it from their threads
        self._stats: tuple[CheckpointStats, ...] = earlier_stats(last)
        self._completed = last.checkpoints_completed if last else 0
        self._failed = last.checkpoints_failed if last else 0
        self._latest_ms: int | None = last.latest_checkpoint_ms if last else None
        #: last failure of each task; the next attribute: of the job
        self._failures: dict[SubtaskId, Failure] = {}
        self._failure, self._restarts = earlier_failures(last, run)
        #: restarts of the processes before this one
        self._restarts_before = (last.restarts_total if last else 0) - self._restarts
        #: time at which another engine is tried; None: this run has one
        self._engine_ms: int | None = None
        #: tasks that have sinks; None: not known
        self._with_sinks = frozenset(sink.task for sink in run.description.sinks) if run.description else None
        self._before = taken_over(last, graph, job.tasks.states)
        self._totals = Totals(storage, run, self._before)
        self._shown: Mapping[SubtaskId, TaskStatusDocument] = {}
        self.recorder = Recorder(storage, run, job, last, clock, self._state_bytes)
        #: lock: between two runs of a process two threads write the status
        self._beating = threading.Lock()

    def heard(self, event: e.Event) -> None:
        """Note the facts of an event about a checkpoint, or a failure."""
        self.recorder.heard(event)
        match event:
            case e.JobStarted():
                self._totals.started(event)
            case e.BatchRecorded():
                self._totals.recorded(event)
            case e.TaskFailed():
                status = self._job.tasks.states[event.task].status
                if TASK_STEPS[e.TaskFailed][status] is not status:  # else its death was noticed before
                    unnamed: Error = ("TASK_FAILED", {"task": str(event.task), "reason": event.reason})
                    error = error_from(*(event.error or unnamed))
                    self._failures[event.task] = self.failed(error)
                    self.recorder.events.tasks.failed(event.task, error, event.trace)
            case e.CommitFailed():
                parameters = {"sink": "-", "checkpoint": event.checkpoint, "reason": event.detail}
                error = error_from(*(event.error or ("SINK_COMMIT_FAILED", parameters)))
                self.failed(error)
                self.recorder.events.commit_failed(event.checkpoint, error)
            case e.TransactionsCommitted():
                self._totals.committed(event.checkpoint)
            case e.SnapshotTaken():
                acknowledged, participants = self._of(event.checkpoint).acknowledged
                self._change(event.checkpoint, acknowledged=(acknowledged + 1, participants))
            case e.ManifestWritten():
                self._completed += 1
                self._latest_ms = self._clock()
            case e.SavepointSealed():
                self._change(event.checkpoint, path=event.path, size_bytes=event.size_bytes)
            case _:
                return

    def ordered(self, command: c.Command) -> None:
        """Note the facts of a command about a checkpoint, or the engine."""
        self.recorder.ordered(command)
        match command:
            case c.WriteManifest():
                self._totals.covers(command.checkpoint, command.transactions)
            case c.TakeSnapshot():
                pending = self._job.coordinator.pending.get(command.checkpoint)
                if pending is not None and all(stats.id != command.checkpoint for stats in self._stats):
                    started = CheckpointStats(
                        id=command.checkpoint,
                        kind=pending.asked.kind.value,
                        status="in_progress",
                        triggered_at=self._clock(),
                        acknowledged=(len(pending.finished), pending.participants),
                    )
                    self._stats = (started, *self._stats)[:HISTORY]
            case c.AbortCheckpoint():
                self._failed += 1
                self._change(command.checkpoint, status="failed", failure=command.reason)
            case c.ReportFailure():
                error = error_from(*command.error)
                self.failed(error)
                self.recorder.events.restarted(error)
            case c.FailOver():
                error = error_from("SPARK_DIED", {"reason": command.reason})
                self.failed(error, again_in_ms=command.delay_ms)
                self.recorder.events.restarted(error)
            case _:
                return

    def failed(self, error: RekindleError, again_in_ms: int | None = None) -> Failure:
        """Note the last failure of the job; `again_in_ms`: time until another engine is tried, if the engine failed."""
        now_ms = self._clock()
        failure = Failure(code=error.code, message=error.message, next_step=error.next_step, failed_ms=now_ms)
        self._failure = failure
        if again_in_ms is not None:
            self._engine_ms = now_ms + again_in_ms
            self._restarts += 1
        return failure

    def status(self) -> Status:
        """Return the status now; may be called from any thread."""
        return self._status(tuple(self._task(task) for task in self._job.tasks.states))

    def _status(self, tasks: tuple[TaskStatusDocument, ...]) -> Status:
        commit_ms = self._as_time_of_day(self._job.coordinator.settlement.commits.again_ms)
        waits = [commit_ms, self._engine_ms, *(task.next_attempt_ms for task in tasks)]
        restarts = (
            self._restarts
            + self._job.coordinator.settlement.failures.restarts.granted
            + sum(state.restarts.granted for state in self._job.tasks.states.values())
        )
        completed = self._job.coordinator.settlement.completed
        return Status(
            job=self._storage.job,
            state=self._job.state.value,
            run=self._run.run,
            beat=self._beat,
            written_ms=self._clock(),
            next_beat_ms=self._next_beat_ms,
            tasks=tasks,
            checkpoints_completed=self._completed,
            checkpoints_failed=self._failed,
            latest_checkpoint=completed.latest,
            latest_checkpoint_ms=self._latest_ms,
            latest_checkpoint_confirmed_ms=confirmed_until(
                self._as_time_of_day(completed.confirmed_ms, past=True), self._latest_ms, tasks, self._clock()
            ),
            history=self._stats,
            mode=self._run.mode,
            failure=self._failure,
            restarts=restarts,
            next_attempt_ms=min((wait_ms for wait_ms in waits if wait_ms is not None), default=None),
            started_ms=self._run.started_ms,
            rows_in=sum_of(task.rows_of_sources for task in tasks),
            rows_out=sum_of(task.rows_out for task in tasks if self._has_sinks(task.uid)),
            rows_uncommitted=self._rows_uncommitted(),
            batches=sum(task.batches for task in tasks),
            restarts_total=self._restarts_before + restarts,
            version=self._run.description.version if self._run.description else "",
            identity=self._identity,
            **this_process()._asdict(),
        )

    def beat(self, next_s: float | None = None) -> bool:
        """Write the status. Return False if the storage refuses, or a newer run has taken over: others decide on that.

        Args:
            next_s: longest time until the next beat, in seconds; None: as before.
        """
        if not self._beating.acquire(blocking=False):
            return True
        try:
            self._next_beat_ms = self._next_beat_ms if next_s is None else round(next_s * 1_000)
            self._beat += 1
            self._shown = tasks = {task: self._task(task) for task in self._job.tasks.states}
            status = self._status(tuple(tasks.values()))
            newest = self.recorder.beat(self._job.now_ms, status, self._has_sinks)
            status = replace(status, written_ms=self._clock(), newest=newest, result=self.recorder.result)
            self._storage.replace(layout.status(self._storage.job), status)
            return True
        except (StorageError, ControlError):
            return False
        finally:
            self._beating.release()

    def asked(self, request: Request) -> None:
        """Note a request, and its author."""
        self.recorder.events.asked(request)

    def completed(self, manifest: Manifest, took_ms: int) -> None:
        """Note that the manifest of a checkpoint exists, so many milliseconds after its trigger."""
        folder = layout.checkpoint(self._storage.job, manifest.checkpoint)
        path = f"{self._storage.store.location.rstrip('/')}/{folder}"
        self._change(manifest.checkpoint, status="completed", duration_ms=took_ms, path=path)
        self.recorder.completed(manifest, took_ms)

    def ended(self, result: Result) -> None:
        """Note the result of the run."""
        self.recorder.ended(result)

    def _task(self, task: SubtaskId) -> TaskStatusDocument:
        state, runner, before = self._job.tasks.states[task], self._runners.get(task), self._before.get(task)
        rates = self.recorder.rates.rates.get(task)
        shown = self._shown_by(task, runner)
        return replace(
            shown,
            status=state.status.value,
            rows_in=sum_of((before.rows_in if before else None, shown.rows_in)),
            rows_of_sources=sum_of((before.rows_of_sources if before else None, shown.rows_of_sources)),
            rows_out=self._totals.rows_out.get(task),
            batches=self._totals.batches.get(task, 0),
            lag_ms=None if state.ended is not None else self._lag_ms(shown.watermark),
            busy=rates.busy if rates else None,
            back_pressured=rates.back_pressured if rates else None,
            idle=rates.idle if rates else None,
            failure=self._failures.get(task),
            restarts=state.restarts.granted,
            next_attempt_ms=self._as_time_of_day(state.restart_ms),
        )

    def _shown_by(self, task: SubtaskId, runner: TaskRunner | None) -> TaskStatusDocument:
        """Return the status of a runner. A figure that cannot be read is only missing: it never ends a job."""
        nothing = TaskStatusDocument(uid=task.task, subtask=task.subtask, status="", batch=-1)
        try:
            return runner.status() if runner is not None else nothing
        except Exception:
            if task not in self._unshown:
                _LOG.warning("The status of task %s cannot be made.", task, exc_info=True)
            self._unshown.add(task)
            return nothing

    def _lag_ms(self, watermark_ms: int | None) -> int | None:
        if watermark_ms is None or watermark_ms >= _END_OF_TIME_MS:
            return None
        return max(self._clock() - watermark_ms, 0)

    def _state_bytes(self, task: SubtaskId) -> int | None:
        shown = self._shown.get(task)
        if shown is None or shown.rows_per_second is None:  # Spark had reported nothing by the last beat
            shown = self._shown_by(task, self._runners.get(task))
        return shown.state_bytes

    def _rows_uncommitted(self) -> int | None:
        return sum_of(self._totals.waiting(task) for task in self._job.tasks.states if self._has_sinks(task.task))

    def _has_sinks(self, uid: str) -> bool:
        return self._with_sinks is None or uid in self._with_sinks

    def _as_time_of_day(self, at_ms: int | None, *, past: bool = False) -> int | None:
        """Return a moment of the protocol's time as time of day, ms; a future one that is overdue becomes now."""
        now_ms = self._job.now_ms
        return None if at_ms is None else self._clock() + (at_ms if past else max(at_ms, now_ms)) - now_ms

    def _of(self, checkpoint: int) -> CheckpointStats:
        unknown = CheckpointStats(id=checkpoint, kind="", status="in_progress", triggered_at=self._clock())
        return next((stats for stats in self._stats if stats.id == checkpoint), unknown)

    def _change(self, checkpoint: int, **changes: Any) -> None:
        self._stats = tuple(replace(stats, **changes) if stats.id == checkpoint else stats for stats in self._stats)
