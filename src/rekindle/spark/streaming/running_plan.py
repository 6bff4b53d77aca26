"""The plan that a query runs as a batch, asked of the query itself.

What is planned in the storage may be another driver's: S3A and Google's connector look whether a name is free and then
write, so a driver that was paused in between writes over the plan of its successor
(docs/decisions/0054-the-plan-that-runs.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from rekindle.progress.directory import Offsets


class RunningPlan(NamedTuple):
    """The facts that tell one plan of a batch from another."""

    #: time at which it was planned, ms since the epoch
    at_ms: int
    watermark_ms: int
    #: of its sources, as Spark writes them: a source that is used twice has one
    ends: frozenset[str]


def plan_of(offsets: Offsets) -> RunningPlan:
    """Return the plan that stands in the storage."""
    ends = frozenset(end for end in offsets.sources if end is not None)
    return RunningPlan(offsets.metadata.get("batchTimestampMs", 0), offsets.batch_watermark_ms, ends)


def running_plan(spark: SparkSession) -> RunningPlan:
    """Return the plan of the query whose batch is on this thread."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    session: Any = spark._jsparkSession
    query = session.streams().get(query_id).streamingQuery()
    metadata = msgspec.json.decode(query.lastExecution().offsetSeqMetadata().json())
    ends, found = query.availableOffsets().values().iterator(), set[str]()
    while ends.hasNext():
        found.add(ends.next().json())
    return RunningPlan(metadata["batchTimestampMs"], metadata["batchWatermarkMs"], frozenset(found))
