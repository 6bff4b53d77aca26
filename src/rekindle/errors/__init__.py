"""Every error a user can meet: a stable code, its parameters, a sentence, and what to do next.

    RekindleError
    ├── DefinitionError     the job as written cannot run; found before Spark starts
    ├── ConfigError         a setting, an option or a command line is wrong
    ├── InputError          a source's data is missing, unreadable or not what it was said to be
    ├── StorageError        the job's storage is unreachable, full, damaged or of another format
    ├── RestoreError        this checkpoint or savepoint cannot start this job
    ├── ControlError        a verb cannot be carried out on this job now
    ├── SinkError           a sink could not prepare, commit or abort
    ├── JobError            a running job failed
    └── ProtocolError       a bug in Rekindle itself: an illegal event, a broken invariant

An error is raised by code: ``raise InputError("PATH_MISSING", path=path)``. The sentence and the next step come from
the table in `rekindle.errors.conditions`. A code that is not in it, or belongs to another class, is a bug and fails at
once.
"""

from __future__ import annotations

import re
import sys
from typing import Any, ClassVar

from rekindle.errors.conditions import CONDITIONS, NEXT_STEPS
from rekindle.errors.in_python import in_python
from rekindle.redaction import hide


class RekindleError(Exception):
    """Base of all errors.

    Attributes:
        code: stable upper-case name, e.g. ``PATH_MISSING``.
        parameters: what the sentence was filled with; JSON values, without passwords.
        message: the sentence alone.
        next_step: what the user can do now.
        result: of the job that has failed, a `JobResult`, where `Job.run` raises it; else None.
    """

    kind: ClassVar[str] = ""
    result: Any = None

    def __init__(self, code: str, **parameters: Any) -> None:
        condition = CONDITIONS[code]
        if condition.kind != self.kind:
            raise TypeError(f"{code} is a {condition.kind} error, not a {self.kind} error")
        self.code = code
        parameters = {name: _shown(value) for name, value in parameters.items()}
        self.parameters = parameters
        self.message = condition.message.format(**parameters)
        step = NEXT_STEPS.get(code, {}).get(str(parameters.get("state")), condition.next_step)
        self.next_step = step.format(**parameters)
        super().__init__(f"[{code}] {self.message}")
        #: Python 3.11 and later show these below the text, wherever the error is raised
        self.__notes__ = self.advice()

    @property
    def permanent(self) -> bool:
        """True if trying again cannot help: what is wrong lies in the job or in what is stored."""
        return self.code in _PERMANENT or (self.kind in _PERMANENT_KINDS and self.code not in _TRANSIENT)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.code, self.parameters)

    def advice(self) -> list[str]:
        """Return the last lines for a user of Python: the next step, and the arguments for the options it names."""
        arguments = ", ".join(in_python(self.next_step))
        return [f"next: {self.next_step}", *([f"in Python: {arguments}"] if arguments else [])]

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows below a cell, with the advice at its end."""
        shell = sys.modules["IPython"].get_ipython()
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, self.__traceback__)
        return lines if self.advice()[0] in "\n".join(lines) else [*lines, *self.advice()]

    def to_json(self) -> dict[str, Any]:
        """Return the error as ``--json`` prints it and as a job's result keeps it."""
        return {
            "code": self.code,
            "message": self.message,
            "parameters": self.parameters,
            "next_step": self.next_step,
        }


def _rebuild(cls: type[RekindleError], code: str, parameters: dict[str, Any]) -> RekindleError:
    return cls(code, **parameters)


def _shown(value: Any) -> Any:
    """Return a parameter without secrets; what is no JSON value, such as another error, is its text.

    An error is shown, stored and sent, and an address or a driver's words in it may hold a secret.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return hide(storable(value))


class DefinitionError(RekindleError):
    """The job as written cannot run; raised before Spark starts."""

    kind = "definition"


class ConfigError(RekindleError):
    """A setting, an option or a command line is wrong."""

    kind = "config"


class InputError(RekindleError):
    """A source's data is missing, unreadable, or not what it was said to be."""

    kind = "input"


class StorageError(RekindleError):
    """The job's storage is unreachable, full, damaged, or written by another format version."""

    kind = "storage"


class RestoreError(RekindleError):
    """This checkpoint or savepoint cannot start this job."""

    kind = "restore"


class ControlError(RekindleError):
    """A verb cannot be carried out on this job now."""

    kind = "control"


class SinkError(RekindleError):
    """A sink could not prepare, commit or abort."""

    kind = "sink"


class JobError(RekindleError):
    """A running job failed."""

    kind = "job"


class ProtocolError(RekindleError):
    """A bug in Rekindle: an event that is illegal in this state, or a broken invariant. Carries the story so far."""

    kind = "protocol"


def storable(value: object) -> str:
    """Return the text of a value as it can be stored; empty if a user's class fails to make it.

    UTF-8 has no half of a surrogate pair, and foreign texts may have one.
    """
    try:
        text = str(value)
    except Exception:
        return ""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_REASON = "↳ "
"""Begins a line of delta-rs that says why the line above is so."""


def one_line(error: BaseException) -> str:
    """Return any exception in one line: its type, unless it is one of ours, and the first line of what it says.

    Lines follow that begin as those of delta-rs do which say why.
    """
    first, *more = [line.strip() for line in _COLOUR.sub("", storable(error)).splitlines() if line.strip()] or [""]
    words = ": ".join([first, *(line.removeprefix(_REASON) for line in more if line.startswith(_REASON))])
    if isinstance(error, RekindleError):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


_PERMANENT_KINDS = ("definition", "config", "input")
_TRANSIENT = ("FILE_UNREADABLE", "SPLIT_READ_FAILED", "SOURCE_SERVER_FAILED")
_PERMANENT = (
    "STORAGE_GONE",
    "OBJECT_CORRUPT",
    "FORMAT_NEWER",
    "PROGRESS_FORMAT_UNKNOWN",
    "BATCH_REPLAY_MISMATCH",
    "STATE_SCHEMA_INCOMPATIBLE",
    "SINK_SCHEMA_MISMATCH",
    "SINK_STAGING_LOST",
    "ROWS_UNWRITABLE",
    "SINK_ROWS_REFUSED",
    "SINK_MESSAGE_TOO_LARGE",
    "SINK_PARTITION_UNKNOWN",
    "OUTPUT_NOT_SHARED",
    "TARGET_TAKEN",
)


def error_from(code: str, parameters: dict[str, Any]) -> RekindleError:
    """Return the error with this code, of the class the table says: for codes that were carried as data."""
    kind = CONDITIONS[code].kind
    cls = next(cls for cls in RekindleError.__subclasses__() if cls.kind == kind)
    return cls(code, **parameters)
