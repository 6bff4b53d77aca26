"""Refuse plans before they run: those that Spark would take and that could only go wrong later."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.channels.marks import UNORDERED_DELAY
from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.session.failures import brief
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode, below, depth, file_source, nodes, nodes_below, tree

_WORKER_MODULE = "google.protobuf"
"""The module with which the workers of a transformWithState in Python talk to Spark; without it they die silently."""

_WATERMARK = re.compile(r"EventTimeWatermark (?:([0-9a-f-]{36}), )?`?([^#`]+)`?#\d+: \w+, .*")
"""A watermark node in a plan's text: its identity, which it has since Spark 4.0, and its column."""

_AGGREGATE = re.compile(r" *~Aggregate ")

_STREAMING = re.compile(r" *~(\w+)")
"""A node of a plan that Spark runs on a stream."""

STATEFUL = re.compile("Aggregate|Distinct|Deduplicate|.*Limit|Offset|Sort|Window|.*WithState.*|TransformWith.*")
"""Nodes that look at more than one row; and joins of two streams."""


_EACH_BATCH = re.compile("FlatMap(Co)?GroupsIn(Pandas|Arrow)|MapGroups|CoGroup")
"""Nodes that call a function of the user for each group, which Spark does in each batch of a stream by itself."""


def refuse_plan(task: Task, frame: DataFrame, inputs: Sequence[Input]) -> None:
    """Refuse a streaming plan that could only go wrong later.

    Raises:
        DefinitionError: ``WATERMARK_IN_TASK``, ``EVENT_TIME_UNDECLARED``, ``TOTALS_NEVER_END``,
            ``GROUPS_CUT_BY_BATCHES``, ``GROUPS_COLLATED``, ``DEDUPLICATION_UNSUPPORTED``, ``PARALLELISM_UNSUPPORTED``,
            ``WORKER_MODULE_MISSING``.
    """
    plan = tree(frame)
    _refuse_second_watermark(task, plan, inputs)
    _refuse_unending_state(task, plan, inputs)
    _refuse_totals_over_all_times(task, frame)
    _refuse_groups_of_one_batch(task, frame)
    _refuse_collated_groups(task, frame)
    _refuse_parallel_state(task, plan)
    refuse_without_worker_module(frame, plan)


def refuse_duplicate_columns(task: Task, frame: DataFrame) -> None:
    """Refuse columns with one name: a table, or a file, cannot have them. Spark would say so in the middle of the run.

    Raises:
        DefinitionError: ``COLUMNS_DUPLICATE``.
    """
    sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    seen: dict[str, str] = {}
    for name in frame.columns:
        other = seen.setdefault(name if sensitive else name.lower(), name)
        if other is not name:
            raise DefinitionError("COLUMNS_DUPLICATE", task=task.uid, one=other, other=name)


def refuse_without_worker_module(frame: DataFrame, tree: Sequence[str]) -> None:
    """Refuse a transformWithState in Python whose workers would die of a missing module."""
    if any("TransformWithStateInPy" in line or "TransformWithStateInPandas" in line for line in tree):
        _look_for_worker_module(frame.sparkSession, _WORKER_MODULE)


def _look_for_worker_module(spark: SparkSession, module: str) -> None:
    """Ask a worker, with nothing in the question that workers might not have."""
    try:
        spark.sparkContext.parallelize([module], 1).map(importlib.import_module).count()
    except Exception as error:
        raise DefinitionError("WORKER_MODULE_MISSING", module=module, reason=brief(error)) from error


def _refuse_second_watermark(task: Task, plan: Sequence[str], inputs: Sequence[Input]) -> None:
    """Refuse a watermark above one of ours, which never are above each other. Spark would not say what to do."""
    outer = (index for index, line in enumerate(plan) if _WATERMARK.search(line))
    inner = [found for index in outer for line in nodes_below(plan, index) if (found := _WATERMARK.search(line))]
    if inner:
        ours = {node for item in inputs for node in _watermarks(tree(item.frame))}
        for found in inner:
            if _identity(found) in ours:
                raise DefinitionError("WATERMARK_IN_TASK", task=task.uid, column=found[2])


def _refuse_unending_state(task: Task, plan: Sequence[str], inputs: Sequence[Input]) -> None:
    untimed = [item for item in inputs if item.bounded and item.event_time is None]
    timeless = [(item.uid, file_source(item.place)) for item in untimed]
    for index, line in enumerate(plan):
        if task.output_mode != "append" or not _AGGREGATE.match(line):
            continue
        for line_below in nodes_below(plan, index):
            for uid, reading in timeless:
                if reading in line_below:
                    raise DefinitionError("EVENT_TIME_UNDECLARED", task=task.uid, source=uid)
    if any("~DeduplicateWithinWatermark" in line for line in plan):
        for item in inputs:
            if any(UNORDERED_DELAY in line for line in tree(item.frame)):
                raise DefinitionError("DEDUPLICATION_UNSUPPORTED", task=task.uid, source=item.uid)


def _refuse_totals_over_all_times(task: Task, frame: DataFrame) -> None:
    """Refuse groups that have no time beside groups that have one: no watermark ends them, and a batch query has them.

    Cubes, rollups and grouping sets make them: Spark gives each row once to each kind of group, with null for the
    columns that this kind does without.
    """
    for node in nodes(frame) if task.output_mode == "append" else ():
        if node.name != "Expand" or not node.is_streaming:
            continue
        output, kinds = node.plan.output(), node.plan.projections()
        timed = [index for index in range(output.size()) if output.apply(index).metadata().contains(WATERMARKED)]
        for index in timed:
            given = [kinds.apply(kind).apply(index) for kind in range(kinds.size())]
            if any(each.getClass().getSimpleName() == "Literal" for each in given):
                raise DefinitionError("TOTALS_NEVER_END", task=task.uid, column=output.apply(index).name())


def _refuse_groups_of_one_batch(task: Task, frame: DataFrame) -> None:
    """Refuse a function for each group, unless all rows of a group come out in one batch: those of a closed window."""
    plan = nodes(frame)
    for index, node in enumerate(plan):
        if not node.is_streaming or not _EACH_BATCH.fullmatch(node.name):
            continue
        closed = task.output_mode == "append" and any(plan[one].name == "Aggregate" for one in below(plan, index))
        if not (closed and _groups_by_time(node)):
            raise DefinitionError("GROUPS_CUT_BY_BATCHES", task=task.uid, operator=node.name)


def _groups_by_time(node: PlanNode) -> bool:
    """Return True if a column with a watermark is among those that a function in Python is called for."""
    if not node.name.startswith("FlatMapGroupsIn"):
        return False
    columns = node.plan.groupingAttributes()
    return any(columns.apply(index).metadata().contains(WATERMARKED) for index in range(columns.size()))


def _refuse_collated_groups(task: Task, frame: DataFrame) -> None:
    """Refuse groups of a transformWithState by strings whose equals have other bytes; of all else Spark does so itself.

    It keeps a state for each spelling, in the partition of the collation. The state does not say which that was, so
    what writes it again, in other partitions say, puts it where the query does not look for it.
    """
    for node in nodes(frame):
        if not node.is_streaming or not node.name.startswith("TransformWithStateInP"):
            continue
        jvm: Any = frame.sparkSession._jvm
        rows = jvm.org.apache.spark.sql.catalyst.util.UnsafeRowUtils
        columns = node.plan.children().apply(0).output()
        for key in (columns.apply(index) for index in range(node.plan.groupingAttributesLen())):
            if not rows.isBinaryStable(key.dataType()):
                kind = key.dataType().simpleString()
                raise DefinitionError("GROUPS_COLLATED", task=task.uid, column=key.name(), type=kind)


def _refuse_parallel_state(task: Task, tree: Sequence[str]) -> None:
    """Refuse state in several subtasks: rows of one key have to meet, and which subtask reads a row is left open."""
    if task.parallelism == 1:
        return
    for index, line in enumerate(tree):
        match = _STREAMING.match(line)
        name = match[1] if match else ""
        below = list(nodes_below(tree, index))
        children = [one for one in below if depth(one) == depth(below[0])]
        joins = name == "Join" and len(children) > 1 and all(_STREAMING.match(child) for child in children)
        if joins or STATEFUL.fullmatch(name):
            reason = f"it keeps state over its rows ({name})"
            raise DefinitionError("PARALLELISM_UNSUPPORTED", task=task.uid, parallelism=task.parallelism, reason=reason)


def _watermarks(tree: Sequence[str]) -> Mapping[str, str]:
    """Return the identity of each watermark node (its text before Spark 4.0) → its column."""
    return {_identity(match): match[2] for line in tree if (match := _WATERMARK.search(line))}


def _identity(watermark: re.Match[str]) -> str:
    return watermark[1] or watermark[0]
