"""Filters on the begin or end of a session that Spark applies before it has made the session.

In Spark's plan each row begins with a session of its own, in a column by which the aggregate groups, and the aggregate
merges the sessions that touch. The column keeps its number. So the optimizer moves a filter on it below the aggregate,
as it may do with a key that an aggregate does not change, and rows at the begin or end of a session are lost. This was
seen on Spark 4.3.0, in batch and streaming queries. The optimizer is asked whether it does so: another Spark may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.spark.expressions import every, is_a, is_attribute, number_of, numbers_read
from rekindle.spark.plan_text import PlanNode, nodes, nodes_of

_SESSION = "spark.sessionWindow"
"""The key that Spark adds to the metadata of a column of sessions."""


def is_session_column(column: Any) -> bool:
    """Return whether a column holds the sessions that an aggregate groups by."""
    return bool(column.metadata().contains(_SESSION))


def makes_sessions(aggregate: Any) -> bool:
    """Return whether an aggregate has groups by session."""
    keys = (key for key in every(aggregate.groupingExpressions()) if is_attribute(key))
    # The keys first: an aggregate may put out hundreds of columns, and each look at one is a call.
    return any(map(is_session_column, keys)) and any(map(is_session_column, every(aggregate.output())))


def refuse_session_filters(task: Task, frame: DataFrame) -> None:
    """Refuse a query whose filters on sessions Spark would apply to single rows.

    Raises:
        DefinitionError: ``SESSION_FILTER_MOVED``.
    """
    found = _filters(nodes(frame))
    if found:
        session: Any = frame.sparkSession._jsparkSession
        optimized = session.sessionState().optimizer().execute(frame._jdf.queryExecution().analyzed())
        if len(_filters(nodes_of(optimized))) < len(found):
            raise DefinitionError("SESSION_FILTER_MOVED", task=task.uid, condition=found[0])


def _filters(plan: Sequence[PlanNode]) -> list[str]:
    """Return the conditions above sessions that read nothing but keys of their groups, the session among them."""
    made = (index for index, node in enumerate(plan) if node.name == "Aggregate" and makes_sessions(node.plan))
    return [condition for index in made for condition in _above(plan, index)]


def _above(plan: Sequence[PlanNode], index: int) -> Iterator[str]:
    grouped = {number_of(key) for key in every(plan[index].plan.groupingExpressions()) if is_attribute(key)}
    output = list(every(plan[index].plan.output()))
    made_of = {number_of(one) for one in output if number_of(one) in grouped}
    sessions = {number_of(one) for one in output if is_session_column(one)}
    keys = made_of | sessions
    depth = plan[index].depth
    for node in reversed(plan[:index]):
        if node.depth >= depth:
            continue
        depth = node.depth
        for condition in _conditions(node.plan):
            read = numbers_read(condition)
            if read & sessions and read <= keys and condition.deterministic():
                yield str(condition.sql())
        for alias in (one for one in every(node.plan.expressions()) if is_a(one, "Alias")):
            read = numbers_read(alias)
            if read and read <= keys and (node.name != "Aggregate" or is_attribute(alias.child())):
                keys.add(number_of(alias))
                if read & sessions:
                    sessions.add(number_of(alias))


def _conditions(node: Any) -> Iterator[Any]:
    """Return the parts of a filter that have to hold all."""
    left = [node.condition()] if node.nodeName() == "Filter" else []
    while left:
        part = left.pop()
        if is_a(part, "And"):
            left += [part.right(), part.left()]
        elif not is_a(part, "IsNotNull"):  # holds of every session, and the optimizer may leave it out
            yield part
