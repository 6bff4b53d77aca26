"""``/metrics``: every job of every storage for Prometheus, under Flink's names where it has them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from rekindle.errors import ControlError, RekindleError
from rekindle.monitoring.monitor import UNREADABLE, Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.monitoring.views import JobOverview, SubtaskView
from rekindle.storage.documents.status import AT_WORK
from rekindle.ui.flink_names import JOB_STATES, job_id, job_metrics, subtask_metrics

OF_JOB = {
    "rekindle_job_heartbeat_age_seconds": (
        "Age of the last heartbeat of a job that has not ended.",
        "heartbeat_age_ms",
    ),
    "rekindle_job_checkpoint_age_seconds": (
        "Time since the last checkpoint was complete, or since there was last nothing to add to it.",
        "checkpoint_age_ms",
    ),
    "rekindle_job_watermark_lag_seconds": (
        "Time by which the watermark is behind the clock; of several tasks the longest.",
        "lag_ms",
    ),
    "rekindle_job_uptime_seconds": ("Time since the run began.", "uptime_ms"),
}
"""Metric → what it says, and the field of the overview in milliseconds."""

OF_JOB_PLAIN = {
    "rekindle_job_rows_in": ("Rows read from sources, over all runs, without the last ones before a kill.", "rows_in"),
    "rekindle_job_rows_out": ("Rows given to sinks, over all runs.", "rows_out"),
    "rekindle_job_rows_uncommitted": ("Rows given to sinks that no checkpoint has committed.", "rows_uncommitted"),
    "rekindle_job_batches": ("Batches, over all runs.", "batches"),
    "rekindle_job_state_rows": ("Rows of state.", "state_rows"),
    "rekindle_job_state_bytes": ("Bytes of state.", "state_bytes"),
}
"""Metric → what it says, and the field of the overview."""

UNREAD = (
    "rekindle_channel_unread_bytes",
    "Bytes of a subtask's output that the task in the label `reader` still has to read.",
)
"""Metric, and what it says."""
FLINK_JOB = "flink_jobmanager_job_"
FLINK_TASK = "flink_taskmanager_job_task_"


def exposition(monitors: Monitors) -> tuple[bytes, str]:
    """Return the metrics of now as text, and the type of it."""
    return generate_latest(registry(monitors)), CONTENT_TYPE_PLAIN_0_0_4


def registry(monitors: Monitors, only: str | None = None) -> CollectorRegistry:
    """Return a registry that reads the storages when it is asked.

    Args:
        only: the one job that it has, once that exists; None: all jobs.
    """
    made = CollectorRegistry(auto_describe=False)
    made.register(_Jobs(monitors, only))
    return made


class _Jobs(Collector):
    def __init__(self, monitors: Monitors, only: str | None) -> None:
        self._monitors = monitors
        self._only = only

    def _overview(self, monitor: Monitor) -> list[JobOverview]:
        if self._only is None:
            return monitor.overview()
        try:
            return [monitor.job(self._only).overview]
        except ControlError:  # its first run has not begun
            return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        families: dict[str, GaugeMetricFamily] = {}
        failed = GaugeMetricFamily("rekindle_storage_up", "Whether a storage can be read.", labels=["storage"])
        for monitor in self._monitors.all:
            try:
                jobs = self._overview(monitor)
            except RekindleError:
                failed.add_metric([monitor.store.location], 0)
                continue
            failed.add_metric([monitor.store.location], 1)
            for job in jobs:
                _job(families, job, monitor.store.location)
                try:
                    subtasks = monitor.job(job.job).subtasks
                except RekindleError:  # its line says so
                    continue
                for one in subtasks:
                    _subtask(families, job, one)
        yield failed
        yield from families.values()


def _job(families: dict[str, GaugeMetricFamily], job: JobOverview, storage: str) -> None:
    labels = {"job_id": job_id(job), "job_name": job.job, "storage": storage}
    for state in JOB_STATES:
        _add(
            families,
            "rekindle_job_state",
            "1 for the state the job is in.",
            {**labels, "state": state},
            float(job.state == state),
        )
    if job.state == UNREADABLE:  # its figures are not known: a counter that falls to 0 would count all again
        return
    for name, (text, field) in OF_JOB.items():
        value = getattr(job, field)
        _add(families, name, text, labels, None if value is None else value / 1_000)
    for name, (text, field) in OF_JOB_PLAIN.items():
        _add(families, name, text, labels, getattr(job, field))
    for name, figure in job_metrics(job).items():
        text = f"Flink's {name}."
        _add(families, FLINK_JOB + name, text, {"job_id": labels["job_id"], "job_name": job.job}, figure)


def _subtask(families: dict[str, GaugeMetricFamily], job: JobOverview, one: SubtaskView) -> None:
    status = one.status
    labels = {
        "job_id": job_id(job),
        "job_name": job.job,
        "task_name": status.uid,
        "subtask_index": str(status.subtask),
        "host": job.host,
    }
    for name, figure in subtask_metrics(one, at_work=job.state in AT_WORK).items():
        _add(families, FLINK_TASK + name, f"Flink's {name}.", labels, figure)
    for reader, size in (status.unread_bytes if job.state in AT_WORK else {}).items():
        _add(families, *UNREAD, {**labels, "reader": reader}, size)


def _add(
    families: dict[str, GaugeMetricFamily], name: str, text: str, labels: dict[str, str], value: float | None
) -> None:
    if value is None:
        return
    if name not in families:
        families[name] = GaugeMetricFamily(name, text, labels=[*labels])
    families[name].add_metric([*labels.values()], float(value))
