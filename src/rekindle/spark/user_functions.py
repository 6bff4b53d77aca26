"""The words for an exception that a user's function has raised."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

from rekindle.session.failures import brief

_ACTION = "writeStream.start()"
"""A part of Spark's words for an action on a stream; they name classes that a task has no use for."""

_NO_ROWS_YET = "it asks a stream for its rows (count, collect, show, toPandas), and there are none yet"


def said_of(error: Exception, function: Callable[..., Any]) -> str:
    """Return one line on what `function` has raised, with the innermost line of the function's own file."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    steps = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in steps if code is not None and frame.f_code.co_filename == code.co_filename]
    words = _NO_ROWS_YET if _ACTION in str(error) else brief(error)
    return f"{words} (line {lines[-1]})" if lines else words
