"""A query's trigger: woken, it looks for something to do; not woken, it does not; else it polls as Spark does."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.spark.query.polling import INTERVAL_MS, Polling, longest_ms
from tests.jobs.kit import at, until, write

NEVER_MS = 3_600_000


HasRead = Callable[[int], bool]
"""Whether a query has run so many batches."""

Start = Callable[[Polling], HasRead]


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Start]:
    """Starts queries, each with its polling."""
    write(tmp_path / "data", "0.parquet", [(at(0), "a", 0)])
    queries, watches = [], []

    def started(polling: Polling) -> HasRead:
        progress = tmp_path / f"progress{len(queries)}"
        stream = spark.readStream.schema("ts timestamp, k string, v long").parquet(str(tmp_path / "data"))
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(progress))
        queries.append(writer.trigger(processingTime=f"{INTERVAL_MS} milliseconds").start())
        watches.append(threading.Thread(target=polling.watch, args=(queries[-1],)))
        watches[-1].start()
        return lambda count: (progress / "commits" / str(count - 1)).exists()

    yield started
    for query, watch in zip(queries, watches, strict=True):
        query.stop()
        watch.join(60)
        assert not watch.is_alive(), "the watch ends with its query"


def test_a_query_that_reads_inboxes_alone_looks_when_it_is_woken_and_not_before(
    start: Start, spark: Any, tmp_path: Path
) -> None:
    polling = Polling(spark, every_ms=NEVER_MS)
    asleep_has_read, other_has_read = start(polling), start(Polling(spark, every_ms=INTERVAL_MS))
    until(lambda: asleep_has_read(1) and polling._clock is not None)

    for number in (1, 2, 3):  # one that polls has read each of them by itself
        write(tmp_path / "data", f"{number}.parquet", [(at(0), "a", number)])
        until(lambda count=number + 1: other_has_read(count))
    # One look may be left from its beginning: the clock was put in while the first batch ran.
    looked, slept = asleep_has_read(2), not asleep_has_read(3)
    polling.wake()

    until(lambda: asleep_has_read(3 if looked else 2))
    assert slept, "an idle query costs nothing"


def test_a_query_that_reads_a_stream_looks_by_itself(start: Start, spark: Any, tmp_path: Path) -> None:
    has_read = start(Polling(spark, every_ms=INTERVAL_MS))
    until(lambda: has_read(1))

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])

    until(lambda: has_read(2))


def test_where_spark_has_no_clock_to_be_set_the_query_polls(start: Start, spark: Any, tmp_path: Path) -> None:
    polling = Polling(spark, every_ms=NEVER_MS)
    polling._jvm = object()
    has_read = start(polling)
    until(lambda: has_read(1))

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])
    polling.wake()

    until(lambda: has_read(2))


def test_a_report_is_fetched_again_at_once_after_a_batch_and_else_now_and_then(
    start: Start, spark: Any, tmp_path: Path
) -> None:
    polling = Polling(spark, every_ms=INTERVAL_MS)
    has_read = start(polling)
    soon_s = polling.report_lasts_s() if polling.last_report(0) == {} else 0.0
    until(lambda: polling.last_report(0).get("batchId") == 0)
    idle_s = polling.report_lasts_s()

    write(tmp_path / "data", "1.parquet", [(at(0), "a", 1)])
    until(lambda: has_read(2))
    polling.last_report(1)

    assert polling.report_lasts_s() == soon_s < idle_s
    until(lambda: polling.last_report(1).get("batchId", -1) >= 1)


@pytest.mark.parametrize(
    ("durations", "is_on_it"), [({"addBatch": 3, "triggerExecution": 9}, True), ({"latestOffset": 3}, False)]
)
def test_the_report_of_an_idle_query_is_not_taken_for_that_on_the_batch_that_it_names(
    spark: Any, durations: dict[str, int], is_on_it: bool
) -> None:
    polling = Polling(spark, every_ms=NEVER_MS)
    idle_s = polling.report_lasts_s()  # it has had no batch
    polling.last_report(7)
    soon_s = polling.report_lasts_s()
    polling._report = {"batchId": 7, "durationMs": durations}

    assert soon_s < idle_s
    assert polling.report_lasts_s() == (idle_s if is_on_it else soon_s)


def test_after_a_long_silence_a_query_whose_inboxes_are_paid_for_looks_less_often() -> None:
    polling = Polling(SimpleNamespace(_jvm=None), every_ms=500, at_most_ms=longest_ms(500, pace=10))  # type: ignore[arg-type]
    since_s = polling._found_s
    assert [polling.pause_s(since_s + silent_s) for silent_s in (0, 4, 60, 3_600)] == [0.5, 0.5, 6.0, 10.0]


def test_where_a_look_costs_nothing_it_always_looks_as_often() -> None:
    polling = Polling(SimpleNamespace(_jvm=None), every_ms=500, at_most_ms=longest_ms(500, pace=1))  # type: ignore[arg-type]
    assert polling.pause_s(polling._found_s + 3_600) == 0.5


def test_a_wake_that_comes_as_it_is_decided_that_a_busy_query_need_not_look_is_not_lost() -> None:
    looked, woken = threading.Event(), threading.Event()

    def busy() -> bool:
        if not woken.is_set():
            woken.set()
            polling.wake()
        return True

    nothing: Any = SimpleNamespace(_jvm=None)
    polling = Polling(nothing, every_ms=10, busy=busy)
    polling._clock = SimpleNamespace(advance=lambda _: looked.set())
    tending = threading.Thread(target=polling._tend, args=(None,))
    tending.start()
    try:
        until(looked.is_set, 10)
    finally:
        polling._ended = True
        polling.wake()
        tending.join()


def test_spark_says_that_a_source_does_not_answer(spark: Any, tmp_path: Path) -> None:
    datasource: Any = pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no sources in Python")
    hangs, writers = str(tmp_path / "hangs"), list[int]()

    class Reader(datasource.SimpleDataSourceStreamReader):  # type: ignore[name-defined, misc]
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - so it is called in Spark
            return {"at": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
            if os.path.exists(hangs):
                Path(hangs).read_bytes()  # until its writer closes it
            return iter([]), start

        def readBetweenOffsets(self, start: Any, end: Any) -> Iterator[tuple[int]]:  # noqa: N802 - as above
            return iter([])

    class Hanging(datasource.DataSource):  # type: ignore[name-defined, misc]
        def schema(self) -> str:
            return "v int"

        def simpleStreamReader(self, schema: Any) -> Reader:  # noqa: N802 - so it is called in Spark
            return Reader()

    def is_read() -> bool:
        with suppress(OSError):  # there is no reader yet
            writers.append(os.open(hangs, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    spark.dataSource.register(Hanging)
    noted = deque[bool](maxlen=3)
    polling = Polling(spark, every_ms=50, looks=noted.append)
    writer = spark.readStream.format("Hanging").load().writeStream.format("noop")
    query = (
        writer.option("checkpointLocation", str(tmp_path / "progress"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    watch = threading.Thread(target=polling.watch, args=(query,))
    watch.start()
    try:
        until(lambda: list(noted) == [False] * 3)
        os.mkfifo(hangs)
        until(is_read)
        polling._ask_s = 0
        until(lambda: list(noted) == [True] * 3)
        os.unlink(hangs)
        os.close(writers[0])
        until(lambda: list(noted) == [False] * 3)
    finally:
        Path(hangs).unlink(missing_ok=True)
        query.stop()
        watch.join(60)


class Source:
    """A trigger that looks for rows when it is woken; it may not get an answer."""

    def __init__(self) -> None:
        self.woken, self.answers = 0, True

    def advance(self, by_ms: int) -> None:
        self.woken += 1

    def isTriggerActive(self) -> bool:  # noqa: N802 - so it is called in Spark
        return not self.answers


def test_a_look_that_gets_no_answer_is_noticed_and_the_trigger_is_not_woken_for_another() -> None:
    source, noted = Source(), deque[bool](maxlen=3)
    nothing: Any = SimpleNamespace(_jvm=None)
    polling = Polling(nothing, every_ms=10, looks=noted.append)
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(status=lambda: source))
    polling._clock, polling._ask_s = source, 0
    tending = threading.Thread(target=polling._tend, args=(query,))
    tending.start()
    try:
        until(lambda: source.woken > 2 and list(noted) == [False] * 3, 10)
        source.answers, polling._ask_s = False, 0
        until(lambda: list(noted) == [True] * 3, 10)
        woken = source.woken
        noted.clear()
        until(lambda: list(noted) == [True] * 3, 10)
        assert source.woken == woken, "it would be at another look then"
        polling.wake()  # rows may have come after the look began
        until(lambda: source.woken > woken, 10)
        source.answers = True
        until(lambda: list(noted) == [False] * 3, 10)
    finally:
        polling._ended = True
        polling.wake()
        tending.join()
    assert noted[-1] is False


class Clock:
    """Spark's clock that is set by hand."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def setTime(self, now_ms: int) -> None:  # noqa: N802 - so it is called in Spark
        self.now_ms = now_ms

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms


def test_a_trigger_that_looks_while_it_gets_its_clock_is_woken_at_once() -> None:
    """It waited for a time by the machine's clock, and the new one was more than a wake short of that."""
    time_ms, trigger = [2_400], SimpleNamespace(next_ms=0, clock=None)

    def put_in(_: object, clock: Clock) -> None:
        time_ms[0] = 2_700  # the machine is busy, and the trigger has looked at 2500
        trigger.next_ms, trigger.clock = 2_500 + INTERVAL_MS, clock

    field = SimpleNamespace(setAccessible=lambda _: None, set=put_in)
    trigger.getClass = lambda: SimpleNamespace(getDeclaredField=lambda _: field)
    names = {
        "java.lang.System": SimpleNamespace(currentTimeMillis=lambda: time_ms[0]),
        "org.apache.spark.util.ManualClock": Clock,
    }
    spark: Any = SimpleNamespace(_jvm=SimpleNamespace(**names))
    query: Any = SimpleNamespace(
        _jsq=SimpleNamespace(streamingQuery=lambda: SimpleNamespace(triggerExecutor=lambda: trigger))
    )
    polling = Polling(spark, every_ms=NEVER_MS)
    assert polling._has_taken_over(query)
    polling._clock.advance(INTERVAL_MS)
    assert trigger.clock.now_ms >= trigger.next_ms
