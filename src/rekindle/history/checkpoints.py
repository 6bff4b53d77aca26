"""The log of checkpoints of one run: what each took, by what the protocol hears and says of it.

Spans are of the protocol's own time, which never goes back. What is measured is when a barrier had reached a subtask
(`TakeSnapshot`), when its snapshot was there (`SnapshotTaken`), the manifest, and the commits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rekindle.history.log import CHECKPOINTS
from rekindle.history.writer import LogWriter
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol.job import JobMachine
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.history import CheckpointRecord, SubtaskStats
from rekindle.storage.documents.runs import Run


@dataclass(slots=True, kw_only=True)
class _Taking:
    """A checkpoint that is being taken."""

    kind: str
    #: for people, and in the protocol's time
    triggered_at_ms: int
    triggered_ms: int
    subtasks: dict[SubtaskId, SubtaskStats] = field(default_factory=dict)


class CheckpointLog:
    """The checkpoints of one run."""

    def __init__(self, storage: CheckpointDocuments, run: Run, job: JobMachine, clock: Callable[[], int]) -> None:
        self._storage = storage
        self._run = run
        self._job = job
        self._clock = clock
        self.writer = LogWriter(storage, CHECKPOINTS, run.run, self._before)
        self._taking: dict[int, _Taking] = {}
        #: since when sinks commit a checkpoint, in the protocol's time
        self._committing: dict[int, int] = {}
        #: number of the first one that this run has completed; infinite: it has completed none
        self._first = math.inf
        #: the newest completed one that was added; None: there was none in this run
        self._newest: CheckpointRecord | None = None

    def snapshot_ordered(self, command: c.TakeSnapshot) -> None:
        """Note that all barriers of a checkpoint have reached a subtask."""
        pending = self._job.coordinator.pending.get(command.checkpoint)
        if pending is None:
            return
        taking = self._taking.get(command.checkpoint)
        if taking is None:
            taking = self._taking[command.checkpoint] = _Taking(
                kind=pending.asked.kind.value,
                triggered_at_ms=self._clock() - (self._job.now_ms - pending.triggered_ms),
                triggered_ms=pending.triggered_ms,
                subtasks={
                    task: SubtaskStats(uid=task.task, subtask=task.subtask, finished=True) for task in pending.finished
                },
            )
        taking.subtasks[command.task] = SubtaskStats(
            uid=command.task.task,
            subtask=command.task.subtask,
            alignment_ms=self._job.now_ms - taking.triggered_ms,
            unaligned=pending.asked.unaligned,
        )

    def snapshot_taken(self, checkpoint: int, task: SubtaskId, state_bytes: int | None) -> None:
        """Note that a subtask has acknowledged."""
        taking = self._taking.get(checkpoint)
        stats = taking.subtasks.get(task) if taking is not None else None
        if taking is None or stats is None or stats.acknowledged_ms is not None:
            return
        after_ms = self._job.now_ms - taking.triggered_ms
        taking.subtasks[task] = replace(
            stats,
            acknowledged_ms=after_ms,
            sync_ms=None if stats.alignment_ms is None else after_ms - stats.alignment_ms,
            state_bytes=state_bytes,
        )

    def completed(self, manifest: Manifest, took_ms: int) -> None:
        """Add the row of a checkpoint whose manifest is there, so many milliseconds after its trigger."""
        taking = self._taking.pop(manifest.checkpoint, None)
        self._first = min(manifest.checkpoint, self._first)
        record = self._record(manifest)
        if taking is not None:
            subtasks = tuple(_with_bytes(taking.subtasks[task], manifest) for task in sorted(taking.subtasks))
            sizes = [stats.state_bytes for stats in subtasks if stats.state_bytes is not None]
            record = replace(
                record,
                duration_ms=took_ms,
                subtasks=subtasks,
                state_bytes=sum(sizes) if sizes else None,
            )
        self._newest = record
        self.writer.add(record)

    def newest(self) -> CheckpointRecord | None:
        """Return the newest completed checkpoint of the log; None where none is known."""
        return self._newest or self.writer.find(lambda row: row.status == "completed")

    def failed(self, checkpoint: int, reason: str) -> None:
        """Add the row of a checkpoint that was given up; one that was never begun leaves no row."""
        taking = self._taking.pop(checkpoint, None)
        if taking is not None:
            self.writer.add(
                CheckpointRecord(
                    id=checkpoint,
                    run=self._run.run,
                    kind=taking.kind,
                    status="failed",
                    triggered_ms=taking.triggered_at_ms,
                    duration_ms=self._job.now_ms - taking.triggered_ms,
                    subtasks=tuple(taking.subtasks[task] for task in sorted(taking.subtasks)),
                    failure=reason,
                    failed_ms=self._clock(),
                )
            )

    def commit_ordered(self, checkpoint: int) -> None:
        """Note that the sinks are to commit; where that is repeated, the first time counts."""
        self._committing.setdefault(checkpoint, self._job.now_ms)

    def committed(self, checkpoint: int, sinks_ms: dict[str, int]) -> None:
        """Note that all sinks have committed; `sinks_ms`: how long each took the last time."""
        since_ms = self._committing.pop(checkpoint, None)
        if since_ms is not None:
            took_ms = self._job.now_ms - since_ms
            self._amend(checkpoint, lambda row: replace(row, commit_ms=took_ms, sink_commit_ms=sinks_ms))

    def sealed(self, checkpoint: int, path: str, size_bytes: int) -> None:
        """Note that a savepoint was made of a checkpoint."""
        self._amend(checkpoint, lambda row: replace(row, savepoint=path, savepoint_bytes=size_bytes))

    def _amend(self, checkpoint: int, change: Callable[[CheckpointRecord], CheckpointRecord]) -> None:
        self.writer.amend(lambda row: row.id == checkpoint and row.status == "completed", change)

    def _before(self, rows: list[CheckpointRecord]) -> list[CheckpointRecord]:
        """Return what earlier runs have completed, and could not write any more."""
        # Rows before these are in older segments.
        older = min((row.id for row in rows), default=1) - 1
        newest = max((row.id for row in rows if row.status == "completed"), default=older)
        numbers = (number for number in self._storage.numbers_used() if newest < number < self._first)
        manifests = (self._storage.manifest(number) for number in numbers)
        return [self._record(manifest) for manifest in manifests if manifest is not None]

    def _record(self, manifest: Manifest) -> CheckpointRecord:
        place = self._storage.store.location.rstrip("/")
        return CheckpointRecord(
            id=manifest.checkpoint,
            run=manifest.run,
            kind=manifest.kind,
            status="completed",
            triggered_ms=manifest.triggered_ms,
            completed_ms=manifest.completed_ms,
            duration_ms=max(manifest.completed_ms - manifest.triggered_ms, 0),
            in_flight_bytes=manifest.in_flight_bytes,
            path=f"{place}/{layout.checkpoint(self._storage.job, manifest.checkpoint)}",
        )


def _with_bytes(stats: SubtaskStats, manifest: Manifest) -> SubtaskStats:
    snapshot = manifest.tasks.get(stats.uid, {}).get(stats.subtask)
    return stats if snapshot is None else replace(stats, in_flight_bytes=snapshot.in_flight_bytes)
