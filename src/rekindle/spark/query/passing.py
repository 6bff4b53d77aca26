"""The watermark of a query that runs, raised from outside (docs/decisions/0067-a-flush-in-the-query-that-runs.md).

Spark keeps the watermark in a tracker of the query, from which each batch takes its own. Where that is higher than the
last batch's, Spark plans a batch without data. A query that has looked for one in vain has noted what that batch would
run with, and fails where it finds another watermark at its next look, so that note is removed. Neither is part of
Spark's public interface. Where they cannot be had, nothing is done: the caller stops the query and plants that batch.
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
        tracker, last = execution.watermarkTracker(), execution.lastExecution()
        noted = last.watermarkPropagator()
        getattr(execution, "noNewData_$eq")(False)
        noted.purge(last.currentBatchId() + 1)
        tracker.setWatermark(watermark_ms)
        noted.purge(last.currentBatchId() + 1)  # the query may just have looked once more
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
