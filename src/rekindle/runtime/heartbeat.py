"""The heartbeat: what a driver shows of itself, ``status.json``, once a second.

It listens to what the protocol hears and says, and keeps the history of checkpoints that no manifest tells of: those in
progress and those that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rekindle.errors import ControlError, StorageError
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import Job
from rekindle.runtime.ports import TaskRunner
from rekindle.storage import layout
from rekindle.storage.documents import CheckpointStats, Run, Status, TaskStatusDocument
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
        job: Job,
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

    def heard(self, event: e.Event) -> None:
        """Note what an event says of a checkpoint."""
        match event:
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
        """Note what a command says of a checkpoint."""
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
            case _:
                return

    def status(self) -> Status:
        """The status now; may be called from any thread."""
        return Status(
            job=self._storage.job,
            state=self._job.state.value,
            run=self._run.run,
            beat=self._beat,
            written_ms=self._clock(),
            tasks=tuple(self._task(task) for task in self._job.tasks.states),
            checkpoints_completed=self._completed,
            checkpoints_failed=self._failed,
            latest_checkpoint=self._job.coordinator.latest,
            latest_checkpoint_ms=self._latest_ms,
            history=self._stats,
            mode=self._run.mode,
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
        status = self._job.tasks.states[task].status.value
        runner = self._runners.get(task)
        if runner is None:
            return TaskStatusDocument(uid=task.task, subtask=task.subtask, status=status, batch=-1)
        return replace(runner.status(), status=status)

    def _of(self, checkpoint: int) -> CheckpointStats:
        unknown = CheckpointStats(id=checkpoint, kind="", status="in_progress", triggered_at=self._clock())
        return next((stats for stats in self._stats if stats.id == checkpoint), unknown)

    def _change(self, checkpoint: int, **changes: Any) -> None:
        self._stats = tuple(replace(stats, **changes) if stats.id == checkpoint else stats for stats in self._stats)


def _earlier(storage: JobStorage) -> tuple[CheckpointStats, ...]:
    """The history goes on from run to run; what was in progress when a driver died has failed."""
    status = storage.status()
    return tuple(
        replace(stats, status="failed", failure="the driver ended") if stats.status == "in_progress" else stats
        for stats in (status.history if status else ())
    )
