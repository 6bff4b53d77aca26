"""The bounds of time of a join of two streams, as Spark's own helper finds them.

They are looked for in the plan as Spark's optimizer leaves it: its physical operator removes rows by these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from rekindle.session.classes import java_class
from rekindle.spark.expressions import CATALYST, is_a, is_attribute, number_of
from rekindle.spark.plan_text import nodes_of
from rekindle.spark.plans.time_columns import timed_columns

_SOME_WATERMARK_MS = 10**12
"""Any watermark: how long before it a row is kept does not depend on it."""


def joins_streams(join: Any) -> bool:
    """Return whether both sides of a join are streams."""
    return bool(join.left().isStreaming() and join.right().isStreaming())


def optimized_joins(frame: DataFrame) -> list[Any]:
    """Return the joins of two streams in the plan that Spark's optimizer makes of a query, from above."""
    session: Any = frame.sparkSession._jsparkSession
    plan = session.sessionState().optimizer().execute(frame._jdf.queryExecution().analyzed())
    return [node.plan for node in nodes_of(plan) if node.name == "Join" and joins_streams(node.plan)]


def reach_us(frame: DataFrame, join: Any) -> int | None:
    """Return the longest time before the watermark of a row that a join keeps, microseconds; None: it has no end."""
    if _helper(frame).isWatermarkInJoinKeys(join):
        return 0
    return _reach_us(frame, join, join.left().outputSet(), join.right().outputSet())


def is_bounded(frame: DataFrame, join: Any) -> bool:
    """Return whether a join forgets the rows of both sides by their event times, which are one column each.

    Spark takes bounds of any column of a side, and removes its rows by the event time all the same.
    """
    sides = join.left(), join.right()
    timed = [timed_columns(side) for side in sides]
    if any(len(columns) != 1 for columns in timed):
        return False
    left, right = (side.output().apply(column) for side, (column,) in zip(sides, timed, strict=True))
    if _helper(frame).isWatermarkInJoinKeys(join):
        times = {number_of(left), number_of(right)}
        keys = (set(pair) for pair in equal_columns(join.condition().get()))
        return all(pair == times for pair in keys if pair & times)
    return _reach_us(frame, join, left.references(), right.references()) is not None


def equal_columns(condition: Any) -> Iterator[tuple[int, int]]:
    """Return the pairs of columns that are equal if a condition holds."""
    if is_a(condition, "And"):
        yield from equal_columns(condition.left())
        yield from equal_columns(condition.right())
    elif is_a(condition, "EqualTo") and is_attribute(condition.left()) and is_attribute(condition.right()):
        yield number_of(condition.left()), number_of(condition.right())


def _reach_us(frame: DataFrame, join: Any, left: Any, right: Any) -> int | None:
    """Return the reach by bounds of some columns of each side."""
    jvm: Any = frame.sparkSession._jvm
    watermark = jvm.scala.Option.apply(java_class(jvm, "java.lang.Long").valueOf(str(_SOME_WATERMARK_MS)))
    find, condition = _helper(frame).getStateValueWatermark, join.condition()
    gone_ms = [find(one, other, condition, watermark) for one, other in ((left, right), (right, left))]
    if not all(one.isDefined() for one in gone_ms):
        return None
    return max(0, *(_SOME_WATERMARK_MS - int(one.get()) for one in gone_ms)) * 1000


def _helper(frame: DataFrame) -> Any:
    of = java_class(frame.sparkSession._jvm, "java.lang.Class").forName(f"{CATALYST}.analysis.StreamingJoinHelper$")
    return of.getField("MODULE$").get(None)
