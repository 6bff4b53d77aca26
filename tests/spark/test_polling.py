"""A query's trigger: woken, it looks for something to do; not woken, it does not; else it polls as Spark does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.spark.query.polling import INTERVAL_MS, Polling
from tests.jobs.kit import at, until, write

NEVER_MS = 3_600_000
A_WHILE_S = 2.5 * INTERVAL_MS / 1000
"""A query that polls has polled in this time."""


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Callable[[Polling], Callable[[int], bool]]]:
    """Starts a query with that polling; returns whether it has read so many of the files ``<n>.parquet``."""
    write(tmp_path / "data", "0.parquet", [(at(0), "a", 0)])
    queries, watches = [], []

    def started(polling: Polling) -> Callable[[int], bool]:
        stream = spark.readStream.schema("ts timestamp, k string, v long").parquet(str(tmp_path / "data"))
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "progress"))
        queries.append(writer.trigger(processingTime=f"{INTERVAL_MS} milliseconds").start())
        watches.append(threading.Thread(target=polling.watch, args=(queries[0],)))
        watches[0].start()
        return lambda count: (tmp_path / "progress" / "commits" / str(count - 1)).exists()

    yield started
    for query, watch in zip(queries, watches, strict=True):
        query.stop()
        watch.join(60)
        assert not watch.is_alive(), "the watch ends with its query"


def test_a_query_that_reads_inboxes_alone_looks_when_it_is_woken_and_not_before(
    start: Callable[[Polling], Callable[[int], bool]], spark: Any, tmp_path: Path
) -> None:
    polling = Polling(spark, every_ms=NEVER_MS)
    has_read = start(polling)
    until(lambda: has_read(1) and polling._clock is not None)
    time.sleep(A_WHILE_S)  # it looks once more behind a batch

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])
    time.sleep(A_WHILE_S)
    slept = not has_read(2)
    polling.wake()

    until(lambda: has_read(2))
    assert slept, "an idle query costs nothing"


def test_a_query_that_reads_a_stream_looks_by_itself(
    start: Callable[[Polling], Callable[[int], bool]], spark: Any, tmp_path: Path
) -> None:
    has_read = start(Polling(spark, every_ms=INTERVAL_MS))
    until(lambda: has_read(1))

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])

    until(lambda: has_read(2))


def test_where_spark_has_no_clock_to_be_set_the_query_polls(
    start: Callable[[Polling], Callable[[int], bool]], spark: Any, tmp_path: Path
) -> None:
    polling = Polling(spark, every_ms=NEVER_MS)
    polling._jvm = object()
    has_read = start(polling)
    until(lambda: has_read(1))

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])
    polling.wake()

    until(lambda: has_read(2))
