"""The documents by which a job is asked for something, and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``<id>.request.json``: what a verb asks of a running driver."""

    id: str
    #: run it is meant for; a later one refuses it (REQUEST_STALE)
    run: int
    #: checkpoint | savepoint | stop | cancel
    verb: str
    created_ms: int
    drain: bool = False
    #: directory for the savepoint, absolute; None: none asked for
    savepoint: str | None = None
    #: the savepoint, or the stop, may name in-flight data; without channels it has none, so that both are the same
    unaligned: bool = False
    #: origin of the request: user, host and process, or a signal; empty where an older version wrote it
    by: str = ""
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``<id>.answer.json``: the answer of a driver, durable before anything reports it."""

    id: str
    job: str
    state: str
    answered_ms: int
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    error: Json | None = None
    format: int = FORMAT_VERSION
