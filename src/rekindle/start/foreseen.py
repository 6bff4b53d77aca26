"""The errors that a start may end with: one that no one has foreseen gets a code, a reason and a next step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rekindle.errors import JobError, RekindleError, one_line
from rekindle.runtime.ports import Engine

IN_PYTHON = "job.run() or job.check(spark), in Python"
"""The place of the traceback where no run is claimed, so that there is no log."""


@contextmanager
def foreseen(engine: Engine | None, job: str, trace: str) -> Iterator[None]:
    """Name every exception raised inside: it is the cause of the error that is raised.

    Args:
        engine: None: the start has none yet.
        trace: where the user finds the traceback.

    Raises:
        RekindleError: as it was raised inside.
        JobError: ``SPARK_DIED``: the engine is gone; ``START_FAILED``: no one has foreseen it.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, JobError) and error.code == "SPARK_DIED":
            raise
        if engine is not None and engine.lifeline.is_gone():
            raise JobError("SPARK_DIED", reason=f"while the job was starting: {one_line(error)}") from error
        if isinstance(error, RekindleError):
            raise
        reason = one_line(error) if engine is None else engine.words_of(error)
        raise JobError("START_FAILED", job=job, reason=reason, trace=trace) from error


def in_log(job: str) -> str:
    """Return the place of the traceback of a run that is claimed."""
    return f"rekindle logs {job}"
