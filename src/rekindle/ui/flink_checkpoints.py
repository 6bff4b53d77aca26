"""Checkpoints as Flink's REST describes them. Field names are Flink's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rekindle.history.statistics import Spread, Summary
from rekindle.monitoring.checkpoint_views import CheckpointConfig, CheckpointRow, CheckpointsView, CheckpointView
from rekindle.storage.documents.history import SubtaskStats
from rekindle.ui.flink_names import vertex_id

Json = dict[str, Any]

_STATUS = {"in_progress": "IN_PROGRESS", "completed": "COMPLETED", "failed": "FAILED"}


def checkpoints(found: CheckpointsView, spreads: Summary) -> Json:
    """Return the answer to ``/jobs/:jobid/checkpoints``."""
    counts, restored = found.counts, found.latest_restored
    return {
        "counts": {
            "restored": counts.restored,
            "total": counts.triggered,
            "in_progress": counts.in_progress,
            "completed": counts.completed,
            "failed": counts.failed,
        },
        "summary": summary(spreads),
        "latest": {
            "completed": item(found.latest_completed),
            "savepoint": item(found.latest_savepoint),
            "failed": item(found.latest_failed),
            "restored": None
            if restored is None
            else {
                "id": restored.checkpoint or 0,
                "restore_timestamp": restored.restored_ms,
                "is_savepoint": restored.checkpoint is None,
                "external_path": restored.path,
            },
        },
        "history": [item(row) for row in found.history],
    }


def item(row: CheckpointRow | None) -> Json | None:
    """Return a checkpoint; None for none."""
    if row is None:
        return None
    savepoint = row.savepoint is not None
    return {
        "className": row.status,
        "id": row.id,
        "status": _STATUS[row.status],
        "is_savepoint": savepoint,
        "savepointFormat": "CANONICAL" if savepoint else None,
        "trigger_timestamp": row.triggered_ms,
        "latest_ack_timestamp": row.latest_ack_ms if row.latest_ack_ms is not None else -1,
        "checkpointed_size": row.state_bytes or 0,
        "state_size": row.state_bytes or 0,
        "end_to_end_duration": row.duration_ms if row.duration_ms is not None else -1,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": row.in_flight_bytes,
        "num_subtasks": row.subtasks,
        "num_acknowledged_subtasks": row.acknowledged,
        "checkpoint_type": _type(row),
        "tasks": {},
        **(
            {"external_path": row.savepoint or row.path, "discarded": not row.kept} if row.status == "completed" else {}
        ),
        **(
            {"failure_timestamp": row.failed_ms or row.triggered_ms, "failure_message": row.failure}
            if row.status == "failed"
            else {}
        ),
    }


def _type(row: CheckpointRow) -> str:
    if row.savepoint is not None:
        return "SYNC_SAVEPOINT" if row.kind == "stop" else "SAVEPOINT"
    return "UNALIGNED_CHECKPOINT" if row.unaligned else "CHECKPOINT"


def details(found: CheckpointView, job: str) -> Json:
    """Answer ``/jobs/:jobid/checkpoints/details/:checkpointid``; `job` is the job's id in Flink's form."""
    uids = list(dict.fromkeys(stats.uid for stats in found.record.subtasks))
    return {
        **(item(found.overview) or {}),
        "tasks": {
            vertex_id(job, uid): _task(found, [one for one in found.record.subtasks if one.uid == uid], row=True)
            for uid in uids
        },
    }


def subtasks(found: CheckpointView, uid: str) -> Json:
    """Return the answer to ``/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid``."""
    return _task(found, [one for one in found.record.subtasks if one.uid == uid], row=False)


def _task(found: CheckpointView, stats: Sequence[SubtaskStats], *, row: bool) -> Json:
    record = found.record
    taken = [one.acknowledged_ms for one in stats if one.acknowledged_ms is not None]
    acknowledged = len(stats) if record.status == "completed" else len(taken) + sum(one.finished for one in stats)
    state = sum(one.state_bytes or 0 for one in stats)
    line: Json = {
        "id": record.id,
        "status": "COMPLETED" if acknowledged == len(stats) else _STATUS[record.status],
        "latest_ack_timestamp": record.triggered_ms + max(taken) if taken else -1,
        "checkpointed_size": state,
        "state_size": state,
        "end_to_end_duration": max(taken) if taken else -1,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": sum(one.in_flight_bytes or 0 for one in stats),
        "num_subtasks": len(stats),
        "num_acknowledged_subtasks": acknowledged,
    }
    if row:
        return line
    sizes = _least_to_greatest([one.state_bytes for one in stats])
    return {
        **line,
        "summary": {
            "checkpointed_size": sizes,
            "state_size": sizes,
            "end_to_end_duration": _least_to_greatest(taken),
            "checkpoint_duration": {
                "sync": _least_to_greatest([one.sync_ms for one in stats]),
                "async": _least_to_greatest([]),
            },
            "alignment": {
                "buffered": _least_to_greatest([]),
                "processed": _least_to_greatest([]),
                "persisted": _least_to_greatest([one.in_flight_bytes for one in stats]),
                "duration": _least_to_greatest([one.alignment_ms for one in stats]),
            },
            "start_delay": _least_to_greatest([]),
        },
        "subtasks": [_subtask(found, one) for one in stats],
    }


def _subtask(found: CheckpointView, one: SubtaskStats) -> Json:
    completed = found.record.status == "completed"
    if one.acknowledged_ms is None and not one.finished and not completed:
        return {"className": "pending", "index": one.subtask, "status": "pending_or_failed"}
    at_ms = one.acknowledged_ms or 0
    return {
        "className": "completed",
        "index": one.subtask,
        "status": "completed",
        "ack_timestamp": found.record.triggered_ms + at_ms,
        "end_to_end_duration": at_ms,
        "checkpointed_size": one.state_bytes or 0,
        "state_size": one.state_bytes or 0,
        "checkpoint": {"sync": one.sync_ms or 0, "async": 0},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": one.in_flight_bytes or 0,
            "duration": one.alignment_ms or 0,
        },
        "start_delay": 0,
        "unaligned_checkpoint": one.unaligned,
        "aborted": False,
    }


def _least_to_greatest(values: Sequence[int | None]) -> Json:
    found = [value for value in values if value is not None] or [0]
    return {"min": min(found), "max": max(found), "avg": round(sum(found) / len(found))}


def config(found: CheckpointConfig) -> Json:
    """Return the answer to ``/jobs/:jobid/checkpoints/config``."""
    interval = found.interval_ms or 0
    return {
        "mode": found.guarantee,
        "interval": interval or (1 << 63) - 1,
        "timeout": found.timeout_ms or 0,
        "min_pause": found.min_pause_ms or 0,
        "max_concurrent": found.max_concurrent or 1,
        "externalization": {"enabled": True, "delete_on_cancellation": False},
        "state_backend": "Spark's state store",
        "checkpoint_storage": found.storage,
        "unaligned_checkpoints": found.mode == "unaligned",
        "tolerable_failed_checkpoints": found.tolerable_failures or 0,
        "aligned_checkpoint_timeout": found.aligned_timeout_ms or 0,
        "checkpoints_after_tasks_finish": bool(found.after_tasks_finish),
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "",
    }


def spread(found: Spread | None) -> Json:
    """Return a line of the summary of checkpoints."""
    names = ("min", "max", "avg", "p50", "p90", "p95", "p99", "p999")
    return {name: 0 if found is None else getattr(found, name) for name in names}


def summary(found: Summary) -> Json:
    """Return the summary of checkpoints."""
    size, in_flight = spread(found.state_bytes), spread(found.in_flight_bytes)
    return {
        "checkpointed_size": size,
        "state_size": size,
        "end_to_end_duration": spread(found.duration_ms),
        "alignment_buffered": spread(None),
        "processed_data": spread(None),
        "persisted_data": in_flight,
    }
