"""The life of a query of Spark's, asked for and ended where there may be no Spark left."""

from __future__ import annotations

import threading
from contextlib import suppress

from pyspark.sql.streaming.query import StreamingQuery


def is_active(query: StreamingQuery) -> bool:
    """Return True if a query runs; False where there is no Spark left to ask."""
    try:
        return query.isActive
    except Exception:
        return False


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
