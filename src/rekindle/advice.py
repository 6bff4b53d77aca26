"""The end of a traceback in a user's program: the next step, and where Spark's log is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from rekindle.errors import RekindleError

P = ParamSpec("P")
T = TypeVar("T")

_IN_PYTHON = {
    "--from": "restore=...",
    "--claim-mode claim": 'claim_mode="claim"',
    "--rewind-sinks": "rewind_sinks=True",
    "--mode": "mode=...",
    "--storage": "storage=...",
    "--allow-non-restored-state": "allow_non_restored_state=True",
    "--allow-drained": "allow_drained=True",
    "--allow-sink-ahead": "allow_sink_ahead=True",
    "--allow-other-name": "allow_other_name=True",
    "--allow-shared-target": "allow_shared_target=True",
    "--allow-changed-files": "allow_changed_files=True",
}
"""Option of ``rekindle run`` → the argument of `Job.run` and `Job.start`."""


def advised(verb: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a public function end with the next step; Python shows no more of them than their text."""

    @wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return verb(*args, **kwargs)
        except RekindleError as error:
            error.args = ("\n".join(_lines(error)),)
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
    yield f"next: {error.next_step}"
    arguments = in_python(error.next_step)
    if arguments:
        yield f"in Python: {', '.join(arguments)}"


def in_python(next_step: str) -> list[str]:
    """Return the arguments that stand for the options of the command line in a next step, unless it has them itself."""
    found = [said for option, said in _IN_PYTHON.items() if re.search(rf"{re.escape(option)}(?![\w-])", next_step)]
    return [said for said in found if said not in next_step]
