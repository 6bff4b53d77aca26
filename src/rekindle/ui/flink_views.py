"""The answers of Flink's REST, made of the read model. Field names are Flink's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rekindle.monitoring.views import EventView, GraphView, JobOverview, JobView, SubtaskView, VertexView
from rekindle.storage.documents.status import AT_WORK
from rekindle.ui.flink_names import TASK_STATES, job_id, job_state, task_state, vertex_id

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkJob:
    """A job as Flink's pages need it at once."""

    job: JobView
    graph: GraphView
    now_ms: int

    @property
    def id(self) -> str:
        """Return its id in Flink's form."""
        return job_id(self.job.overview)

    @property
    def tasks(self) -> list[VertexView]:
        """Return its tasks, which are the vertices that Flink would make of it: sources and sinks are chained."""
        return [vertex for vertex in self.graph.vertices if vertex.kind == "task"]

    def subtasks(self, uid: str) -> list[SubtaskView]:
        """Return the subtasks of a task."""
        return [one for one in self.job.subtasks if one.status.uid == uid]

    @property
    def at_work(self) -> bool:
        """Return True if rates are those of now."""
        return self.job.overview.state in AT_WORK


def config(version: str, *, allow_actions: bool) -> Json:
    """Return the answer to ``/config``."""
    return {
        "refresh-interval": 3_000,
        "timezone-name": "Coordinated Universal Time",
        "timezone-offset": 0,
        "flink-version": f"Rekindle {version}",
        "flink-revision": "",
        "features": {
            "web-submit": False,
            "web-cancel": allow_actions,
            "web-rescale": False,
            "web-history": False,
        },
    }


def overview(jobs: Sequence[JobOverview], version: str) -> Json:
    """Return the answer to ``/overview``."""
    states = Counter(job_state(job) for job in jobs)
    subtasks = sum(sum(job.subtasks.values()) for job in jobs if job_state(job) == "RUNNING")
    return {
        "taskmanagers": states["RUNNING"],
        "taskmanagers-blocked": 0,
        "slots-total": subtasks,
        "slots-available": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": states["RUNNING"] + states["RECONCILING"],
        "jobs-finished": states["FINISHED"],
        "jobs-cancelled": states["CANCELED"],
        "jobs-failed": states["FAILED"],
        "flink-version": f"Rekindle {version}",
        "flink-commit": "",
    }


def jobs_overview(jobs: Iterable[JobOverview], now_ms: int) -> Json:
    """Return the answer to ``/jobs/overview``."""
    return {"jobs": [_job_line(job, now_ms) for job in jobs]}


def _job_line(job: JobOverview, now_ms: int) -> Json:
    tasks = _counts([task_state(job, status) for status, count in job.subtasks.items() for _ in range(count)])
    return {
        "jid": job_id(job),
        "name": job.job,
        "state": job_state(job),
        **_times(job, now_ms),
        "last-modification": job.heartbeat_ms or job.started_ms or 0,
        "tasks": {"total": sum(tasks.values()), **{name.lower(): count for name, count in tasks.items()}},
        "pending-operators": 0,
    }


def job(shown: FlinkJob) -> Json:
    """Return the answer to ``/jobs/:jobid``."""
    line = shown.job.overview
    vertices = [vertex(shown, one) for one in shown.tasks]
    return {
        "jid": shown.id,
        "name": line.job,
        "isStoppable": False,
        "state": job_state(line),
        "job-type": line.mode.upper(),
        **_times(line, shown.now_ms),
        "maxParallelism": -1,
        "now": shown.now_ms,
        "timestamps": {
            **dict.fromkeys(("INITIALIZING", "RESTARTING", "CANCELLING", "SUSPENDED", "FAILING", "RECONCILING"), 0),
            "CREATED": line.started_ms or 0,
            "RUNNING": line.started_ms or 0,
            **{
                name: (line.ended_ms or 0) if job_state(line) == name else 0
                for name in ("FINISHED", "CANCELED", "FAILED")
            },
        },
        "vertices": vertices,
        "status-counts": _counts([one["status"] for one in vertices]),
        "plan": plan(shown),
        "pending-operators": 0,
    }


def plan(shown: FlinkJob) -> Json:
    """Return the plan in ``/jobs/:jobid``, and in ``/jobs/:jobid/plan``."""
    line, tasks = shown.job.overview, {one.uid for one in shown.tasks}
    inputs: dict[str, list[str]] = {uid: [] for uid in tasks}
    for edge in shown.graph.edges:
        if edge.kind == "channel":
            inputs[edge.target.removeprefix("task:")].append(edge.source.removeprefix("task:"))
    return {
        "jid": shown.id,
        "name": line.job,
        "type": line.mode.upper(),
        "nodes": [
            {
                "id": vertex_id(shown.id, one.uid),
                "parallelism": one.parallelism,
                "operator": "",
                "operator_strategy": "",
                # Flink's pages show it as HTML.
                "description": "<br/>".join(escape(name) for name in _chain(shown, one)),
                "inputs": [
                    {
                        "num": number,
                        "id": vertex_id(shown.id, uid),
                        "ship_strategy": "REBALANCE",
                        "exchange": "pipelined_bounded",
                    }
                    for number, uid in enumerate(inputs[one.uid])
                ],
                "optimizer_properties": {},
            }
            for one in shown.tasks
        ],
    }


def _chain(shown: FlinkJob, task: VertexView) -> list[str]:
    own = f"task:{task.uid}"
    kinds = {"source": [], "sink": []}  # type: dict[str, list[str]]
    ends = {edge.source for edge in shown.graph.edges if edge.target == own}
    ends |= {edge.target for edge in shown.graph.edges if edge.source == own}
    for one in shown.graph.vertices:
        if one.id in ends and one.kind in kinds:
            kinds[one.kind].append(f"{one.kind.capitalize()}: {one.uid}")
    return [*kinds["source"], task.uid, *kinds["sink"]]


def vertex(shown: FlinkJob, task: VertexView) -> Json:
    """Return a vertex in ``/jobs/:jobid``."""
    line = shown.job.overview
    states = [task_state(line, one.status.status) for one in shown.subtasks(task.uid)]
    return {
        "id": vertex_id(shown.id, task.uid),
        "slotSharingGroupId": "0" * 32,
        "name": " -> ".join(_chain(shown, task)),
        "maxParallelism": -1,
        "parallelism": task.parallelism,
        "status": _worst(states),
        **_times(line, shown.now_ms),
        "tasks": _counts(states),
        "metrics": _io(task.rows_in, task.rows_out, shown.now_ms, line, task),
    }


def vertex_details(shown: FlinkJob, task: VertexView) -> Json:
    """Return the answer to ``/jobs/:jobid/vertices/:vertexid``."""
    return {
        "id": vertex_id(shown.id, task.uid),
        "name": " -> ".join(_chain(shown, task)),
        "parallelism": task.parallelism,
        "maxParallelism": -1,
        "now": shown.now_ms,
        "subtasks": [subtask(shown, one) for one in shown.subtasks(task.uid)],
        "aggregated": {"metrics": {}, "status-duration": {}},
    }


def subtask(shown: FlinkJob, one: SubtaskView) -> Json:
    """Return a subtask of a vertex."""
    line, status = shown.job.overview, one.status
    times = _times(line, shown.now_ms)
    return {
        "subtask": status.subtask,
        "status": task_state(line, status.status),
        "attempt": status.restarts,
        "host": line.host,
        "endpoint": line.host,
        **times,
        "start_time": times["start-time"],
        "metrics": _io(status.rows_in, status.rows_out, shown.now_ms, line, status),
        "taskmanager-id": line.host,
        "status-duration": {},
        "other-concurrent-attempts": [],
    }


def _io(rows_in: int | None, rows_out: int | None, now_ms: int, line: JobOverview, shares: Any) -> Json:
    up_ms = _times(line, now_ms)["duration"]
    return {
        "read-bytes": 0,
        "read-bytes-complete": False,
        "write-bytes": 0,
        "write-bytes-complete": False,
        "read-records": rows_in or 0,
        "read-records-complete": rows_in is not None,
        "write-records": rows_out or 0,
        "write-records-complete": rows_out is not None,
        "accumulated-backpressured-time": round((shares.back_pressured or 0) * up_ms),
        "accumulated-idle-time": round((shares.idle or 0) * up_ms),
        "accumulated-busy-time": round((shares.busy or 0) * up_ms),
    }


def exceptions(shown: FlinkJob, events: Sequence[EventView]) -> Json:
    """Return the answer to ``/jobs/:jobid/exceptions``: the newest first."""
    failed = [one.event for one in reversed(events) if one.event.error is not None]
    entries: list[Json] = [
        {
            "exceptionName": event.error.code,
            "stacktrace": event.error.trace or f"[{event.error.code}] {event.error.message}",
            "timestamp": event.time_ms,
            "failureLabels": {},
            "taskName": event.task,
            "location": None,
            "endpoint": None,
            "taskManagerId": None,
            "concurrentExceptions": [],
        }
        for event in failed
        if event.error is not None
    ]
    error = shown.job.overview.error
    if not entries and error is not None:
        text = f"[{error.code}] {error.message}"
        entries = [{"exceptionName": error.code, "stacktrace": text, "timestamp": error.failed_ms or 0,
                    "failureLabels": {}, "taskName": None, "location": None, "endpoint": None,
                    "taskManagerId": None, "concurrentExceptions": []}]  # fmt: skip
    newest = entries[0] if entries else None
    return {
        "root-exception": newest["stacktrace"] if newest else None,
        "timestamp": newest["timestamp"] if newest else None,
        "all-exceptions": [],
        "truncated": False,
        "exceptionHistory": {"entries": entries, "truncated": False},
    }


def _times(line: JobOverview, now_ms: int) -> Json:
    start = line.started_ms or 0
    end = line.ended_ms if line.ended_ms is not None else -1
    return {"start-time": start or -1, "end-time": end, "duration": max((now_ms if end < 0 else end) - start, 0)}


def _counts(states: Iterable[str]) -> dict[str, int]:
    found = Counter(states)
    return {name: found[name] for name in TASK_STATES}


def _worst(states: Sequence[str]) -> str:
    order = ("FAILED", "CANCELED", "SCHEDULED", "INITIALIZING", "RUNNING", "FINISHED")
    return next((name for name in order if name in states), "CREATED")
