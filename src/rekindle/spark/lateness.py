"""Rows that Spark dropped as late: those of a stream are as late as its user allowed, a bounded input's must not be.

Spark counts what its stateful operators drop, not where it came from. In a task of bounded inputs alone any such row
fails the batch. Beside a stream, an ordered input tells the least event time it has read: where that lies behind the
watermark, its files are not in the order that was promised, and the rows dropped may be its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from rekindle.errors import InputError
from rekindle.spark.inputs import Input, observation

_DROPPED = "numRowsDroppedByWatermark"


def refuse_late_rows(spark: SparkSession, task: str, inputs: Sequence[Input], watermark_ms: int, batch: int) -> None:
    """Look at the batch that was just evaluated, on the thread that did so, before it is recorded.

    Raises:
        InputError: ``ROWS_DROPPED_AS_LATE``.
    """
    execution = _execution(spark)
    if execution is None:
        return
    dropped = _dropped(execution.executedPlan())
    if dropped and (all(item.bounded for item in inputs) or _is_behind(execution, inputs, watermark_ms)):
        raise InputError("ROWS_DROPPED_AS_LATE", task=task, rows=dropped, batch=batch)


def _execution(spark: SparkSession) -> Any:
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    query: Any = spark._jsparkSession.streams().get(query_id)
    return query.streamingQuery().lastExecution()


def _dropped(plan: Any) -> int:
    counted = plan.metrics().get(_DROPPED)
    own = counted.get().value() if counted.isDefined() else 0
    children = plan.children()
    return int(own) + sum(_dropped(children.apply(index)) for index in range(children.size()))


def _is_behind(execution: Any, inputs: Sequence[Input], watermark_ms: int) -> bool:
    observed = execution.observedMetrics()
    for item in inputs:
        found = observed.get(observation(item.uid))
        if found.isDefined() and not found.get().isNullAt(0) and found.get().getLong(0) <= watermark_ms * 1000:
            return True
    return False
