"""The end of a traceback in a user's program: the next step, and where Spark's log is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from rekindle.errors import RekindleError

P = ParamSpec("P")
T = TypeVar("T")


def advised(verb: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a public function end with Spark's log and the next step, on Python 3.10 too."""

    @wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return verb(*args, **kwargs)
        except RekindleError as error:
            error.args, error.__notes__ = ("\n".join(_lines(error)),), []
            raise

    return call


def spark_log() -> str | None:
    """Return the path of Spark's log; None: no Spark was started here, or the user has configured Log4j."""
    jvm = sys.modules.get("rekindle.session.jvm")
    return jvm.spark_log() if jvm is not None else None


def _lines(error: RekindleError) -> Iterator[str]:
    yield f"[{error.code}] {error.message}"
    log = spark_log()
    if log is not None:
        yield f"Spark's log: {log}"
    yield from error.advice()
