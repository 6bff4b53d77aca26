"""A query's trigger: woken, it looks for something to do; not woken, it does not; else it polls as Spark does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rekindle.spark.query.polling import INTERVAL_MS, Polling
from tests.jobs.kit import at, until, write

NEVER_MS = 3_600_000


class Started(NamedTuple):
    """A query that reads the files ``<n>.parquet`` of the test's folder."""

    query: Any
    #: whether it has read so many of them
    has_read: Callable[[int], bool]

    def rests(self) -> bool:
        """Whether it has looked after its last batch, and found nothing."""
        status = self.query.status
        return not status["isTriggerActive"] and not status["isDataAvailable"]


Start = Callable[[Polling], Started]


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Start]:
    """Starts queries, each with its polling."""
    write(tmp_path / "data", "0.parquet", [(at(0), "a", 0)])
    queries, watches = [], []

    def started(polling: Polling) -> Started:
        progress = tmp_path / f"progress{len(queries)}"
        stream = spark.readStream.schema("ts timestamp, k string, v long").parquet(str(tmp_path / "data"))
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(progress))
        queries.append(writer.trigger(processingTime=f"{INTERVAL_MS} milliseconds").start())
        watches.append(threading.Thread(target=polling.watch, args=(queries[-1],)))
        watches[-1].start()
        return Started(queries[-1], lambda count: (progress / "commits" / str(count - 1)).exists())

    yield started
    for query, watch in zip(queries, watches, strict=True):
        query.stop()
        watch.join(60)
        assert not watch.is_alive(), "the watch ends with its query"


def test_a_query_that_reads_inboxes_alone_looks_when_it_is_woken_and_not_before(
    start: Start, spark: Any, tmp_path: Path
) -> None:
    polling = Polling(spark, every_ms=NEVER_MS)
    sleeper, other = start(polling), start(Polling(spark, every_ms=INTERVAL_MS))
    until(lambda: sleeper.has_read(1) and polling._clock is not None and sleeper.rests())

    for number in (1, 2):  # one that polls has polled more than once meanwhile
        write(tmp_path / "data", f"{number}.parquet", [(at(0), "a", number)])
        until(lambda count=number + 1: other.has_read(count))
    slept = not sleeper.has_read(2)
    polling.wake()

    until(lambda: sleeper.has_read(2))
    assert slept, "an idle query costs nothing"


def test_a_query_that_reads_a_stream_looks_by_itself(start: Start, spark: Any, tmp_path: Path) -> None:
    has_read = start(Polling(spark, every_ms=INTERVAL_MS)).has_read
    until(lambda: has_read(1))

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])

    until(lambda: has_read(2))


def test_where_spark_has_no_clock_to_be_set_the_query_polls(start: Start, spark: Any, tmp_path: Path) -> None:
    polling = Polling(spark, every_ms=NEVER_MS)
    polling._jvm = object()
    has_read = start(polling).has_read
    until(lambda: has_read(1))

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])
    polling.wake()

    until(lambda: has_read(2))
