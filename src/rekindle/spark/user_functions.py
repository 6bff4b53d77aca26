"""The words for an exception that a user's function has raised."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

from rekindle.session.failures import brief


def said_of(error: Exception, function: Callable[..., Any]) -> str:
    """Return one line on what `function` has raised, with the innermost line of the function's own file."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    steps = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in steps if code is not None and frame.f_code.co_filename == code.co_filename]
    return f"{brief(error)} (line {lines[-1]})" if lines else brief(error)
