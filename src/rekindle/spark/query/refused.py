"""Plans that Spark refuses: as a query starts, or only as it plans the first batch, which each attempt would repeat.

What a batch dies of may be of its data, of a server, or of a user's files, and may be gone at the next attempt. So a
death counts as a refusal only where Spark's planner itself has raised Spark's own AnalysisException, or says that it
does not support something, with no reason below it: a connector's is of a class of its own, and what a catalog has
failed with is kept as the cause.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError

from rekindle.errors import DefinitionError
from rekindle.session.failures import brief, chain
from rekindle.spark.output.unwritable import ANALYSIS

_REFUSALS = (*ANALYSIS, "org.apache.spark.SparkUnsupportedOperationException")
_PLANNER = "org.apache.spark.sql.execution.QueryExecution$"
_PLANNING = ("createSparkPlan", "prepareForExecution")
"""Methods of the planner below which nothing is read: the strategies, and the rules for a batch's plan."""


def query_refused(task: str, error: BaseException) -> DefinitionError:
    """Return the error of a task whose plan Spark has refused."""
    return DefinitionError("QUERY_REFUSED", task=task, reason=brief(error))


def refusal(task: str, error: BaseException | None) -> DefinitionError | None:
    """Return ``QUERY_REFUSED`` for a query that has died because Spark cannot plan it, None for any other death."""
    java: Any = getattr(error, "_origin", None)
    if error is None or java is None:
        return None
    links = chain(error)
    is_plain = [link.short_name for link in links[:1]] == ["StreamingQueryException"] and len(links) == 2
    if not is_plain or links[1].name not in _REFUSALS or not _was_planning(java):
        return None
    refused = query_refused(task, error)
    refused.__cause__ = error  # for its trace
    return refused


def _was_planning(java: Any) -> bool:
    try:
        trace = java.getCause().getStackTrace()
        frames = (trace[number] for number in range(len(trace)))
        return any(frame.getClassName() == _PLANNER and frame.getMethodName() in _PLANNING for frame in frames)
    except (Py4JError, OSError):
        return False  # the JVM is gone
