"""In how many partitions a query keeps its state: Spark notes it in each batch that it plans."""

from __future__ import annotations

from contextlib import suppress

from rekindle.errors import StorageError
from rekindle.progress.directory import numbered, read_offsets
from rekindle.storage.port import NotFound, Store

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def state_partitions(store: Store, progress_dir: str) -> int | None:
    """Return in how many partitions the state of a query lies; None where it has none, or has planned no batch.

    A plan that was torn when the power failed says nothing; the one before it says the same.
    """
    planned = numbered(store, f"{progress_dir}/offsets")
    if not planned or not store.names(f"{progress_dir}/state"):
        return None
    for batch in reversed(planned):
        with suppress(StorageError, NotFound):
            return int(read_offsets(store, progress_dir, batch).metadata["conf"][SHUFFLE_PARTITIONS])
    return None
