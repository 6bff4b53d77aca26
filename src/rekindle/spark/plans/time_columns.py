"""The columns of a plan that Spark takes for event times, and those among them that are not as they were read.

Spark knows an event time by the metadata of its column, which says nothing of its values: a union has the columns of
its first part, and a schema that a user hands on takes the metadata with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rekindle.spark.expressions import every, is_a, is_attribute
from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode

WINDOWED = ("spark.timeWindow", "spark.sessionWindow")
"""The keys by which Spark knows a column of windows."""

_TIMED = re.compile(r"#\d+L?-T-?\d+ms$")
"""The end of the text of a column that is an event time: its number, and the delay of its watermark."""

_BETWEEN = "\0\1"
"""Stands between columns, in no name. They are asked for at once, for there may be hundreds, and in few letters:
an answer of more than 8 KB takes 40 ms, in which one end of the connection waits for the other."""

_MADE_BY_SPARK = frozenset({"Expand", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn"})
"""Nodes that make an event time, or windows of one, by Spark's own rules."""


def timed_columns(plan: Any) -> list[int]:
    """Return the numbers of the columns, among those that a node puts out, that are event times or windows of one."""
    columns = plan.output().mkString(_BETWEEN).split(_BETWEEN)
    return [index for index, column in enumerate(columns) if _TIMED.search(column)]


def joins_other_times(plan: Sequence[PlanNode]) -> bool:
    """Return whether parts of a union differ in which columns are event times: Spark takes them for the first's."""
    unions = (node.plan for node in plan if node.name == "Union" and node.is_streaming)
    times = (list(map(timed_columns, every(union.children()))) for union in unions)
    return any(part != parts[0] for parts in times for part in parts)


def has_made_times(plan: Sequence[PlanNode]) -> bool:
    """Return whether a node makes a column that Spark takes for an event time, and that is none that it has read."""
    return any(map(_makes_times, (node for node in plan if node.is_streaming and node.name not in _MADE_BY_SPARK)))


def _makes_times(node: PlanNode) -> bool:
    plan = node.plan
    read = plan.inputSet()
    if plan.outputSet().subsetOf(read):
        return False
    timed = timed_columns(plan)
    if timed and node.name in ("Project", "Aggregate"):
        made = plan.projectList() if node.name == "Project" else plan.aggregateExpressions()
        return not all(_is_handed_on(made.apply(index)) for index in timed)
    return any(not read.contains(plan.output().apply(index)) for index in timed)


def _is_handed_on(expression: Any) -> bool:
    """Return whether a column is an event time, or what Spark itself makes of one: a window, or the time of one."""
    if is_attribute(expression):
        return True
    made = expression.child()
    if is_attribute(made):
        return bool(made.metadata().contains(WATERMARKED))
    windowed = any(expression.metadata().contains(key) for key in WINDOWED)
    return windowed or is_a(made, "PreciseTimestampConversion")
