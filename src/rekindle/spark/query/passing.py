"""The watermark of a query that runs, raised from outside (docs/decisions/0067-a-flush-in-the-query-that-runs.md).

Spark keeps the watermark in a tracker of the query, from which each batch takes its own. Where that is higher than the
last batch's, Spark plans a batch without data. The tracker is no part of its public interface. Where it cannot be had,
nothing is done, and the caller stops the query and plants that batch.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)


def raise_watermark(query: StreamingQuery, watermark_ms: int) -> bool:
    """Let a query plan its next batch with a later watermark than its own; return False if it cannot be done."""
    try:
        execution: Any = query._jsq.streamingQuery()
        tracker = execution.watermarkTracker()
        getattr(execution, "noNewData_$eq")(False)
        tracker.setWatermark(watermark_ms)
        return int(tracker.currentWatermark()) == watermark_ms
    except Exception as error:
        _LOG.debug("The watermark of a query that runs cannot be raised, and it is stopped for that: %s", error)
        return False


def has_found_nothing(query: StreamingQuery) -> bool:
    """Return True if a query has looked since its watermark was raised, and has planned no batch."""
    try:
        return bool(query._jsq.streamingQuery().noNewData())
    except Exception as error:  # there is no Spark left to ask
        _LOG.debug("A query cannot be asked whether it has found anything: %s", error)
        return True
