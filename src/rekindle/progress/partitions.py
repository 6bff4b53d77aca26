"""The number of partitions of a query's state: Spark writes it into the plan of each batch."""

from __future__ import annotations

from rekindle.progress.directory import last_planned, read_offsets
from rekindle.storage.port import Store

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def state_partitions(store: Store, progress_dir: str) -> int | None:
    """Return the number of partitions of a query's state; None: it has no state, or has planned no batch."""
    batch = last_planned(store, progress_dir)
    if batch < 0 or not store.names(f"{progress_dir}/state"):
        return None
    return int(read_offsets(store, progress_dir, batch).metadata["conf"][SHUFFLE_PARTITIONS])
