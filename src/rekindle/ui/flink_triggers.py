"""The requests that Flink's clients may make to a job: savepoint, checkpoint, stop, cancel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rekindle.errors import ConfigError
from rekindle.ui.actions import ActionBody
from rekindle.ui.answers import as_json, body_of
from rekindle.ui.flink_jobs import Flink


def routes(flink: Flink) -> list[Route]:
    """Return the routes that change something."""
    return [
        Route("/jobs/{job}/savepoints", _triggering(flink, "savepoint"), methods=["POST"]),
        Route("/jobs/{job}/checkpoints", _triggering(flink, "checkpoint"), methods=["POST"]),
        Route("/jobs/{job}/stop", _triggering(flink, "stop"), methods=["POST"]),
        Route("/jobs/{job}", _canceling(flink), methods=["PATCH"]),
    ]


class TriggerBody(msgspec.Struct, rename={"target": "target-directory", "cancel": "cancel-job"}):
    """The options that Flink's clients send with a trigger: a savepoint's folder has two names there."""

    target: str | None = None
    targetDirectory: str | None = None  # noqa: N815 # as Flink calls it
    drain: bool = False
    cancel: bool = False


_STOP = "POST /jobs/{job}/stop stops a job with a savepoint"


def _triggering(flink: Flink, verb: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        body = _body(await body_of(request))
        if body.cancel:
            raise ConfigError("BODY_INVALID", reason=f"cancel-job is not done here; {_STOP}")
        line = await run_in_threadpool(flink.line, request)
        asked = ActionBody(directory=body.targetDirectory if body.target is None else body.target)
        wanted = "drain" if verb == "stop" and body.drain else verb
        name = await flink.actions.ask(line.id, wanted, asked)
        return as_json({"request-id": name}, 202)

    return answer


def _body(data: bytes) -> TriggerBody:
    try:
        return msgspec.json.decode(data, type=TriggerBody) if data.strip() else TriggerBody()
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError("BODY_INVALID", reason=error) from error


def _canceling(flink: Flink) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if request.query_params.get("mode", "cancel") != "cancel":
            raise ConfigError("BODY_INVALID", reason=f"mode has to be cancel; {_STOP}")
        line = await run_in_threadpool(flink.line, request)
        await flink.actions.ask(line.id, "cancel", ActionBody())
        return as_json({}, 202)

    return answer
