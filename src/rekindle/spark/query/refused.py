"""Plans that Spark refuses: as a query starts, or only as it plans or runs a batch, which each attempt would repeat.

What a batch dies of may be of its data, of a server, or of a user's files, and may be gone at the next attempt. So a
death counts as a refusal only where Spark's planner itself has raised Spark's own AnalysisException, or says that it
does not support something, with no reason below it: a connector's is of a class of its own, and what a catalog has
failed with is kept as the cause. What Spark says of the variables of a transformWithState is of the code, and so is
what it says of the event times that one emits.
"""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError

from rekindle.errors import DefinitionError
from rekindle.session.failures import brief
from rekindle.session.links import chain
from rekindle.spark.output.unwritable import ANALYSIS

_REFUSALS = (
    *ANALYSIS,
    "org.apache.spark.SparkUnsupportedOperationException",
    # Of a key or a variable of transformWithState, whose schemas Spark makes with Avro.
    "org.apache.avro.SchemaParseException",
    "org.apache.spark.sql.avro.IncompatibleSchemaException",
)
_PLANNER = "org.apache.spark.sql.execution.QueryExecution$"
_PLANNING = ("createSparkPlan", "prepareForExecution")
"""Methods of the planner below which nothing is read: the strategies, and the rules for a batch's plan."""

_OF_VARIABLES = re.compile(
    r"STATEFUL_PROCESSOR_(?:DUPLICATE_STATE_VARIABLE_DEFINED|INCORRECT_TIME_MODE_TO_ASSIGN_TTL"
    r"|TTL_DURATION_MUST_BE_POSITIVE)|STATE_STORE_CANNOT_\w+_COLUMN_FAMILY_WITH_\w+"
    r"|TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE"
)
"""Spark's names for variables of a transformWithState that no query can have."""

_PARTLY_READ = "STATE_STORE_COMMIT_VALIDATION_FAILED"
"""Spark's name, since 4.1, for a batch of which no one has evaluated all partitions; each attempt would repeat it."""

_TOO_EARLY = "EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED"
_CONDITION = re.compile(r"\[([A-Z][A-Z_]+)\]")


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


def misuse(task: str, error: BaseException) -> DefinitionError | None:
    """Return the error of a sink, or of a processor, whose batches Spark refuses in each attempt; else None.

    Of processors that is for their variables, or their event times.
    """
    found: set[str] = set()
    for link in chain(error):
        found.add(link.condition)
        if link.is_of_python:  # Spark's word on a variable comes to the worker as text
            found.update(_CONDITION.findall(link.message))
    if _PARTLY_READ in found:
        return DefinitionError("BATCH_PARTLY_READ", task=task)
    if _TOO_EARLY in found:
        return DefinitionError("ROWS_BEFORE_WATERMARK", task=task, reason=brief(error))
    return query_refused(task, error) if any(map(_OF_VARIABLES.fullmatch, found)) else None


def _was_planning(java: Any) -> bool:
    try:
        trace = java.getCause().getStackTrace()
        frames = (trace[number] for number in range(len(trace)))
        return any(frame.getClassName() == _PLANNER and frame.getMethodName() in _PLANNING for frame in frames)
    except (Py4JError, OSError):
        return False  # the JVM is gone
