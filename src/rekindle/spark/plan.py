"""Building a task's DataFrame from its inputs, and refusing plans that could only go wrong later (DESIGN 3 and 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from rekindle.channels.marks import UNORDERED_DELAY
from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.spark.failures import brief
from rekindle.spark.inputs import Input

_WATERMARK = re.compile(r"EventTimeWatermark ([0-9a-f-]{36}), `?([^#`]+)`?#\d+: \w+, (.*)")


def build_task(task: Task, function: Callable[..., DataFrame], inputs: Sequence[Input]) -> DataFrame:
    """Call the user's function; check what it returned.

    Raises:
        DefinitionError: ``TASK_FUNCTION_FAILED``, ``TASK_BATCH_FRAME``, ``WATERMARK_IN_TASK``,
            ``EVENT_TIME_UNDECLARED``, ``DEDUPLICATION_UNSUPPORTED``.
    """
    try:
        frame = function(*(item.frame for item in inputs))
    except PySparkException as error:
        raise DefinitionError("TASK_FUNCTION_FAILED", task=task.uid, reason=brief(error)) from error
    except Exception as error:
        raise DefinitionError(
            "TASK_FUNCTION_FAILED", task=task.uid, reason=f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        returned = "a batch DataFrame" if isinstance(frame, DataFrame) else type(frame).__name__
        raise DefinitionError("TASK_BATCH_FRAME", task=task.uid, returned=returned)
    plan = _tree(frame)
    ours = {node for item in inputs for node in _watermarks(_tree(item.frame))}
    _refuse_second_watermark(task, plan, ours)
    _refuse_unending_state(task, plan, inputs)
    return frame


def _tree(frame: DataFrame) -> list[str]:
    query: Any = frame._jdf.queryExecution()
    return str(query.analyzed().toString()).splitlines()


def _watermarks(tree: Sequence[str]) -> Mapping[str, str]:
    """Identity of each watermark node → its column."""
    return {match[1]: match[2] for line in tree if (match := _WATERMARK.search(line))}


def _refuse_second_watermark(task: Task, tree: Sequence[str], ours: set[str]) -> None:
    """Spark would refuse it too, at the start and without a word on what to do."""
    for above, line in enumerate(tree):
        match = _WATERMARK.search(line)
        if match is None or match[1] in ours:
            continue
        for below in tree[above + 1 :]:
            if _depth(below) <= _depth(line):
                break
            inner = _WATERMARK.search(below)
            if inner and inner[1] in ours:
                raise DefinitionError("WATERMARK_IN_TASK", task=task.uid, column=inner[2])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" :+-"))


def _refuse_unending_state(task: Task, tree: Sequence[str], inputs: Sequence[Input]) -> None:
    aggregates = any(re.match(r"[ :+\-]*~Aggregate ", line) for line in tree)
    for item in inputs:
        source = item.source
        if aggregates and task.output_mode == "append" and source.bounded and source.event_time is None:
            raise DefinitionError("EVENT_TIME_UNDECLARED", task=task.uid, source=source.uid)
    if any("~DeduplicateWithinWatermark" in line for line in tree) and any(UNORDERED_DELAY in line for line in tree):
        bounded = next(item.source.uid for item in inputs if item.source.bounded)
        raise DefinitionError("DEDUPLICATION_UNSUPPORTED", task=task.uid, source=bounded)
