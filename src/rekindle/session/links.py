"""Read the chain of the JVM's exceptions that one of PySpark's stands for.

Spark nests its exceptions: what a batch raised is the outermost link of a chain, and the reason lies deeper.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

from py4j.protocol import Py4JError

_READING = re.compile(r"FAILED_READ_FILE(\..*)?|CANNOT_READ_FILE_FOOTER|_LEGACY_ERROR_TEMP_(2055|2062|2063|2064)")
"""Conditions of an exception that wraps what went wrong with a file; the numbers are Spark 3.5's."""

_NO_ROOM = ("No space left on device", "Disk quota exceeded")
"""All that the JVM says of ENOSPC and EDQUOT; its exceptions of the system's errors have no number."""

_IN_TEXT = re.compile(r"(?:reading|read) file:?\s+(\S+?)\.?(?:\s|$)")
_ASSERTING = "scala.Predef"
"""Scala's ``assert`` raises in the name of its caller."""
_FRAMES = 4
_LINKS = 50


class Link(NamedTuple):
    """One exception of a chain."""

    #: of its class, with the package
    name: str
    #: Spark's name of it; empty where it has none
    condition: str
    message: str
    #: the file that it is about, as Spark writes it; empty where it says nothing of one
    path: str
    #: class that raised it; empty where that is not known
    raised_by: str
    #: the system's or RocksDB's word that there is no room on a disk
    no_room: bool = False

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return re.split(r"[.$]", self.name)[-1]

    @property
    def is_of_python(self) -> bool:
        """True if its message is the traceback of a Python worker, or ends with it."""
        return self.short_name == "PythonException" or self.condition.startswith("STREAMING_PYTHON_RUNNER")

    @property
    def is_users(self) -> bool:
        """True if a user's code has raised it, so that its words are the user's."""
        return self.short_name == "PythonException" or self.condition == "USER_RAISED_EXCEPTION"

    @property
    def is_of_file(self) -> bool:
        """True if it wraps what went wrong with a file that Spark was reading."""
        return bool(_READING.fullmatch(self.condition)) or self.short_name == "SparkFileNotFoundException"


def chain(error: BaseException) -> list[Link]:
    """Return the JVM's exceptions that one of PySpark's stands for, the outermost first; none for one of Python's."""
    return list(_links(getattr(error, "_origin", None) or getattr(error, "java_exception", None)))


def _links(java: Any) -> Iterator[Link]:
    try:
        for _ in range(_LINKS):
            if java is None:
                return
            message = str(java.getMessage() or "")
            name, raised_by = java.getClass().getName(), _raised_by(java)
            full = _is_full(java, name, message, raised_by)
            yield Link(name, _condition(java), message, _path(java, message), raised_by, full)
            java = java.getCause()
    except (Py4JError, OSError):
        return  # the JVM is gone: what was read of it until now counts


def _asked(java: Any, method: str) -> Any:
    """Return what a method returns; None where the class has no such method."""
    try:
        return getattr(java, method)()
    except (Py4JError, AttributeError, TypeError):
        return None


def _condition(java: Any) -> str:
    return str(_asked(java, "getCondition") or _asked(java, "getErrorClass") or "")


def _path(java: Any, message: str) -> str:
    parameters = _asked(java, "getMessageParameters")
    if parameters is not None and (path := parameters.get("path") or parameters.get("filePath")):
        return str(path)
    return match[1] if _READING.fullmatch(_condition(java)) and (match := _IN_TEXT.search(message)) else ""


def _raised_by(java: Any) -> str:
    trace = _asked(java, "getStackTrace")
    frames = (str(trace[number].getClassName()) for number in range(min(len(trace or ()), _FRAMES)))
    return next((name for name in frames if not name.startswith(_ASSERTING)), "")


def _is_full(java: Any, name: str, message: str, raised_by: str) -> bool:
    """Return True for what the JVM, or RocksDB, raises itself where a disk is full."""
    if name == "org.rocksdb.RocksDBException":
        status = _asked(java, "getStatus")
        return status is not None and str(_asked(status, "getSubCode")) == "NoSpace"
    if name == "java.nio.file.FileSystemException":
        return _asked(java, "getReason") in _NO_ROOM
    return name == "java.io.IOException" and message in _NO_ROOM and raised_by.startswith(("java.", "sun."))


def trace(error: BaseException) -> str:
    """Return where an exception was raised: in Python, and in the JVM, whose trace PySpark keeps beside it."""
    try:
        texts = ["".join(traceback.format_exception(error))]
        link: BaseException | None = error
        while link is not None and len(texts) < _LINKS:
            jvm = getattr(link, "_stackTrace", None)
            texts += [jvm] if isinstance(jvm, str) else []
            link = link.__cause__
        return "\n".join(texts)
    except Exception:  # the JVM that would have to be asked is gone
        return ""
