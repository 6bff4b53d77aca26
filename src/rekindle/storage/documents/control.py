"""The documents by which a job is asked for something, and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``<id>.request.json``: a request to a running driver."""

    id: str
    #: run that it is meant for. A later run refuses it (REQUEST_STALE)
    run: int
    #: checkpoint | savepoint | stop | cancel
    verb: str
    created_ms: int
    #: with stop: drain the job
    drain: bool = False
    #: directory for the savepoint, absolute; None: no savepoint is wanted
    savepoint: str | None = None
    #: True: data between tasks may be copied instead of read first
    unaligned: bool = False
    #: origin of the request: user, host and process, or a signal; empty where an older version wrote it
    by: str = ""
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``<id>.answer.json``: the answer of a driver, durable before anything reports it."""

    id: str
    job: str
    #: state of the job
    state: str
    answered_ms: int
    #: number of the checkpoint that was taken
    checkpoint: int | None = None
    #: folder of the savepoint that was made, absolute
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    #: reason why the request has failed: code, message, parameters, next step
    error: Json | None = None
    format: int = FORMAT_VERSION
