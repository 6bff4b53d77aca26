"""A line of the log: made of what was logged, bounded and without secrets; and how it reads, as text and as JSON."""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Any

from rekindle.errors import storable

MESSAGE_LETTERS = 4_000
TRACE_LETTERS = 16_000
"""Letters of the longest message, and of the longest trace: of what is longer the beginning and the end are kept."""

_EDGE = 500
"""Letters beside a cut that are dropped where no word ends there: half a secret would not be recognised as one."""
_TRACES = 32
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """Something that was logged."""

    time_ms: int
    #: DEBUG | INFO | WARNING | ERROR | CRITICAL
    level: str
    #: spark.<class> for what Spark has logged
    logger: str
    message: str
    thread: str = ""
    #: stack of the error that was logged
    trace: str = ""


class LineMaker:
    """A maker of lines that may be stored: bounded, redacted, and without a trace that was there a moment ago."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._traces: deque[bytes] = deque(maxlen=_TRACES)

    def of_record(self, record: logging.LogRecord) -> LogLine:
        """Make the line of a record of `logging`, whatever was passed to it."""
        try:
            message = record.getMessage()
        except Exception as error:
            message = f"{record.msg!s} (its arguments do not fit: {error})"
        trace = getattr(record, "trace", "") or record.exc_text or ""
        if not trace and record.exc_info and record.exc_info[0] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
        return self.line(
            int(record.created * 1000), record.levelname, record.name, message, record.threadName or "", str(trace)
        )

    def line(self, time_ms: int, level: str, logger: str, message: str, thread: str = "", trace: str = "") -> LogLine:
        """Make a line."""
        return LogLine(
            time_ms=time_ms,
            level=level,
            logger=logger,
            message=self._bounded(message, MESSAGE_LETTERS),
            thread=thread[:100],
            trace=self._once(self._bounded(trace.strip("\n"), TRACE_LETTERS)),
        )

    def _bounded(self, text: str, letters: int) -> str:
        if len(text) <= letters:
            return self._redact(storable(text))
        half = letters // 2
        head, tail = text[:half], text[-half:]
        head = head[: max(head.rfind(" "), head.rfind("\n"), half - _EDGE)]
        found = [at for at in (tail.find(" "), tail.find("\n")) if 0 <= at <= _EDGE]
        tail = tail[min(found, default=_EDGE) :]
        left_out = len(text) - len(head) - len(tail)
        cut = f"{self._redact(head)} ... ({left_out:,} letters left out) ... {self._redact(tail)}"
        return storable(cut)

    def _once(self, trace: str) -> str:
        if not trace:
            return ""
        digest = blake2b(_DIGITS.sub("", trace).encode("utf-8", "replace"), digest_size=16).digest()
        if digest in self._traces:
            return "(a trace that is above)"
        self._traces.append(digest)
        return trace


def as_json(line: LogLine, **more: Any) -> str:
    """Return the line as one line of JSON, with its time as people and programs read it."""
    document = {"at": _iso(line.time_ms), "level": line.level, "logger": line.logger, "message": line.message}
    document |= more
    document |= {name: text for name in ("thread", "trace") if (text := getattr(line, name))}
    return json.dumps(document)


def as_text(line: LogLine) -> str:
    """Return the line for people; a trace follows it, indented."""
    first = f"{_iso(line.time_ms)} {line.level:7} {line.logger}: {line.message}"
    return "\n".join([first, *(f"    {part}" for part in line.trace.splitlines())])


def _iso(time_ms: int) -> str:
    # Not fromtimestamp with a fraction, which rounds.
    moment = datetime.fromtimestamp(time_ms // 1000, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
