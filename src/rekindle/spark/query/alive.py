"""The life of a query of Spark's, asked for and ended where there may be no Spark left."""

from __future__ import annotations

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


def stop_quietly(query: StreamingQuery) -> None:
    """Stop a query if that can be done."""
    with suppress(Exception):
        query.stop()
