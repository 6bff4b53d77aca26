"""The event times that a batch has met: rows that Spark dropped as late, and how far each input has come.

Spark counts what its stateful operators drop, not where it came from. Rows of a stream are as late as its user
allowed; a bounded input's must not be. In a task whose rows all come from bounded sources any such row fails the batch.
Beside a stream, an input whose files are in order tells the least event time it has read: where that is not after the
watermark, they are not in the order that was promised, and the rows dropped may be its own. An input that is read in
any order lets the watermark stand until it has ended: if there is one, an earlier start has read in the order of time
what the plan does not allow it for.

Where an input may be idle, the others tell the greatest: Spark keeps the watermark of each to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from rekindle.errors import InputError
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.watermark_rows import observation

_DROPPED = "numRowsDroppedByWatermark"


class EventTimeStats(NamedTuple):
    """The rows that a batch had of one input, and their first and last event time."""

    rows: int
    #: event times, microseconds since the epoch; None where no row had one
    first_us: int | None
    last_us: int | None


def seen(spark: SparkSession, inputs: Sequence[Input]) -> Mapping[str, EventTimeStats]:
    """Return the rows that the batch just evaluated on this thread had of each observed input, by uid."""
    wanted = [item.uid for item in inputs if item.observed]
    execution = _execution(spark) if wanted else None
    if execution is None:
        return {}
    metrics = execution.observedMetrics()
    found = {uid: metrics.get(observation(uid)) for uid in wanted}
    return {uid: _seen(row.get()) for uid, row in found.items() if row.isDefined()}


def _seen(row: Any) -> EventTimeStats:
    first_us, last_us = (None if row.isNullAt(field) else int(row.getLong(field)) for field in (1, 2))
    return EventTimeStats(int(row.getLong(0)), first_us, last_us)


def refuse_late_rows(spark: SparkSession, task: str, inputs: Sequence[Input], watermark_ms: int, batch: int) -> None:
    """Refuse the batch that was just evaluated on this thread, before it is recorded, if it lost rows as late.

    Raises:
        InputError: ``ROWS_DROPPED_AS_LATE``.
    """
    execution = _execution(spark)
    if execution is None:
        return
    dropped = _dropped(execution.executedPlan())
    lost = all(item.finite for item in inputs) or any(item.order_ignored and not item.ended for item in inputs)
    if dropped and (lost or _are_out_of_order(spark, inputs, watermark_ms)):
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


def _are_out_of_order(spark: SparkSession, inputs: Sequence[Input], watermark_ms: int) -> bool:
    bounded = [item for item in inputs if item.bounded]
    firsts = [one.first_us for one in seen(spark, bounded).values() if one.first_us is not None]
    return any(first_us <= watermark_ms * 1000 for first_us in firsts)
