"""Rekindle's jobs, tasks and figures under the names that Flink has for them: for its REST and for metrics."""

from __future__ import annotations

from hashlib import blake2b

from rekindle.monitoring.views import JobOverview, SubtaskView

JOB_STATES = {
    "CREATED": "CREATED",
    "RUNNING": "RUNNING",
    "STOPPING": "RUNNING",
    "FINISHED": "FINISHED",
    "STOPPED": "FINISHED",
    "DRAINED": "FINISHED",
    "CANCELED": "CANCELED",
    "FAILED": "FAILED",
    "LOST": "FAILED",
    "SILENT": "RECONCILING",
    "UNREADABLE": "FAILED",
}
"""A state of a job → what Flink calls it. A lost job is one that no one runs: to those that watch it, it has failed."""

_ENDED = {"FINISHED": "FINISHED", "CANCELED": "CANCELED", "FAILED": "FAILED"}
_TASK_STATES = {"starting": "INITIALIZING", "closed": "FINISHED", "restarting": "SCHEDULED"}

TASK_STATES = (
    "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED", "FAILED",
    "RECONCILING",
)  # fmt: skip
"""The states of a subtask in Flink."""

_NO_WATERMARK = -(1 << 63)
"""The watermark that Flink shows for a task that has none yet."""


def job_id(job: JobOverview) -> str:
    """Return the id of a job in Flink's form, which stays the same as long as there is the job."""
    return blake2b(f"{job.storage}/{job.job}/{job.identity}".encode(), digest_size=16).hexdigest()


def vertex_id(job: str, uid: str) -> str:
    """Return the id of a task in Flink's form; `job` is the id of its job."""
    return blake2b(f"{job}/{uid}".encode(), digest_size=16).hexdigest()


def job_state(job: JobOverview) -> str:
    """Return the state of a job in Flink's words."""
    return JOB_STATES.get(job.state, "RUNNING")


def task_state(job: JobOverview, status: str) -> str:
    """Return the state of a subtask in Flink's words."""
    found = _TASK_STATES.get(status, "RUNNING")
    return found if found == "FINISHED" else _ENDED.get(job_state(job), found)


def job_metrics(job: JobOverview) -> dict[str, float]:
    """Return the figures of a job that Flink has a name for."""
    figures = {
        "numRestarts": job.restarts_total,
        "fullRestarts": job.restarts_total,
        "uptime": job.uptime_ms if job.ended_ms is None else 0,
        "numberOfCompletedCheckpoints": job.checkpoints_completed,
        "numberOfFailedCheckpoints": job.checkpoints_failed,
        "totalNumberOfCheckpoints": job.checkpoints_completed + job.checkpoints_failed,
        "lastCompletedCheckpointId": job.latest_checkpoint,
        "lastCheckpointDuration": job.latest_checkpoint_duration_ms,
        "lastCheckpointSize": job.latest_checkpoint_bytes,
        "lastCheckpointFullSize": job.latest_checkpoint_bytes,
    }
    return {name: value for name, value in figures.items() if value is not None}


def subtask_metrics(subtask: SubtaskView, *, at_work: bool) -> dict[str, float]:
    """Return the figures of a subtask that Flink has a name for; rates only where they are those of now."""
    status, rates = subtask.status, subtask.rates
    figures: dict[str, float | None] = {
        "numRecordsIn": status.rows_in,
        "numRecordsOut": status.rows_out,
        "currentInputWatermark": _NO_WATERMARK if status.watermark is None else status.watermark,
        "currentOutputWatermark": _NO_WATERMARK if status.watermark is None else status.watermark,
    }
    if at_work:
        figures |= {
            "numRecordsInPerSecond": status.rows_per_second,
            "numRecordsOutPerSecond": rates.rows_out if rates else None,
            "busyTimeMsPerSecond": _ms(status.busy),
            "idleTimeMsPerSecond": _ms(status.idle),
            "backPressuredTimeMsPerSecond": _ms(status.back_pressured),
            "watermarkLag": status.lag_ms,
        }
    return {name: value for name, value in figures.items() if value is not None}


def _ms(share: float | None) -> float | None:
    return None if share is None else round(share * 1_000)
