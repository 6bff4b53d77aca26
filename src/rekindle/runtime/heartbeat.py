"""The heartbeat: what a driver shows of itself, ``status.json``, once a second.

It listens to what the protocol hears and says, and keeps what no other document does: the checkpoints in progress and
those that failed, and the last failure of each task and of the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rekindle.errors import ControlError, RekindleError, StorageError, error_from
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.ending import Error
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import TASK_STEPS
from rekindle.runtime.ports import TaskRunner
from rekindle.storage import layout
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import CheckpointStats, Failure, Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process

HISTORY = 50
"""Checkpoints remembered in the status."""


class Heartbeat:
    """Writes the status of one run."""

    def __init__(
        self,
        storage: JobStorage,
        run: Run,
        job: JobMachine,
        runners: Mapping[SubtaskId, TaskRunner],
        clock: Callable[[], int],
    ) -> None:
        self._storage = storage
        self._run = run
        self._job = job
        self._runners = runners
        self._clock = clock
        self._beat = 0
        #: newest first; replaced as a whole, because others read it from their threads
        self._stats: tuple[CheckpointStats, ...] = _earlier(storage)
        self._completed = 0
        self._failed = 0
        self._latest_ms: int | None = None
        #: the last one of each task, and of the job
        self._failures: dict[SubtaskId, Failure] = {}
        self._failure, self._restarts = _failures_before(storage, run)
        #: when another engine is tried; None while this run has one
        self._engine_ms: int | None = None

    def heard(self, event: e.Event) -> None:
        """Note what an event says of a checkpoint, or of a failure."""
        match event:
            case e.TaskFailed():
                status = self._job.tasks.states[event.task].status
                if TASK_STEPS[e.TaskFailed][status] is not status:  # else its death was noticed before
                    unnamed: Error = ("TASK_FAILED", {"task": str(event.task), "reason": event.reason})
                    self._failures[event.task] = self.failed(error_from(*(event.error or unnamed)))
            case e.CommitFailed():
                parameters = {"sink": "-", "checkpoint": event.checkpoint, "reason": event.detail}
                self.failed(error_from(*(event.error or ("SINK_COMMIT_FAILED", parameters))))
            case e.SnapshotTaken():
                acknowledged, participants = self._of(event.checkpoint).acknowledged
                self._change(event.checkpoint, acknowledged=(acknowledged + 1, participants))
            case e.ManifestWritten():
                self._completed += 1
                self._latest_ms = self._clock()
                pending = self._job.coordinator.pending.get(event.checkpoint)
                duration_ms = None if pending is None else self._job.now_ms - pending.triggered_ms
                folder = layout.checkpoint(self._storage.job, event.checkpoint)
                path = f"{self._storage.store.location.rstrip('/')}/{folder}"
                self._change(event.checkpoint, status="completed", duration_ms=duration_ms, path=path)
            case e.SavepointSealed():
                self._change(event.checkpoint, path=event.path, size_bytes=event.size_bytes)
            case _:
                return

    def ordered(self, command: c.Command) -> None:
        """Note what a command says of a checkpoint, or of the engine."""
        match command:
            case c.TakeSnapshot():
                pending = self._job.coordinator.pending.get(command.checkpoint)
                if pending is not None and all(stats.id != command.checkpoint for stats in self._stats):
                    started = CheckpointStats(
                        id=command.checkpoint,
                        kind=pending.kind.value,
                        status="in_progress",
                        triggered_at=self._clock(),
                        acknowledged=(len(pending.finished), pending.participants),
                    )
                    self._stats = (started, *self._stats)[:HISTORY]
            case c.AbortCheckpoint():
                self._failed += 1
                self._change(command.checkpoint, status="failed", failure=command.reason)
            case c.ReportFailure():
                self.failed(error_from(*command.error))
            case c.FailOver():
                self.failed(error_from("SPARK_DIED", {"reason": command.reason}), again_in_ms=command.delay_ms)
            case _:
                return

    def failed(self, error: RekindleError, again_in_ms: int | None = None) -> Failure:
        """Note the last failure of the job; and when another engine is tried, if it is that."""
        now_ms = self._clock()
        failure = Failure(code=error.code, message=error.message, next_step=error.next_step, failed_ms=now_ms)
        self._failure = failure
        if again_in_ms is not None:
            self._engine_ms = now_ms + again_in_ms
            self._restarts += 1
        return failure

    def status(self) -> Status:
        """The status now; may be called from any thread."""
        tasks = tuple(self._task(task) for task in self._job.tasks.states)
        commit_ms = self._as_time_of_day(self._job.coordinator.commit_again_ms)
        waits = [commit_ms, self._engine_ms, *(task.next_attempt_ms for task in tasks)]
        return Status(
            job=self._storage.job,
            state=self._job.state.value,
            run=self._run.run,
            beat=self._beat,
            written_ms=self._clock(),
            tasks=tasks,
            checkpoints_completed=self._completed,
            checkpoints_failed=self._failed,
            latest_checkpoint=self._job.coordinator.latest,
            latest_checkpoint_ms=self._latest_ms,
            history=self._stats,
            mode=self._run.mode,
            failure=self._failure,
            restarts=self._restarts
            + self._job.coordinator.restarts.granted
            + sum(state.restarts.granted for state in self._job.tasks.states.values()),
            next_attempt_ms=min((wait_ms for wait_ms in waits if wait_ms is not None), default=None),
            **this_process()._asdict(),
        )

    def beat(self) -> None:
        """Write it. A storage that refuses, or a newer run, is not its to judge: what counts will fail by itself."""
        self._beat += 1
        try:
            self._storage.replace(layout.status(self._storage.job), self.status())
        except (StorageError, ControlError):
            return

    def _task(self, task: SubtaskId) -> TaskStatusDocument:
        state, runner = self._job.tasks.states[task], self._runners.get(task)
        shown = TaskStatusDocument(uid=task.task, subtask=task.subtask, status="", batch=-1)
        return replace(
            shown if runner is None else runner.status(),
            status=state.status.value,
            failure=self._failures.get(task),
            restarts=state.restarts.granted,
            next_attempt_ms=self._as_time_of_day(state.restart_ms),
        )

    def _as_time_of_day(self, at_ms: int | None) -> int | None:
        """A moment of the protocol's time, for people to read."""
        return None if at_ms is None else self._clock() + max(at_ms - self._job.now_ms, 0)

    def _of(self, checkpoint: int) -> CheckpointStats:
        unknown = CheckpointStats(id=checkpoint, kind="", status="in_progress", triggered_at=self._clock())
        return next((stats for stats in self._stats if stats.id == checkpoint), unknown)

    def _change(self, checkpoint: int, **changes: Any) -> None:
        self._stats = tuple(replace(stats, **changes) if stats.id == checkpoint else stats for stats in self._stats)


def _failures_before(storage: JobStorage, run: Run) -> tuple[Failure | None, int]:
    """The last failure, and the restarts, of the earlier runs of this process."""
    status = storage.status() if run.since is not None else None
    return (status.failure, status.restarts) if status is not None else (None, 0)


def _earlier(storage: JobStorage) -> tuple[CheckpointStats, ...]:
    """The history goes on from run to run; what was in progress when a driver died has failed."""
    status = storage.status()
    return tuple(
        replace(stats, status="failed", failure="the driver ended") if stats.status == "in_progress" else stats
        for stats in (status.history if status else ())
    )
