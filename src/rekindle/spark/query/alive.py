"""The life of a query of Spark's, asked for and ended where there may be no Spark left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_LOOK_MS = 50
"""The pause between two looks at whether a query has found nothing."""


def is_active(query: StreamingQuery) -> bool:
    """Return True if a query runs; False where there is no Spark left to ask."""
    try:
        return query.isActive
    except Exception:
        return False


def finds_nothing(query: StreamingQuery, wake: Callable[[], None]) -> int | None:
    """Let a query look, wait until a look finds nothing, and return the watermark of its next batch, ms.

    Return None if it ends before. That is what ``processAllAvailable`` waits for. But the query has to be woken once
    that has begun to wait, which nothing tells.
    """
    try:
        execution: Any = query._jsq.streamingQuery()
        getattr(execution, "noNewData_$eq")(False)
        wake()
        while not execution.noNewData():
            if query._jsq.awaitTermination(_LOOK_MS):
                return None
        return int(execution.watermarkTracker().currentWatermark())
    except Exception:  # its watch says what it has died of
        return None


def stop(query: StreamingQuery) -> None:
    """Stop a query; raise what Spark raises only if the query still runs."""
    try:
        query.stop()
    except Exception:
        if is_active(query):
            raise


def stop_beside(query: StreamingQuery) -> None:
    """Stop a query if that can be done, on a thread of its own: Spark may wait for what the query is at."""

    def stop_quietly() -> None:
        with suppress(Exception):
            query.stop()

    threading.Thread(target=stop_quietly, name="stop-query", daemon=True).start()
