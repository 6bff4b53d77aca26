"""The part of Flink's REST that describes jobs, for clients of Flink and for its dashboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rekindle.errors import ControlError, RekindleError
from rekindle.monitoring.monitors import Monitors
from rekindle.ui import answers, flink_checkpoints, flink_figures, flink_triggers, flink_views
from rekindle.ui.actions import Actions
from rekindle.ui.answers import as_json
from rekindle.ui.flink_jobs import Flink, now_ms
from rekindle.ui.flink_names import job_id, job_metrics, job_state, subtask_metrics, vertex_id

PREFIXES = ("/v1", "/flink")
"""Flink itself answers below ``/v1``; the other name is for people."""

_HISTORY = 100
_EXCEPTIONS = 1_000

Read = Callable[[Flink, Request], Any]


def routes(monitors: Monitors, actions: Actions, version: str, *, allow_actions: bool = False) -> list[Route]:
    """Return the routes, below whatever prefix they are mounted."""
    flink = Flink(monitors, actions, version, allow_actions=allow_actions)
    return [*(Route(path, _reading(flink, read)) for path, read in READ.items()), *flink_triggers.routes(flink)]


def refusal(error: RekindleError) -> Response:
    """Return an error as Flink's clients expect it."""
    answer = answers.refusal(error)
    return as_json({"errors": [f"[{error.code}] {error.message}", f"next: {error.next_step}"]}, answer.status_code)


def _jobs(flink: Flink, _: Request) -> Any:
    return {"jobs": [{"id": job_id(job), "status": job_state(job)} for job in flink.jobs()]}


def _aggregated_jobs(flink: Flink, request: Request) -> Any:
    wanted = request.query_params.get("jobs")
    chosen = [job for job in flink.jobs() if wanted is None or job_id(job) in wanted.split(",")]
    return _aggregated(request, [job_metrics(job) for job in chosen])


def _aggregated(request: Request, found: Sequence[dict[str, float]]) -> Any:
    return flink_figures.aggregated(found, request.query_params.get("get"), request.query_params.get("agg"))


def _job_metrics(flink: Flink, request: Request) -> Any:
    return flink_figures.metrics(job_metrics(flink.line(request)), request.query_params.get("get"))


def _config_of_job(flink: Flink, request: Request) -> Any:
    line, (monitor, name) = flink.line(request), flink.place(request)
    return {
        "jid": job_id(line),
        "name": line.job,
        "execution-config": {
            "execution-mode": "PIPELINED",
            "restart-strategy": "exponential delay",
            "job-parallelism": max((one.parallelism for one in flink.shown(request).tasks), default=1),
            "object-reuse-mode": False,
            "user-config": monitor.settings(name).settings,
        },
    }


def _exceptions(flink: Flink, request: Request) -> Any:
    monitor, name = flink.place(request)
    return flink_views.exceptions(flink.shown(request), monitor.history.events(name, limit=_EXCEPTIONS))


def _checkpoints(flink: Flink, request: Request) -> Any:
    monitor, name = flink.place(request)
    return flink_checkpoints.checkpoints(monitor.checkpoints.newest(name, _HISTORY), monitor.checkpoints.summary(name))


def _checkpoint_config(flink: Flink, request: Request) -> Any:
    monitor, name = flink.place(request)
    return flink_checkpoints.config(monitor.checkpoints.config(name))


def _checkpoint(flink: Flink, request: Request) -> Any:
    monitor, name = flink.place(request)
    return flink_checkpoints.details(
        monitor.checkpoints.one(name, request.path_params["id"]), request.path_params["job"]
    )


def _checkpoint_subtasks(flink: Flink, request: Request) -> Any:
    monitor, name = flink.place(request)
    _, vertex = flink.vertex(request)
    return flink_checkpoints.subtasks(monitor.checkpoints.one(name, request.path_params["id"]), vertex.uid)


def _vertex_metrics(flink: Flink, request: Request) -> Any:
    return flink_figures.metrics(flink_figures.vertex_metrics(*flink.vertex(request)), request.query_params.get("get"))


def _subtasks_metrics(flink: Flink, request: Request) -> Any:
    shown, vertex = flink.vertex(request)
    wanted = request.query_params.get("subtasks")
    chosen = [
        subtask_metrics(one, at_work=shown.at_work)
        for one in shown.subtasks(vertex.uid)
        if wanted is None or str(one.status.subtask) in wanted.split(",")
    ]
    return _aggregated(request, chosen)


def _subtask(flink: Flink, request: Request) -> Any:
    shown, vertex = flink.vertex(request)
    for one in shown.subtasks(vertex.uid):
        if one.status.subtask == request.path_params["subtask"]:
            return flink_views.subtask(shown, one)
    raise ControlError("ADDRESS_UNKNOWN", method="GET", path=request.url.path)


def _subtasks(flink: Flink, request: Request) -> Any:
    """Return what is known of subtasks by time: only when they started. There are no accumulators."""
    shown, vertex = flink.vertex(request)
    rows = [flink_views.subtask(shown, one) for one in shown.subtasks(vertex.uid)]
    return {
        "id": vertex_id(shown.id, vertex.uid),
        "name": vertex.uid,
        "parallelism": vertex.parallelism,
        "now": shown.now_ms,
        "user-accumulators": [],
        "subtasks": [{**row, "timestamps": {}, "user-accumulators": []} for row in rows],
    }


def _task_managers(flink: Flink, request: Request) -> Any:
    shown, vertex = flink.vertex(request)
    one = flink_views.vertex(shown, vertex)
    line = shown.job.overview
    manager = {
        "host": line.host,
        "endpoint": line.host,
        "taskmanager-id": line.host,
        "status-counts": one["tasks"],
        "aggregated": {"metrics": {}, "status-duration": {}},
        **{name: one[name] for name in ("status", "start-time", "end-time", "duration", "metrics")},
    }
    return {"id": one["id"], "name": one["name"], "now": shown.now_ms, "taskmanagers": [manager]}


def _answer(flink: Flink, request: Request) -> Any:
    """Return what became of a trigger."""
    line = flink.line(request)
    try:
        found = flink.actions.answer(line.id, request.path_params["trigger"])
    except RekindleError as error:
        if error.code == "REQUEST_UNKNOWN":
            raise
        cause = {"class": error.code, "stack-trace": f"[{error.code}] {error.message}"}
        return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}
    if not found.done:
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    return {
        "status": {"id": "COMPLETED"},
        "operation": {"location": found.savepoint, "checkpointId": found.checkpoint},
    }


_OF_VERTEX = "/jobs/{job}/vertices/{vertex}"

READ: dict[str, Read] = {
    "/config": lambda flink, _: flink_views.config(flink.version, allow_actions=flink.allow_actions),
    "/overview": lambda flink, _: flink_views.overview(flink.jobs(), flink.version),
    "/jobs": _jobs,
    "/jobs/overview": lambda flink, _: flink_views.jobs_overview(flink.jobs(), now_ms()),
    "/jobs/metrics": _aggregated_jobs,
    "/jobs/{job}": lambda flink, request: flink_views.job(flink.shown(request)),
    "/jobs/{job}/plan": lambda flink, request: {"plan": flink_views.plan(flink.shown(request))},
    "/jobs/{job}/config": _config_of_job,
    "/jobs/{job}/exceptions": _exceptions,
    "/jobs/{job}/metrics": _job_metrics,
    "/jobs/{job}/accumulators": lambda _flink, _: {
        "job-accumulators": [],
        "user-task-accumulators": [],
        "serialized-user-task-accumulators": {},
    },
    "/jobs/{job}/checkpoints": _checkpoints,
    "/jobs/{job}/checkpoints/config": _checkpoint_config,
    "/jobs/{job}/checkpoints/details/{id:int}": _checkpoint,
    "/jobs/{job}/checkpoints/details/{id:int}/subtasks/{vertex}": _checkpoint_subtasks,
    "/jobs/{job}/checkpoints/{trigger}": _answer,
    "/jobs/{job}/savepoints/{trigger}": _answer,
    _OF_VERTEX: lambda flink, request: flink_views.vertex_details(*flink.vertex(request)),
    f"{_OF_VERTEX}/backpressure": lambda flink, request: flink_figures.backpressure(*flink.vertex(request)),
    f"{_OF_VERTEX}/watermarks": lambda flink, request: flink_figures.watermarks(*flink.vertex(request)),
    f"{_OF_VERTEX}/metrics": _vertex_metrics,
    f"{_OF_VERTEX}/accumulators": _subtasks,
    f"{_OF_VERTEX}/subtasktimes": _subtasks,
    f"{_OF_VERTEX}/taskmanagers": _task_managers,
    f"{_OF_VERTEX}/subtasks/metrics": _subtasks_metrics,
    f"{_OF_VERTEX}/subtasks/accumulators": _subtasks,
    f"{_OF_VERTEX}/subtasks/{{subtask:int}}": _subtask,
    "/taskmanagers": lambda _flink, _: {"taskmanagers": []},
    "/jobmanager/config": lambda _flink, _: [],
    "/jobmanager/metrics": lambda _flink, _: [],
}
"""Path → the function that answers, in the order in which they are tried."""


def _reading(flink: Flink, read: Read) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return as_json(await run_in_threadpool(read, flink, request))

    return answer
