"""The JSON that the reading verbs print. Pure functions of the read model; nothing is read here."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from rekindle.cli import output
from rekindle.history.statistics import Summary
from rekindle.monitoring.checkpoint_views import CheckpointView
from rekindle.monitoring.facts import SILENT, Now
from rekindle.monitoring.views import ErrorView, EventView, JobOverview, JobView, RunView
from rekindle.storage.documents.control import Answer
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import AT_WORK, Failure, Status, TaskStatusDocument

Json = dict[str, Any]


def list_json(line: JobOverview) -> Json:
    """Return one element of ``list --json``."""
    return {
        **_head_json(line),
        "checkpoint": line.latest_checkpoint,
        **_figures_json(line),
        "error": _error_json(line.error),
    }


def _state_json(state: str) -> Json:
    """Return a state; a silent driver may still be at work, so its state is RUNNING, marked as silent."""
    silent = state == SILENT
    return {"state": "RUNNING" if silent else state, "silent": silent}


def _head_json(line: JobOverview) -> Json:
    """Return which job it is, and whether it lives."""
    return {
        "job": line.job,
        **_state_json(line.state),
        "run": line.run,
        "mode": line.mode,
        "host": line.host,
        "pid": line.pid,
        "version": line.version or None,
        "last_heard_of": output.iso(line.heartbeat_ms),
        "heartbeat_age_ms": line.heartbeat_age_ms,
        "began_at": output.iso(line.started_ms),
        "ended_at": output.iso(line.ended_ms),
        "uptime_ms": line.uptime_ms,
    }


def _figures_json(line: JobOverview) -> Json:
    """Return the figures of a job, which the pages, REST and metrics show too."""
    return {
        "watermark": output.iso(line.watermark_ms),
        "lag_ms": line.lag_ms,
        "busy": line.busy,
        "back_pressured": line.back_pressured,
        "rows_in": line.rows_in,
        "rows_out": line.rows_out,
        "rows_in_per_second": line.rows_in_per_second,
        "rows_out_per_second": line.rows_out_per_second,
        "rows_uncommitted": line.rows_uncommitted,
        "batches": line.batches,
        "state_rows": line.state_rows,
        "state_bytes": line.state_bytes,
        "restarts": line.restarts,
        "restarts_total": line.restarts_total,
        "next_attempt_at": output.iso(line.next_attempt_ms),
        "subtasks": _by_status(line),
        "checkpoints": {
            "completed": line.checkpoints_completed,
            "failed": line.checkpoints_failed,
            "latest": line.latest_checkpoint,
            "latest_at": output.iso(line.latest_checkpoint_ms),
            "latest_confirmed_at": output.iso(line.latest_checkpoint_confirmed_ms),
            "latest_age_ms": line.checkpoint_age_ms,
            "latest_duration_ms": line.latest_checkpoint_duration_ms,
            "latest_state_bytes": line.latest_checkpoint_bytes,
        },
    }


def _by_status(line: JobOverview) -> dict[str, int]:
    """Return how many subtasks have each status; where no driver is left, none runs or restarts any more."""
    if line.state in (*AT_WORK, SILENT):
        return line.subtasks
    return {status: count for status, count in line.subtasks.items() if status == "closed"}


def _error_json(error: ErrorView | Failure | None) -> Json | None:
    if error is None:
        return None
    return {
        "code": error.code,
        "message": error.message,
        "next_step": error.next_step,
        "at": output.iso(error.failed_ms),
    }


def status_json(view: JobView, now: Now, summary: Summary) -> Json:
    """Return what ``status --json`` prints."""
    line = view.overview
    status = as_shown(line, now)
    return {
        **_head_json(line),
        **_figures_json(line),
        "checkpoint_summary": asdict(summary),
        "error": now.result.error if now.result else None,
        "notes": list(view.notes),
        "savepoint": view.savepoint,
        **_failures_json(status, status.state),
        "tasks": [
            {
                "uid": task.uid,
                "subtask": task.subtask,
                "status": task.status,
                "batch": task.batch,
                "batch_duration_ms": task.batch_duration_ms,
                "rows_per_second": task.rows_per_second,
                "rows_out_per_second": rates.rows_out if rates else None,
                "batches_per_second": rates.batches if rates else None,
                "watermark": output.iso(task.watermark),
                "lag_ms": task.lag_ms,
                "rows_in": task.rows_in,
                "rows_out": task.rows_out,
                "batches": task.batches,
                "busy": task.busy,
                "back_pressured": task.back_pressured,
                "idle": task.idle,
                "state_rows": task.state_rows,
                "state_bytes": task.state_bytes,
                "unread_bytes": dict(task.unread_bytes),
                **_failures_json(task, status.state),
                "inputs": {
                    uid: {
                        "ended": item.ended,
                        "idle": item.idle,
                        "position": item.position,
                        "share": item.share,
                        "rows_per_second": item.rows_per_second,
                    }
                    for uid, item in task.inputs.items()
                },
            }
            for task, rates in ((one.status, one.rates) for one in view.subtasks)
        ],
    }


def _failures_json(failed: Status | TaskStatusDocument, state: str) -> Json:
    """Return the last failure of a job, or of a task of it; what is over has no next attempt."""
    return {
        "failure": _error_json(failed.failure),
        "restarts": failed.restarts,
        "next_attempt_at": output.iso(failed.next_attempt_ms) if state in AT_WORK else None,
    }


def checkpoint_json(found: CheckpointView) -> Json:
    """Return one element of ``checkpoints --json``."""
    row = found.overview
    return {
        "id": row.id,
        "run": row.run,
        "kind": row.kind,
        "status": row.status,
        "triggered_at": output.iso(row.triggered_ms),
        "completed_at": output.iso(row.completed_ms),
        "failed_at": output.iso(row.failed_ms),
        "duration_ms": row.duration_ms,
        "commit_ms": row.commit_ms,
        "sink_commit_ms": dict(found.record.sink_commit_ms),
        "acknowledged": [row.acknowledged, row.subtasks],
        "acknowledged_at": output.iso(row.latest_ack_ms),
        "unaligned": row.unaligned,
        "state_bytes": row.state_bytes,
        "in_flight_bytes": row.in_flight_bytes,
        "size_bytes": row.savepoint_bytes or 0,
        "path": row.savepoint or (row.path if row.kept else None),
        "failure": row.failure,
        "subtasks": [asdict(one) for one in found.record.subtasks],
    }


def run_json(run: RunView) -> Json:
    """Return one element of ``runs --json``."""
    return {
        "run": run.run,
        **_state_json(run.state),
        "mode": run.mode,
        "began_at": output.iso(run.started_ms),
        "ended_at": output.iso(run.ended_ms),
        "duration_ms": run.duration_ms,
        "host": run.host,
        "pid": run.pid,
        "lineage": run.lineage,
        "from": run.restore_from,
        "checkpoint": run.checkpoint,
        "savepoint": run.savepoint,
        "notes": list(run.notes),
        "error": _error_json(run.error),
        "version": run.version or None,
    }


def event_json(found: EventView) -> Json:
    """Return one element of ``events --json``."""
    return {"number": found.number, "at": output.iso(found.event.time_ms), **asdict(found.event)}


def answer_json(job: str, answer: Answer | Result) -> Json:
    """Return what ``--json`` of ``checkpoint``, ``savepoint``, ``stop`` and ``cancel`` prints."""
    return {"job": job, "state": answer.state, "checkpoint": answer.checkpoint, "savepoint": answer.savepoint}


def as_shown(line: JobOverview, now: Now) -> Status:
    """Return the last heartbeat, with the state and run that are true now.

    A run that has not got as far as a heartbeat shows how far the runs before it have read.
    """
    state = "RUNNING" if line.state == SILENT else line.state
    status = now.status or Status(job=line.job, state=state, run=0, host="", pid=0, beat=0, written_ms=0)
    error = now.result.error if now.result else None
    return replace(status, state=state, run=line.run or 0, mode=line.mode, started_ms=line.started_ms, error=error)
