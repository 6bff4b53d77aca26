"""The server: its routes, in one Starlette application."""

from __future__ import annotations

import gc
import socket
from collections.abc import Awaitable, Callable, Iterator
from importlib import resources
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from rekindle.errors import ConfigError, ControlError, RekindleError
from rekindle.monitoring.monitors import Monitors
from rekindle.ui import api, flink, metrics, openapi
from rekindle.ui.actions import VERBS, Actions, options_of
from rekindle.ui.answers import as_json, body_of, refusal
from rekindle.ui.security import Guard, Policy

Answer = Callable[[Request], Awaitable[Response]]

_OBJECTS = 100_000
"""Objects that the largest answer, all metrics of hundreds of jobs, makes beside each other: so many do not start the
garbage collector, which would look at all that the server remembers of its jobs while a reader waits."""


def application(monitors: Monitors, policy: Policy, version: str = "") -> ASGIApp:
    """Return the whole server, guarded by `policy`."""
    actions = Actions(monitors)

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def described(_: Request) -> Response:
        return Response(openapi.encoded(version), media_type="application/json")

    async def measured(_: Request) -> Response:
        body, kind = await run_in_threadpool(metrics.exposition, monitors)
        return Response(body, headers={"Content-Type": kind})

    async def about(_: Request) -> Response:
        return as_json({"version": version, "allow_actions": policy.allow_actions})

    routes: list[BaseRoute] = [
        Route("/healthz", healthy),
        Route("/openapi.json", described),
        Route("/metrics", measured),
        Route(f"{api.PREFIX}/about", about),
        *(Route(api.PREFIX + one.path, _reading(monitors, one)) for one in api.ROUTES),
        *(Route(f"{api.PREFIX}/jobs/{{job}}/{verb}", _asking(actions, verb), methods=["POST"]) for verb in VERBS),
        Route(f"{api.PREFIX}/jobs/{{job}}/requests/{{request}}", _answering(actions)),
        *(
            Mount(prefix, routes=flink.routes(monitors, actions, version, allow_actions=policy.allow_actions))
            for prefix in flink.PREFIXES
        ),
        *_pages(),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={RekindleError: _refused, HTTPException: _unknown},
    )
    return Guard(app, policy)


def _pages() -> Iterator[BaseRoute]:
    """Yield the static pages, unless the package was built without them."""
    folder = Path(str(resources.files("rekindle.ui"))) / "static"
    if (folder / "index.html").exists():
        yield Mount("/", StaticFiles(directory=folder, html=True))


def _reading(monitors: Monitors, route: api.Route) -> Answer:
    async def answer(request: Request) -> Response:
        return as_json(await run_in_threadpool(route.read, monitors, request))

    return answer


def _asking(actions: Actions, verb: str) -> Answer:
    async def answer(request: Request) -> Response:
        body = options_of(verb, await body_of(request))
        job = request.path_params["job"]
        name = await actions.ask(job, verb, body)
        found = await actions.answer_within(job, name, min(body.wait, 60))
        return as_json(found, 200 if found.done else 202)

    return answer


def _answering(actions: Actions) -> Answer:
    async def answer(request: Request) -> Response:
        job, name = request.path_params["job"], request.path_params["request"]
        return as_json(actions.answer(job, name))

    return answer


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RekindleError)
    if any(request.url.path.startswith(f"{prefix}/") for prefix in flink.PREFIXES):
        return flink.refusal(error)
    return refusal(error)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    unknown = ControlError("ADDRESS_UNKNOWN", method=request.method, path=request.url.path)
    return await _refused(request, unknown) if error.status_code in (404, 405) else _plain(error)


def _plain(error: HTTPException) -> Response:
    return PlainTextResponse(str(error.detail), error.status_code)


def listen(host: str, port: int) -> socket.socket:
    """Take an address; raise ``UI_PORT_TAKEN`` where it cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError("UI_PORT_TAKEN", host=host, port=port, reason=error) from error


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Answer until it is interrupted, as what this process is for."""
    gc.set_threshold(_OBJECTS)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listener])
