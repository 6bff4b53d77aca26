"""From an exception of Spark's to an error with a code.

Spark nests its causes and spells them in several ways; what says most is a condition's name in brackets, so that is
looked for in the whole text. The first row that matches wins.
"""

from __future__ import annotations

import re

from rekindle.errors import InputError, RekindleError, one_line
from rekindle.ids import SubtaskId
from rekindle.protocol.events import TaskFailed

BEFORE_EPOCH = "REKINDLE_EVENT_TIME_BEFORE_EPOCH"
"""Raised inside the plan by an input's guard: ``REKINDLE_EVENT_TIME_BEFORE_EPOCH:<source>:<column>``."""

_GUARD = re.compile(rf"(?:USER_RAISED_EXCEPTION\]|RuntimeException:)\s*{BEFORE_EPOCH}:([^:\s]+):(\S+)")
"""As Spark 4 and Spark 3.5 tell of it."""

_FILE = re.compile(r"(?:reading|read) file:?\s+(\S+?)\.?(?:\s|$)")
_CAUSE = re.compile(r"Caused by: (?:[\w$]+\.)*([\w$]+): (.+)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*(.*?)(?:\s*SQLSTATE:|\n|$)")

_RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)$", re.MULTILINE)
"""The last line of a traceback from a Python worker: the user's own exception."""

_MODULE = re.compile(r"^(?:[\w<>]+\.)+(?=\w+(?::|$))")
_LENGTH = 500

_ROWS: tuple[tuple[str, str], ...] = (
    (r"PARQUET_COLUMN_DATA_TYPE_MISMATCH|CANNOT_MERGE|SchemaColumnConvertNotSupported", "SCHEMA_MISMATCH"),
    (
        r"MALFORMED_RECORD_IN_PARSING|MALFORMED_CSV_RECORD|BadRecordException|Malformed records are detected",
        "MALFORMED",
    ),
    (r"Permission denied|AccessControlException", "FILE_UNREADABLE"),
    (r"FAILED_READ_FILE\.FILE_NOT_EXIST|FileNotFoundException|does not exist", "FILE_VANISHED"),
    (r"(?i)is not a Parquet file|can not read class org.apache.parquet|Malformed ORC|CORRUPT", "FILE_DAMAGED"),
    (r"FAILED_READ_FILE|CANNOT_READ_FILE", "FILE_UNREADABLE"),
)


def translate(error: BaseException, sources: str) -> RekindleError | None:
    """The error that a person can act on, or None where Spark's own words are the best there are.

    Args:
        error: what a batch raised.
        sources: uids of the task's file sources, for the sentence.
    """
    if isinstance(error, RekindleError):
        return error
    # Behind the message Spark prints the query's plan, which holds the user's words and the guard's.
    text = str(error).partition("=== Streaming Query ===")[0]
    guard = _GUARD.search(text)
    if guard:
        return InputError("EVENT_TIME_BEFORE_EPOCH", source=guard[1], column=guard[2])
    if _RAISED.search(text):
        return None  # whatever its words may look like
    for pattern, code in _ROWS:
        if re.search(pattern, text):
            path = match[1] if (match := _FILE.search(text)) else "a file"
            if code == "MALFORMED":
                return InputError("MALFORMED_ROW", source=sources, reason=f"in {path}: {brief(error)}")
            if code == "FILE_VANISHED":
                return InputError("FILE_VANISHED", source=sources, path=path)
            return InputError(code, source=sources, path=path, reason=brief(error))
    return None


def task_failed(task: SubtaskId, reason: BaseException | None, sources: str) -> TaskFailed:
    """What the protocol is told of a subtask that has died; `sources` as for `translate`."""
    if reason is None:
        return TaskFailed(task=task, reason="its query was stopped from outside")
    known = translate(reason, sources)
    permanent = known is not None and known.permanent
    error = (known.code, known.parameters) if known else None
    return TaskFailed(task=task, reason=str(known or brief(reason)), permanent=permanent, error=error)


def brief(error: BaseException) -> str:
    """One line: what a user's function raised, else the innermost condition that Spark names, else the first line."""
    text = str(error)
    raised = _RAISED.findall(text)
    if raised:
        return _MODULE.sub("", raised[-1])[:_LENGTH]
    conditions = _CONDITION.findall(text)
    causes = _CAUSE.findall(text)
    if conditions and causes and conditions[-1][0].endswith(".NO_HINT"):
        return ": ".join(causes[-1])[:_LENGTH]
    if conditions:
        name, words = conditions[-1]
        return f"[{name}] {words}".strip()[:_LENGTH]
    return one_line(error)[:_LENGTH]
