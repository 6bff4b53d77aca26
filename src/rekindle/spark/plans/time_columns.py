"""The columns of a plan that Spark takes for event times, and those among them that are not as they were read.

Spark knows an event time by the metadata of its column, which says nothing of its values: a union has the columns of
its first part, and a schema that a user hands on takes the metadata with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rekindle.spark.expressions import every, is_a, is_attribute, number_of
from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode

WINDOWED = ("spark.timeWindow", "spark.sessionWindow")
"""The keys by which Spark knows a column of windows."""

_MADE_BY_SPARK = frozenset({"Expand", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn"})
"""Nodes that make an event time, or windows of one, by Spark's own rules."""


def timed_columns(plan: Any) -> list[int]:
    """Return the numbers of the columns, among those that a node puts out, that are event times or windows of one."""
    fields = json.loads(plan.schema().json())["fields"]
    return [index for index, field in enumerate(fields) if WATERMARKED in (field.get("metadata") or {})]


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
    timed = timed_columns(plan)
    if timed and node.name in ("Project", "Aggregate"):
        made = plan.projectList() if node.name == "Project" else plan.aggregateExpressions()
        return not all(_is_handed_on(made.apply(index)) for index in timed)
    read = {number_of(each) for child in every(plan.children()) for each in every(child.output())} if timed else set()
    return any(number_of(plan.output().apply(index)) not in read for index in timed)


def _is_handed_on(expression: Any) -> bool:
    """Return whether a column is an event time, or what Spark itself makes of one: a window, or the time of one."""
    if is_attribute(expression):
        return True
    made = expression.child()
    if is_attribute(made):
        return bool(made.metadata().contains(WATERMARKED))
    windowed = any(expression.metadata().contains(key) for key in WINDOWED)
    return windowed or is_a(made, "PreciseTimestampConversion")
