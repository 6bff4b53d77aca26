"""Answers as JSON, errors as the table of errors has them."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rekindle.errors import ConfigError, RekindleError

_STATUS = {
    "JOB_UNKNOWN": 404,
    "JOB_ID_UNKNOWN": 404,
    "CHECKPOINT_NOT_KNOWN": 404,
    "CHECKPOINT_UNKNOWN": 404,
    "RUN_UNKNOWN": 404,
    "REQUEST_UNKNOWN": 404,
    "ADDRESS_UNKNOWN": 404,
    "STORAGE_SCHEME_UNSUPPORTED": 400,
}
_LONGEST_BODY = 65_536
_STATUS_OF_KIND = {"config": 400, "control": 409, "restore": 409, "storage": 503}


def as_json(value: Any, status: int = 200) -> Response:
    """Return plain data as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def body_of(request: Request) -> bytes:
    """Return the body of a request; ``BODY_INVALID`` where it is too long to be read."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LONGEST_BODY:
            raise ConfigError("BODY_INVALID", reason=f"it is longer than {_LONGEST_BODY} bytes")
    return data


def refusal(error: RekindleError, status: int | None = None) -> Response:
    """Return an error, with the status of its kind."""
    code = status or _STATUS.get(error.code) or _STATUS_OF_KIND.get(error.kind, 500)
    return as_json({"error": {**error.to_json(), "failed_ms": None}}, code)
