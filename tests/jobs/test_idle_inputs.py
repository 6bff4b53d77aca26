"""``idle_after=`` on Spark: a stream that has had nothing for a while does not keep another's windows from closing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import DDL, QUICK, World, at, has_read, rows, until, write


class TwoStreams(World):
    """A stream, `live`, and another one beside it, of which nothing may come for long."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.quiet = root / "quiet"
        self.quiet.mkdir()

    def add_quiet(self, data: list[Any]) -> None:
        """A file for the other one."""
        self._add(self.quiet, data)

    def job(self, idle_after: str | None, slow_s: float = 0) -> rk.Job:
        """Rows per hour and key of both; a file of `quiet` takes so long."""
        job = rk.Job("two")
        folder = str(self.quiet)
        live = job.source("live", self.stream(), event_time="ts", watermark="10 minutes")
        quiet = job.source(
            "quiet",
            rk.Stream(lambda spark: spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(folder)),
            event_time="ts",
            watermark="30 minutes",
            idle_after=idle_after,
        )

        def slowly(parts: Any) -> Any:
            for part in parts:
                time.sleep(slow_s)
                yield part

        @job.task(live, quiet, uid="count")
        def count(live: Any, quiet: Any) -> Any:
            if slow_s:
                quiet = quiet.mapInPandas(slowly, quiet.schema)
            return live.unionByName(quiet).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

        job.sink("out", count, rk.sinks.Parquet(self.out))
        return job


def test_a_stream_that_goes_idle_holds_nothing_back_and_its_later_rows_that_are_in_time_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = TwoStreams(tmp_path)
    world.add_live(rows(0, 60))
    world.add_quiet(rows(0, 30))
    handle = world.job("1 second").start(spark, storage=world.storage, config=QUICK)
    until(lambda: all(item.position is not None for item in handle.status().tasks[0].inputs.values()))

    world.add_live(rows(5, 60))  # until 5:59, so that the watermark of `live` is 5:49; `quiet` stands at -0:01
    until(lambda: world.has_hour(0))
    until(lambda: handle.status().tasks[0].inputs["quiet"].idle)

    world.add_quiet(rows(5.9, 6, "q"))  # hour 5 is open still: in time
    late = rows(1, 1, "z")
    write(world.quiet, "9999.parquet", late)  # hour 1 is over: late, as the guide says
    until(lambda: not handle.status().tasks[0].inputs["quiet"].idle)
    world.add_live(rows(12, 60))
    world.add_quiet(rows(12, 60, "q"))
    until(lambda: world.has_hour(5))
    handle.stop(drain=True)

    assert handle.wait().state == "DRAINED"
    found = world.output()
    assert found == world.expected()
    assert (at(5), "q", 6) in found


def test_a_stream_whose_rows_wait_for_batches_that_take_long_is_not_idle(spark: SparkSession, tmp_path: Path) -> None:
    world = TwoStreams(tmp_path)
    for hour in range(5):
        world.add_quiet(rows(hour, 30, "q"))
    world.add_live(rows(9, 60))
    handle = world.job("300 ms", slow_s=1).start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 5, "quiet"))
    handle.stop(drain=True)

    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()
