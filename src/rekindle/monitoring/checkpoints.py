"""The checkpoints of a job, from its history, the manifests that are there, and the heartbeat."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.config import Config
from rekindle.errors import RekindleError
from rekindle.monitoring.checkpoint_views import (
    CheckpointConfig,
    CheckpointCounts,
    CheckpointRow,
    CheckpointsView,
    CheckpointView,
    Restored,
    SavepointView,
)
from rekindle.monitoring.facts import JobFacts, Now
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.history import CheckpointRecord, SubtaskStats
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import CheckpointStats

_ENDED = "JOB_ENDED: the job ended"


class Checkpoints:
    """All checkpoints of a job that anything is known of."""

    def __init__(self, facts: JobFacts, now: Now) -> None:
        self._facts = facts
        self._now = now
        self._kept = set(facts.kept())
        records = facts.logs.checkpoints()
        known = {(record.id, record.status) for record in records}
        completed = {record.id for record in records if record.status == "completed"}
        manifests = [manifest for number in self._kept - completed if (manifest := facts.manifest(number)) is not None]
        records += [_of_manifest(manifest) for manifest in manifests]
        known |= {(manifest.checkpoint, "completed") for manifest in manifests}
        self._seen = {stats.id: stats for stats in (now.status.history if now.status else ())}
        for stats in self._seen.values():
            record = self._of_heartbeat(stats)
            meanwhile = stats.status == "in_progress" and (stats.id, "completed") in known
            if not meanwhile and (record.id, record.status) not in known:
                records.append(record)
        #: the newest first; by numbers, since the clock of a later run may show an earlier time
        self.records = sorted(records, key=lambda record: (record.run, record.id, record.triggered_ms), reverse=True)

    def view(self, limit: int) -> CheckpointsView:
        """Return the overview, and the newest ones."""
        rows = [self.row(record) for record in self.records]
        status = self._now.status
        counts = {name: sum(row.status == name for row in rows) for name in ("in_progress", "completed", "failed")}
        completed = max(counts["completed"], status.checkpoints_completed if status else 0)
        failed = max(counts["failed"], status.checkpoints_failed if status else 0)
        restored = [run for run in self._facts.runs() if run.restore_from is not None]
        return CheckpointsView(
            counts=CheckpointCounts(
                triggered=completed + failed + counts["in_progress"],
                in_progress=counts["in_progress"],
                completed=completed,
                failed=failed,
                restored=len(restored),
            ),
            latest_completed=next((row for row in rows if row.status == "completed"), None),
            latest_failed=next((row for row in rows if row.status == "failed"), None),
            latest_savepoint=next((row for row in rows if row.savepoint is not None), None),
            latest_restored=_restored(restored[0]) if restored else None,
            history=tuple(rows[:limit]),
        )

    def one(self, checkpoint: int) -> CheckpointView | None:
        """Return a checkpoint with its subtasks: of several attempts at a number the completed, else the newest one."""
        found = [record for record in self.records if record.id == checkpoint]
        record = next((record for record in found if record.status == "completed"), found[0] if found else None)
        return None if record is None else CheckpointView(overview=self.row(record), record=record)

    def savepoints(self) -> list[SavepointView]:
        """Return the savepoints, the newest first."""
        return [
            SavepointView(
                checkpoint=record.id,
                run=record.run,
                kind=record.kind,
                completed_ms=record.completed_ms,
                path=record.savepoint,
                size_bytes=record.savepoint_bytes,
                duration_ms=record.duration_ms,
            )
            for record in self.records
            if record.savepoint is not None and record.status == "completed"
        ]

    def row(self, record: CheckpointRecord) -> CheckpointRow:
        """Return a checkpoint without its subtasks."""
        seen = self._seen.get(record.id)
        completed = record.status == "completed"
        taken = [stats.acknowledged_ms for stats in record.subtasks if stats.acknowledged_ms is not None]
        latest = max(taken, default=None)
        count = (sum(stats.finished for stats in record.subtasks) + len(taken), len(record.subtasks))
        if completed:
            count = (count[1], count[1])
        elif not record.subtasks and seen is not None:
            count = seen.acknowledged
        return CheckpointRow(
            id=record.id,
            run=record.run,
            kind=record.kind,
            status=record.status,
            triggered_ms=record.triggered_ms,
            completed_ms=record.completed_ms,
            duration_ms=record.duration_ms,
            latest_ack_ms=None if latest is None else record.triggered_ms + latest,
            acknowledged=count[0],
            subtasks=count[1],
            state_bytes=record.state_bytes,
            in_flight_bytes=record.in_flight_bytes,
            commit_ms=record.commit_ms,
            unaligned=any(stats.unaligned for stats in record.subtasks),
            path=self._place(record.id) if completed else None,
            kept=completed and record.id in self._kept,
            failure=record.failure,
            failed_ms=record.failed_ms,
            savepoint=record.savepoint,
            savepoint_bytes=record.savepoint_bytes,
        )

    def _place(self, checkpoint: int) -> str:
        storage = self._facts.storage
        return f"{storage.store.location.rstrip('/')}/{layout.checkpoint(storage.job, checkpoint)}"

    def _of_heartbeat(self, stats: CheckpointStats) -> CheckpointRecord:
        status, failure = stats.status, stats.failure
        if status == "in_progress" and not self._now.has_driver:
            status, failure = "failed", _ENDED
        savepoint = stats.kind == "savepoint" and status == "completed"
        return CheckpointRecord(
            id=stats.id,
            run=self._now.status.run if self._now.status else 0,
            kind=stats.kind,
            status=status,
            triggered_ms=stats.triggered_at,
            completed_ms=None if stats.duration_ms is None else stats.triggered_at + stats.duration_ms,
            duration_ms=stats.duration_ms,
            in_flight_bytes=stats.in_flight_bytes,
            failure=failure,
            savepoint=stats.path if savepoint else None,
            savepoint_bytes=stats.size_bytes if savepoint else None,
        )


def config(facts: JobFacts, settings: dict[str, str] | None) -> CheckpointConfig:
    """Return how checkpoints are taken; `settings` are those that the run recorded."""
    location = facts.storage.store.location
    if not settings:
        return CheckpointConfig(storage=location)
    try:
        found = Config.of(settings)
    except RekindleError:  # a later version wrote them
        return CheckpointConfig(storage=location)
    return CheckpointConfig(
        mode=found.checkpoint_mode,
        interval_ms=found.checkpoint_interval_ms,
        timeout_ms=found.checkpoint_timeout_ms,
        min_pause_ms=found.checkpoint_min_pause_ms,
        max_concurrent=found.checkpoint_max_concurrent,
        aligned_timeout_ms=found.checkpoint_aligned_timeout_ms,
        retained=found.checkpoint_retained,
        tolerable_failures=found.checkpoint_tolerable_failures,
        after_tasks_finish=found.checkpoint_after_tasks_finish,
        storage=location,
    )


def completed(records: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
    """Return the completed ones, the oldest first."""
    return [record for record in reversed(records) if record.status == "completed"]


def _restored(run: Run) -> Restored:
    return Restored(run=run.run, restored_ms=run.started_ms, path=run.restore_from or "")


def _of_manifest(manifest: Manifest) -> CheckpointRecord:
    subtasks = tuple(
        SubtaskStats(
            uid=uid,
            subtask=index,
            finished=snapshot.end is not None,
            unaligned=bool(snapshot.in_flight),
            in_flight_bytes=snapshot.in_flight_bytes,
        )
        for uid, snapshots in manifest.tasks.items()
        for index, snapshot in sorted(snapshots.items())
    )
    return CheckpointRecord(
        id=manifest.checkpoint,
        run=manifest.run,
        kind=manifest.kind,
        status="completed",
        triggered_ms=manifest.triggered_ms,
        completed_ms=manifest.completed_ms,
        duration_ms=manifest.completed_ms - manifest.triggered_ms,
        subtasks=subtasks,
        in_flight_bytes=manifest.in_flight_bytes,
    )
