"""The rule by which a task's plan allows that its histories are read in the order of time.

The watermark then follows the history, and a row that the plan makes must not be older than those that are still to
come, except by what Spark itself, or the user, allows for. Any order is always right; it only keeps more state.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from rekindle.graph.job_graph import Task
from rekindle.spark.expressions import is_a, is_attribute, number_of
from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode, nodes
from rekindle.spark.plans.join_bounds import is_bounded, joins_streams, optimized_joins
from rekindle.spark.plans.refuse import STATEFUL
from rekindle.spark.plans.time_columns import has_made_times, joins_other_times, timed_columns

_END = "end"
"""The field of a window that is its end, which is when it comes out."""


def why_any_order(task: Task, frame: DataFrame, *, is_read: bool) -> str | None:
    """Return the reason why the histories of a task have to be read in any order; None: there is none.

    Args:
        is_read: other tasks read its output.
    """
    gives = is_read and task.event_time is not None
    plan = nodes(frame)
    joins = optimized_joins(frame) if any(_is_join(node) for node in plan) else []
    if not (gives or joins or any(node.is_streaming and STATEFUL.fullmatch(node.name) for node in plan)):
        return None
    if not all(is_bounded(frame, join) for join in joins):
        return f"task {task.uid!r} joins two streams without bounds on the event times of both."
    if joins_other_times(plan) or has_made_times(plan):
        return f"task {task.uid!r} computes event times of its own."
    if gives and task.watermark is None and (joins or not _comes_in_time(task, frame)):
        return (
            f"the column {task.event_time!r} that task {task.uid!r} gives to other tasks may lag its watermark, and "
            "watermark= of the task does not say how far."
        )
    return None


def _is_join(node: PlanNode) -> bool:
    return node.is_streaming and node.name == "Join" and joins_streams(node.plan)


def _comes_in_time(task: Task, frame: DataFrame) -> bool:
    """Return whether the event time that a task puts out is one that it has read, or the end of a window."""
    plan = nodes(frame)
    whole = plan[0].plan
    found = [index for index, name in enumerate(frame.columns) if name == task.event_time]
    if len(found) != 1:
        return False
    if found[0] in timed_columns(whole):
        return True
    number = number_of(whole.output().apply(found[0]))
    return any(_is_end_of_window(node, number) for node in plan if node.name == "Project")


def _is_end_of_window(node: PlanNode, number: int) -> bool:
    for index in range(node.plan.projectList().size()):
        made = node.plan.projectList().apply(index)
        if number_of(made) == number and is_a(made, "Alias") and is_a(made.child(), "GetStructField"):
            field = made.child()
            window = field.child()
            is_end = field.childSchema().fields()[field.ordinal()].name() == _END
            return bool(is_end and is_attribute(window) and window.metadata().contains(WATERMARKED))
    return False
