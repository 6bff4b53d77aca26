"""What the aggregates of a query compute, so that none takes up what another one has left.

The state of an aggregation has the values of its functions one after the other, and Spark compares their types alone.
A ``max`` that takes the place of a ``sum`` begins with the sum; two sums that change places begin with each other's.
So each batch record says what was computed, and in which order. A column that has another name is none of this:
nothing tells whether it has other values too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from rekindle.errors import RestoreError
from rekindle.spark.plan_text import nodes
from rekindle.storage.documents.batch import Windows

_KEY = "by "


def computed_by(frame: DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return of each streaming aggregate its keys and functions, in the order of its state: ``by k``, ``sum(v)``."""
    found = (node.plan for node in nodes(frame) if node.is_streaming and node.name == "Aggregate")
    return tuple(tuple(_computed(plan)) for plan in found)


def refuse_other_aggregates(task: str, before: Windows | None, now: Windows) -> None:
    """Compare a query with the one that left the state; what cannot be compared is accepted.

    Raises:
        RestoreError: ``STATE_AGGREGATES_CHANGED``.
    """
    if before is None or before.spark != now.spark or len(before.computed) != len(now.computed):
        return
    for old, new in zip(before.computed, now.computed, strict=True):
        # Of one that has more or fewer, Spark sees by the types that it is another.
        if len(old) == len(new) and (_kinds(old) != _kinds(new) or (old != new and sorted(old) == sorted(new))):
            raise RestoreError("STATE_AGGREGATES_CHANGED", task=task, before=", ".join(old), now=", ".join(new))


def _computed(node: Any) -> Iterator[str]:
    for key in _all(node.groupingExpressions()):
        yield f"{_KEY}{key.sql()}"
    # What is asked for twice is computed once.
    functions = (text for one in _all(node.aggregateExpressions()) for text in _functions(one))
    yield from dict.fromkeys(functions)


def _functions(expression: Any) -> Iterator[str]:
    if expression.getClass().getSimpleName() == "AggregateExpression":
        yield str(expression.aggregateFunction().sql(bool(expression.isDistinct())))
        return
    for child in _all(expression.children()):
        yield from _functions(child)


def _all(expressions: Any) -> Iterator[Any]:
    return (expressions.apply(index) for index in range(expressions.size()))


def _kinds(computed: Sequence[str]) -> list[str]:
    return [_KEY if text.startswith(_KEY) else text.partition("(")[0] for text in computed]
