"""Translate an exception of Spark's into an error with a code.

Each link of its chain has a class and, where Spark gave it one, a condition. These two decide, and where an exception
was raised; never the words, which may be a user's own. A file counts as a source's only where Spark says that it was
reading that file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from rekindle.errors import InputError, RekindleError, RestoreError, StorageError, one_line, storable
from rekindle.ids import SubtaskId
from rekindle.protocol.events import TaskFailed
from rekindle.session.links import Link, chain, trace
from rekindle.session.servers import of_driver, of_kafka
from rekindle.session.tables import of_table

BEFORE_EPOCH = "REKINDLE_EVENT_TIME_BEFORE_EPOCH"
AFTER_9999 = "REKINDLE_EVENT_TIME_AFTER_9999"
"""The errors that an input's guard raises in the plan: ``REKINDLE_EVENT_TIME_BEFORE_EPOCH:<source>:<column>``."""

_GUARD = re.compile(
    rf"(?:\[USER_RAISED_EXCEPTION\]\s*)?({BEFORE_EPOCH}|{AFTER_9999}):([^:\s]+):(.+?)(?:\s*SQLSTATE: .*)?",
    flags=re.DOTALL,
)
"""All of what the guard says, in Spark 4 and in Spark 3.5; the name of a column may hold any letter."""

_MISFIT = re.compile(r".*PARQUET_COLUMN_DATA_TYPE_MISMATCH|_LEGACY_ERROR_TEMP_2063|CANNOT_MERGE_SCHEMAS?(\..*)?")
_MALFORMED = re.compile(r"MALFORMED_RECORD_IN_PARSING(\..*)?|MALFORMED_CSV_RECORD|_LEGACY_ERROR_TEMP_2177")
_MISSING = re.compile(r".*\.FILE_NOT_EXIST|_LEGACY_ERROR_TEMP_2055")
_STATE_SCHEMA = re.compile(
    r"STATE_STORE_(KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_\w*SCHEMA_EVOLUTION\w*(\..*)?"
    r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE"
)
_OTHER_STATE = re.compile(r"STATE_STORE_\w*SCHEMA\w*(\..*)?|STATE_STORE_INVALID\w*(\..*)?")
_STATE_SCHEMA_CLASS = re.compile(r"StateSchemaNotCompatible|StateStore\w*SchemaNotCompatible")

_FORMATS = ("org.apache.parquet.", "org.apache.orc.", "shaded.parquet.")
"""Libraries that read files: what they raise, they raise of a file's content."""

_WRAPPING = re.compile(r"INTERNAL_ERROR|STREAM_FAILED|TASK_WRITE_FAILED|FAILED_READ_FILE\.NO_HINT|_LEGACY_ERROR_TEMP.*")
"""Conditions that say nothing of the reason where there is a deeper one."""

_ROOM = "a directory that Spark writes to (the storage, spark.local.dir, or the target of a sink)"

_PERMISSION = "(Permission denied)"
"""The end of Java's FileNotFoundException for a file that is there: Java has no class of its own for that."""

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*(.*?)(?:\s*SQLSTATE:|\n|$)")
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)$", re.MULTILINE)
"""The last line of a traceback from a Python worker: the user's own exception."""

_MODULE = re.compile(r"^(?:[\w<>]+\.)+(?=\w+(?::|$))")
_SCHEME = re.compile(r"^(?:\w+:)?/+")
_LENGTH = 500


def is_of_newer_spark(links: list[Link]) -> bool:
    """Return True if Spark met a log that only a later version can read."""
    return any(
        link.condition.startswith("INVALID_LOG_VERSION")
        or (link.short_name == "IllegalStateException" and "MetadataVersionUtil" in link.raised_by)
        for link in links
    )


def is_of_other_query(links: list[Link]) -> bool:
    """Return True if Spark met a checkpoint whose state, or whose sources, are not those of the query."""
    return _has_other_state(links) or any(
        _OTHER_STATE.fullmatch(link.condition)
        or (link.name == "java.lang.AssertionError" and "OffsetSeq" in link.raised_by)
        for link in links
    )


def _has_other_state(links: list[Link]) -> bool:
    return any(
        _STATE_SCHEMA.fullmatch(link.condition) or _STATE_SCHEMA_CLASS.fullmatch(link.short_name) for link in links
    )


def translate(error: BaseException, source_of: Callable[[str], str | None]) -> RekindleError | None:
    """Return the error that a person can act on, or None where the words of the reason are the best there are.

    Args:
        error: what a batch raised.
        source_of: the source that a file is of, None where it is none of the task's; asked with an empty path where
            Spark does not say which file it is.
    """
    if isinstance(error, RekindleError):
        return error
    links = chain(error)
    for link in links:
        if (link.is_users or link.name == "java.lang.RuntimeException") and (guard := _GUARD.fullmatch(link.message)):
            return InputError(guard[1].removeprefix("REKINDLE_"), source=guard[2], column=guard[3])
    if _has_other_state(links):
        return RestoreError("STATE_SCHEMA_INCOMPATIBLE", reason=brief(error))
    if any(link.no_room for link in links):
        return StorageError("STORAGE_FULL", uri=_ROOM, reason=brief(error))
    sources = source_of("") or ""
    if (of_stream := of_kafka(links, sources) or of_table(links, sources)) is not None:
        return of_stream
    reading = next((number for number, link in enumerate(links) if link.is_of_file), None)
    if reading is None or any(link.is_users for link in links):
        return None
    path = next((link.path for link in links[reading:] if link.path), "")
    source = source_of(path)
    return None if source is None else _file_error(links[reading:], source, path or "a file", brief(error))


def _file_error(links: list[Link], source: str, path: str, reason: str) -> InputError:
    names = {link.short_name for link in links}
    conditions = [link.condition for link in links]
    if any(map(_MISFIT.fullmatch, conditions)) or "SchemaColumnConvertNotSupportedException" in names:
        return InputError("SCHEMA_MISMATCH", source=source, path=path, reason=reason)
    if any(map(_MALFORMED.fullmatch, conditions)) or "BadRecordException" in names:
        return InputError("MALFORMED_ROW", source=source, reason=f"in {path}: {reason}")
    if "URISyntaxException" in names:
        return InputError("FILE_NAME_UNSUPPORTED", source=source, path=path)
    forbidden = any(link.short_name == "FileNotFoundException" and _PERMISSION in link.message for link in links)
    if forbidden or names & {"AccessControlException", "AccessDeniedException"}:
        return InputError("FILE_UNREADABLE", source=source, path=path, reason=reason)
    if any(map(_MISSING.fullmatch, conditions)) or names & {"FileNotFoundException", "SparkFileNotFoundException"}:
        return InputError("FILE_VANISHED", source=source, path=path)
    damaged = any(place.startswith(_FORMATS) for link in links for place in (link.name, link.raised_by))
    return InputError("FILE_DAMAGED" if damaged else "FILE_UNREADABLE", source=source, path=path, reason=reason)


def is_same_file(spelled: str, path: str) -> bool:
    """Return True if Spark, which may write it as a URI, means the file at `path`."""
    return bool(spellings(spelled) & spellings(path))


def spellings(path: str) -> set[str]:
    """Return how a file's path may be written, without its scheme: two of one file have one in common."""
    return {_SCHEME.sub("", path), _SCHEME.sub("", unquote(path))}


def task_failed(task: SubtaskId, reason: BaseException | None, source_of: Callable[[str], str | None]) -> TaskFailed:
    """Return what the protocol hears of a subtask that has died; `source_of` as for `translate`."""
    if reason is None:
        return TaskFailed(task=task, reason="its query was stopped from outside")
    known = translate(reason, source_of)
    permanent = known is not None and known.permanent
    error = (known.code, known.parameters) if known else None
    words = str(known or brief(reason))
    return TaskFailed(task=task, reason=words, permanent=permanent, error=error, trace=trace(reason))


def brief(error: BaseException) -> str:
    """Return one line: what a user's code raised, else the innermost telling condition, else the first line."""
    links = chain(error)
    for link in links:
        if link.is_of_python and (raised := _RAISED.findall(link.message)):
            return _MODULE.sub("", raised[-1])[:_LENGTH]
    if (said := of_driver(links)) is not None:
        return said[:_LENGTH]
    if telling := [link for link in links if link.condition and not _WRAPPING.fullmatch(link.condition)]:
        link = telling[-1]
        match = _CONDITION.match(link.message.lstrip())  # the parser's words begin with an empty line
        words = match[2] if match else _first_line(link.message)
        return f"[{link.condition}] {words}".strip()[:_LENGTH]
    if links and links[-1].message:
        return f"{links[-1].short_name}: {_first_line(links[-1].message)}"[:_LENGTH]
    return _brief_text(error)


def _brief_text(error: BaseException) -> str:
    """Return the same for an exception that stands for none of the JVM's."""
    text = storable(error)
    if raised := _RAISED.findall(text):
        return _MODULE.sub("", raised[-1])[:_LENGTH]
    conditions = _CONDITION.findall(text) if hasattr(error, "getErrorClass") else []
    if conditions:
        name, words = conditions[-1]
        return f"[{name}] {words}".strip()[:_LENGTH]
    return one_line(error)[:_LENGTH]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
