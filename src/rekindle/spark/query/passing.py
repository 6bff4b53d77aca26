"""A query that runs, made to look, and its watermark raised from outside.

See docs/decisions/0067-a-flush-in-the-query-that-runs.md.

Spark keeps the watermark in a tracker of the query, from which each batch takes its own. Where that is higher than the
last batch's, Spark plans a batch without data. A query that has looked for one in vain has noted what that batch would
run with, and fails where it finds another watermark at its next look, so that note is removed. Neither is part of
Spark's public interface. Where they cannot be had, nothing is done: the caller stops the query and plants that batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)

_LOOK_MS = 50
"""The pause between two looks at whether a query has found nothing."""


def raise_watermark(query: StreamingQuery, watermark_ms: int) -> bool:
    """Let a query plan its next batch with a later watermark than its own; return False if it cannot be done."""
    try:
        execution: Any = query._jsq.streamingQuery()
        tracker, last = execution.watermarkTracker(), execution.lastExecution()
        noted = last.watermarkPropagator()
        _forget_the_last_look(execution)
        noted.purge(last.currentBatchId() + 1)
        tracker.setWatermark(watermark_ms)
        noted.purge(last.currentBatchId() + 1)  # the query may just have looked once more
        return int(tracker.currentWatermark()) == watermark_ms
    except Exception as error:
        _LOG.debug("The watermark of a query that runs cannot be raised, and it is stopped for that: %s", error)
        return False


def has_found_nothing(query: StreamingQuery) -> bool:
    """Return True if a query has looked since its last look was forgotten, and has planned no batch."""
    try:
        return bool(query._jsq.streamingQuery().noNewData())
    except Exception as error:  # there is no Spark left to ask
        _LOG.debug("A query cannot be asked whether it has found anything: %s", error)
        return True


def finds_nothing(query: StreamingQuery, wake: Callable[[], None]) -> int | None:
    """Let a query look, wait until a look finds nothing, and return the watermark of its next batch, ms.

    Return None if it ends before, and 0 where its watermark cannot be had. ``processAllAvailable`` waits for the same,
    but a query has to be woken once that has begun to wait, which nothing tells.
    """
    try:
        execution: Any = query._jsq.streamingQuery()
        _forget_the_last_look(execution)
    except Exception as error:
        _LOG.debug("What a query has found cannot be asked for, and its next look is waited for: %s", error)
        return _waited(query)
    wake()
    try:
        while not has_found_nothing(query):
            if query._jsq.awaitTermination(_LOOK_MS):
                return None
        return int(execution.watermarkTracker().currentWatermark()) if query.isActive else None
    except Exception:  # its watch says what it has died of
        return None


def _waited(query: StreamingQuery) -> int | None:
    try:
        query.processAllAvailable()
        return 0 if query.isActive else None
    except Exception:  # as above
        return None


def _forget_the_last_look(execution: Any) -> None:
    getattr(execution, "noNewData_$eq")(False)
