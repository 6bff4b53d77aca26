"""``/api/v1``: one table of routes, from which the server and its OpenAPI document are made."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from rekindle.errors import ConfigError
from rekindle.history.statistics import Summary
from rekindle.logs.lines import LogLine
from rekindle.monitoring import checkpoint_views, views
from rekindle.monitoring.contents import ContentsView
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.monitoring.recent import RecentView, recent

Read = Callable[[Monitors, Request], Any]

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the query of an address."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class Route:
    """Something that can be asked for."""

    path: str
    what: str
    #: a class, or a list of it
    answer: Any
    read: Read
    parameters: tuple[Parameter, ...] = ()


def number(request: Request, name: str, default: int) -> int:
    """Return a parameter that is a whole number; ``VALUE_INVALID`` where it is none."""
    text = request.query_params.get(name, request.path_params.get(name))
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            "VALUE_INVALID", key=name, value=text, reason="not a whole number", example=str(default)
        ) from None


def _of_job(read: Callable[[Monitor, str, Request], Any]) -> Read:
    def of_job(monitors: Monitors, request: Request) -> Any:
        monitor, name = monitors.find(request.path_params["job"])
        return read(monitor, name, request)

    return of_job


def _of_checkpoint(savepoint: bool) -> Read:
    return _of_job(
        lambda monitor, name, request: monitor.checkpoints.contents(name, number(request, "id", 0), savepoint)
    )


def _events(monitor: Monitor, name: str, request: Request) -> list[views.EventView]:
    run = number(request, "run", -1)
    return monitor.history.events(name, run if run >= 0 else None, number(request, "after", -1), _limit(request, 500))


def _logs(monitor: Monitor, name: str, request: Request) -> list[LogLine]:
    run = number(request, "run", -1)
    return monitor.history.logs(name, run if run >= 0 else None, _limit(request, 500))


def _limit(request: Request, default: int) -> int:
    return max(number(request, "limit", default), 0)


_LIMIT = Parameter("limit", "how many at most")
_AFTER = Parameter("after", "only events with a greater number")
_RUN = Parameter("run", "only events of this run")
_SINCE = Parameter("since", "only samples after this moment, milliseconds since the epoch")

ROUTES = (
    Route("/storages", "The storages that are watched.", list[views.StorageView], lambda all_, _: all_.storages()),
    Route("/jobs", "All jobs, by storage and name.", list[views.JobOverview], lambda all_, _: all_.overview()),
    Route(
        "/recent",
        "How many rows each job that runs read in its last ten minutes.",
        list[RecentView],
        lambda all_, _: recent(all_, time.time_ns() // 1_000_000),
    ),
    Route("/jobs/{job}", "A job with its subtasks.", views.JobView, _of_job(lambda one, name, _: one.job(name))),
    Route(
        "/jobs/{job}/graph",
        "Sources, tasks and sinks, with figures on vertices and edges.",
        views.GraphView,
        _of_job(lambda one, name, _: one.graph(name)),
    ),
    Route(
        "/jobs/{job}/checkpoints",
        "Counts, the latest ones, and the newest of the history.",
        checkpoint_views.CheckpointsView,
        _of_job(lambda one, name, request: one.checkpoints.newest(name, _limit(request, 50))),
        (_LIMIT,),
    ),
    Route(
        "/jobs/{job}/checkpoints/summary",
        "What the newest thousand completed checkpoints cost.",
        Summary,
        _of_job(lambda one, name, _: one.checkpoints.summary(name)),
    ),
    Route(
        "/jobs/{job}/checkpoints/config",
        "How checkpoints are taken.",
        checkpoint_views.CheckpointConfig,
        _of_job(lambda one, name, _: one.checkpoints.config(name)),
    ),
    Route(
        "/jobs/{job}/checkpoints/{id}",
        "A checkpoint with its subtasks.",
        checkpoint_views.CheckpointView,
        _of_job(lambda one, name, request: one.checkpoints.one(name, number(request, "id", 0))),
    ),
    Route(
        "/jobs/{job}/checkpoints/{id}/contents",
        "What is in a checkpoint that is still there.",
        ContentsView,
        _of_checkpoint(savepoint=False),
    ),
    Route(
        "/jobs/{job}/savepoints",
        "The savepoints that the history knows, the newest first.",
        list[checkpoint_views.SavepointView],
        _of_job(lambda one, name, _: one.checkpoints.savepoints(name)),
    ),
    Route(
        "/jobs/{job}/savepoints/{id}/contents",
        "What is in the savepoint that was made of this checkpoint, if it is still there.",
        ContentsView,
        _of_checkpoint(savepoint=True),
    ),
    Route(
        "/jobs/{job}/runs",
        "The runs, the newest first.",
        list[views.RunView],
        _of_job(lambda one, name, request: one.history.runs(name, _limit(request, 200))),
        (_LIMIT,),
    ),
    Route(
        "/jobs/{job}/events",
        "The newest events, the oldest of them first.",
        list[views.EventView],
        _of_job(_events),
        (_RUN, _AFTER, _LIMIT),
    ),
    Route(
        "/jobs/{job}/logs",
        "The last lines of the log of a run, of the newest one unless it is named, the oldest first.",
        list[LogLine],
        _of_job(_logs),
        (Parameter("run", "of this run"), _LIMIT),
    ),
    Route(
        "/jobs/{job}/rates",
        "How quick each subtask was, a sample every ten seconds while something changes, the oldest first.",
        views.RatesView,
        _of_job(lambda one, name, request: one.history.rates(name, number(request, "since", 0))),
        (_SINCE,),
    ),
    Route(
        "/jobs/{job}/settings",
        "The settings of the newest run.",
        views.SettingsView,
        _of_job(lambda one, name, _: one.settings(name)),
    ),
)
