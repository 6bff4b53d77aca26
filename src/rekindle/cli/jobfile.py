"""Load what a user's file defines: run it as a module that is not ``__main__``, and take the names that it defines."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rekindle.errors import ConfigError, RekindleError

if TYPE_CHECKING:
    from rekindle.job import Job

RUN_NAME = "__rekindle__"
"""``__name__`` of a job file loaded here, so that its ``if __name__ == "__main__": job.run()`` stays quiet."""

FUNCTION = "query"
"""Function that makes a plain query, where a file is named without one."""

_REASON_LENGTH = 300


def load(path: str) -> Job:
    """Load the job that the file at `path` defines.

    The file's folder goes to the front of ``sys.path``, as under plain ``python``. An error of ours that the file runs
    into (a wrong definition) passes through as it is; any other becomes ``JOBFILE_FAILED`` with its type, message and
    line. Raises also ``JOBFILE_MISSING``, ``JOBFILE_NO_JOB`` and ``JOBFILE_SEVERAL_JOBS``.
    """
    from rekindle.job import Job

    names = _names(path)
    jobs = {id(value): value for value in names.values() if isinstance(value, Job)}
    if not jobs:
        raise ConfigError("JOBFILE_NO_JOB", path=path)
    if len(jobs) > 1:
        raise ConfigError("JOBFILE_SEVERAL_JOBS", path=path, jobs=", ".join(sorted(job.name for job in jobs.values())))
    return next(iter(jobs.values()))


def load_function(target: str) -> Callable[..., Any]:
    """Load the function that ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION`` names; `FUNCTION` where only a file is named.

    Raises:
        ConfigError: as `load`; ``FUNCTION_UNKNOWN``.
    """
    place, _, name = target.rpartition(":") if not target.endswith(".py") else (target, "", FUNCTION)
    names = _names(place) if place.endswith(".py") else _names_of_module(place, target)
    found = names.get(name)
    if not callable(found):
        raise ConfigError("FUNCTION_UNKNOWN", target=target, reason=f"{place} has no function {name!r}")
    function: Callable[..., Any] = found
    return function


def _names(path: str) -> dict[str, Any]:
    """Return the names that the file at `path` defines."""
    file = os.path.abspath(path)
    if not os.path.isfile(file):
        raise ConfigError("JOBFILE_MISSING", path=path)
    folder = os.path.dirname(os.path.realpath(file))
    sys.path.insert(0, folder)
    # Spark's workers on this machine import what stands beside the file from there too.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    # run_path keeps no module: functions of the file are then pickled by value, which Spark's workers need,
    # since they could not import it.
    return _run(path, file, lambda: runpy.run_path(file, run_name=RUN_NAME))


def _names_of_module(name: str, target: str) -> dict[str, Any]:
    """Return the names that a module defines, which may lie in the working directory."""
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise ConfigError("FUNCTION_UNKNOWN", target=target, reason=_reason(error, name)) from None
    if spec is None:
        raise ConfigError("FUNCTION_UNKNOWN", target=target, reason=f"there is no module {name!r}")
    file = spec.origin or name
    return _run(file, file, lambda: vars(importlib.import_module(name)))


def _run(path: str, file: str, code: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the names that the code of the file at `path` defines; `file` is how a traceback names it."""
    try:
        return code()
    except (RekindleError, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit() in a job file included
        wanted = "JOBFILE_NEEDS_SPARK" if _wants_spark(error) else "JOBFILE_FAILED"
        raise ConfigError(wanted, path=path, reason=_reason(error, file)) from None


def _wants_spark(error: BaseException) -> bool:
    """Return True if PySpark raised the error because there is no session yet; its type depends on the version."""
    context = sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context")
    frames = traceback.extract_tb(error.__traceback__)
    by_pyspark = bool(frames) and f"{os.sep}pyspark{os.sep}" in frames[-1].filename
    return by_pyspark and context is not None and context.SparkContext._active_spark_context is None  # noqa: SLF001


def _reason(error: BaseException, file: str) -> str:
    """Return ``ValueError: the message (line 12)``: one line, and the innermost line of the user's own file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    message = str(error.msg if isinstance(error, SyntaxError) else error).strip().split("\n")[0][:_REASON_LENGTH]
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{text} (line {lines[-1]})" if lines and lines[-1] else text
