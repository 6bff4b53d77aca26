"""A run of what is available now on Spark: a task that reads a history, a stream and a channel, run after run."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from tests.jobs.kit import committed
from tests.jobs.stateful_processors import by_timers

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_file_a_batch")]


def write(folder: Path, *numbers: int) -> None:
    """Write files of one row each."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        text = json.dumps({"n": number, "ts": f"2025-01-01T{number:02d}:00:00Z"}) + "\n"
        hidden = folder / f".{number:03d}"
        hidden.write_text(text)
        hidden.rename(folder / f"{number:03d}.json")


@contextmanager
def fed(folder: Path, first: int, state: Path) -> Iterator[None]:
    """Let a file come every tenth of a second from the first batch on, so that a stream always has more.

    The times of all are the same.
    """
    over = threading.Event()

    def feed() -> None:
        for number in itertools.count(first):
            while not over.wait(0.1) and not any(state.glob("**/both/**/commits/0")):
                pass
            if over.is_set():
                return
            hidden = folder / f".{number:03d}"
            hidden.write_text(json.dumps({"n": number, "ts": "2025-01-01T23:00:00Z"}) + "\n")
            hidden.rename(folder / f"{number:03d}.json")

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join()


def job_of(root: Path, files_a_batch: int = 1) -> rk.Job:
    """A history and a stream → `all` → `hourly`, which holds an hour back until the next has come."""
    from pyspark.sql import functions as F

    job = rk.Job("scheduled")
    schema = "n long, ts timestamp"
    source = job.source("history", rk.Files(str(root / "history"), format="json", schema=schema), event_time="ts")
    stream = rk.Stream(
        lambda spark: (
            spark.readStream.schema(schema).option("maxFilesPerTrigger", files_a_batch).json(str(root / "live"))
        )
    )
    live = job.source("live", stream, event_time="ts", watermark="1 hour")

    @job.task(source, live, event_time="ts", watermark="1 hour")
    def both(source: Any, live: Any) -> Any:
        return source.unionByName(live)

    @job.task(both)
    def hourly(both: Any) -> Any:
        return both.groupBy(F.window("ts", "1 hour")).agg(F.sum("n").alias("n")).select("window.start", "n")

    job.sink("rows", both, rk.sinks.Parquet(str(root / "rows")))
    job.sink("hours", hourly, rk.sinks.Parquet(str(root / "hours")))
    return job


def test_each_run_reads_what_is_there_and_stops_though_more_comes_all_the_time(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "history", 1, 2)
    write(tmp_path / "live", 3, 4, 5)
    storage = str(tmp_path / "state")

    def run(files_a_batch: int) -> str:
        job = job_of(tmp_path, files_a_batch)
        return job.run(spark, storage=storage, config={"checkpoint.interval": "0"}, available_now=True).state

    def rows() -> Counter[int]:
        return Counter(row.n for row in spark.read.parquet(str(tmp_path / "rows")).collect())

    def hours() -> list[int]:
        return [row.n for row in spark.read.parquet(str(tmp_path / "hours")).orderBy("start").collect()]

    with fed(tmp_path / "live", 100, state=tmp_path / "state"):
        assert run(1) == "STOPPED"
    assert rows().keys() >= {1, 2, 3, 4, 5}
    assert set(rows().values()) == {1}
    # `hourly` hears of the newest rows by a batch without data of `both`, and closes windows in one of its own.
    assert hours() == [1, 2], "all that are over by the newest row: an hour for each of two watermarks"

    write(tmp_path / "live", 22)
    assert run(1_000) == "STOPPED"
    names = {int(file.stem) for file in (tmp_path / "live").glob("*.json")}
    assert rows() == Counter([1, 2, *names]), "all that came meanwhile, and nothing twice"
    assert hours() == [1, 2, 3, 4, 5]

    assert run(1_000) == "STOPPED", "nothing has come"
    assert rows() == Counter([1, 2, *names])


def ticking(rows: Any) -> Any:
    """Let rows set a timer of processing time, which sets itself again for ever, and count how often it fires."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Ticking(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle, self.ticks = handle, handle.getValueState("ticks", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            if not list(self.handle.listTimers()):
                self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            number = (self.ticks.get()[0] if self.ticks.exists() else 0) + 1
            self.ticks.update((number,))
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
            yield Row(tick=number)

        def close(self) -> None:
            pass

    return rows.groupBy("k").transformWithState(Ticking(), "tick long", "Append", "ProcessingTime")


@pytest.mark.since("4.1")
def test_a_timer_that_sets_itself_again_for_ever_does_not_hold_a_run_and_one_of_event_time_fires_in_it(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    write(tmp_path / "live", 1, 2, 3, 4)

    def job() -> rk.Job:
        made = rk.Job("timers")
        stream = rk.Stream(
            lambda spark: (
                spark.readStream.schema("n long, ts timestamp")
                .json(str(tmp_path / "live"))
                .select("ts", F.lit("a").alias("k"), F.col("n").alias("v"))
            )
        )
        live = made.source("live", stream, event_time="ts", watermark="30 minutes")
        ticks = made.task(live, uid="ticks")(ticking)
        read = made.task(ticks, uid="read")(lambda ticks: ticks)
        made.sink("read", read, rk.sinks.Parquet(tmp_path / "read"))
        made.sink("hours", made.task(live, uid="hours")(by_timers("value")), rk.sinks.Parquet(tmp_path / "hours"))
        return made

    seen: list[int] = []
    for hours in ([1, 2], [1, 2, 3, 4]):
        assert job().run(spark, storage=str(tmp_path / "state"), available_now=True).state == "STOPPED"
        ticks = sorted(row["tick"] for row in committed(tmp_path / "read"))
        assert ticks == list(range(1, len(ticks) + 1)) and len(ticks) > len(seen)
        assert sorted(row["v"] for row in committed(tmp_path / "hours")) == hours
        seen = ticks
        write(tmp_path / "live", 6)


def test_a_stream_that_cannot_be_bound_is_read_for_a_batch(spark: Any, tmp_path: Path) -> None:
    job = rk.Job("rates")
    live = job.source("live", rk.Stream(lambda spark: spark.readStream.format("rate").load()))

    @job.task(live)
    def values(live: Any) -> Any:
        return live.select("value")

    job.sink("rows", values, rk.sinks.Parquet(str(tmp_path / "rows")))
    result = job.run(spark, storage=str(tmp_path / "state"), available_now=True)
    assert result.state == "STOPPED"


def test_a_run_whose_source_fails_ends_with_an_error_after_some_attempts(spark: Any, tmp_path: Path) -> None:
    """By default: a scheduler waits for it, and has to know."""
    write(tmp_path / "live", 1)
    job = rk.Job("broken")
    live = job.source(
        "live", rk.Stream(lambda s: s.readStream.schema("n long, ts timestamp").json(str(tmp_path / "live")))
    )
    out = job.task(live, uid="out")(lambda rows: rows.selectExpr("CAST(raise_error('no') AS int) AS n"))
    job.sink("out", out, rk.sinks.Parquet(str(tmp_path / "out")))
    soon = {"restart.delay": "1 ms", "restart.delay_max": "1 ms"}
    with pytest.raises(rk.RekindleError) as caught:
        job.run(spark, storage=str(tmp_path / "storage"), config=soon, available_now=True)
    assert caught.value.code == "RESTARTS_EXHAUSTED"
    assert caught.value.parameters["attempts"] == 11
