"""From an exception of Spark's to an error with a code.

Spark nests its causes and spells them in several ways; what says most is a condition's name in brackets, so that is
looked for in the whole text. The first row that matches wins.
"""

from __future__ import annotations

import re

from rekindle.errors import InputError, RekindleError

BEFORE_EPOCH = "REKINDLE_EVENT_TIME_BEFORE_EPOCH"
"""Raised inside the plan by an input's guard: ``REKINDLE_EVENT_TIME_BEFORE_EPOCH:<source>:<column>``."""

_FILE = re.compile(r"(?:reading|read) file:?\s+(\S+?)\.?(?:\s|$)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*(.*?)(?:\s*SQLSTATE:|\n|$)")

_ROWS: tuple[tuple[str, str], ...] = (
    (r"PARQUET_COLUMN_DATA_TYPE_MISMATCH|CANNOT_MERGE|SchemaColumnConvertNotSupported", "SCHEMA_MISMATCH"),
    (
        r"MALFORMED_RECORD_IN_PARSING|MALFORMED_CSV_RECORD|BadRecordException|Malformed records are detected",
        "MALFORMED",
    ),
    (r"FAILED_READ_FILE\.FILE_NOT_EXIST|FileNotFoundException|does not exist", "FILE_VANISHED"),
    (r"FAILED_READ_FILE|CANNOT_READ_FILE|is not a Parquet file|CORRUPT", "FILE_UNREADABLE"),
)


def translate(error: BaseException, sources: str) -> RekindleError | None:
    """The error that a person can act on, or None where Spark's own words are the best there are.

    Args:
        error: what a batch raised.
        sources: uids of the task's file sources, for the sentence.
    """
    if isinstance(error, RekindleError):
        return error
    text = str(error)
    guard = re.search(BEFORE_EPOCH + r":([^:\s]+):(\S+)", text)
    if guard:
        return InputError("EVENT_TIME_BEFORE_EPOCH", source=guard[1], column=guard[2])
    for pattern, code in _ROWS:
        if re.search(pattern, text):
            path = match[1] if (match := _FILE.search(text)) else "a file"
            if code == "MALFORMED":
                return InputError("MALFORMED_ROW", source=sources, reason=f"in {path}: {brief(error)}")
            if code == "FILE_VANISHED":
                return InputError("FILE_VANISHED", source=sources, path=path)
            return InputError(code, source=sources, path=path, reason=brief(error))
    return None


def brief(error: BaseException) -> str:
    """One line: the innermost condition that Spark names, else the first line of the text."""
    text = str(error)
    conditions = _CONDITION.findall(text)
    if conditions:
        name, words = conditions[-1]
        return f"[{name}] {words}".strip()[:500]
    # A user's own exception comes back from a Python worker as the last line of its traceback.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception)\b", line)]
    return f"{type(error).__name__}: {(named or lines or [''])[-1 if named else 0]}"[:500]
