"""Answers as JSON, errors as the table of errors has them."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from rekindle.errors import RekindleError

_STATUS = {
    "JOB_UNKNOWN": 404,
    "JOB_ID_UNKNOWN": 404,
    "CHECKPOINT_NOT_KNOWN": 404,
    "CHECKPOINT_UNKNOWN": 404,
    "RUN_UNKNOWN": 404,
    "REQUEST_UNKNOWN": 404,
    "ADDRESS_UNKNOWN": 404,
}
_STATUS_OF_KIND = {"config": 400, "control": 409, "restore": 409, "storage": 503}


def as_json(value: Any, status: int = 200) -> Response:
    """Return plain data as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(error: RekindleError, status: int | None = None) -> Response:
    """Return an error, with the status of its kind."""
    code = status or _STATUS.get(error.code) or _STATUS_OF_KIND.get(error.kind, 500)
    return as_json({"error": {**error.to_json(), "failed_ms": None}}, code)
