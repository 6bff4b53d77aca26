"""The cost of a case of a user's tests in the harness: docs/harness.md, "What a test costs".

    python bench/harness.py [--runs 10]

The first cases of each kind warm the JVM and do not count; kinds take turns. The JVM is started as `rekindle_spark`
starts it. One kind is plain Structured Streaming's: the same window over the same rows, which come at the same two
times, into Spark's own Parquet sink. What it needs no harness can go below.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from measuring import cpu_seconds, load, middle, where
from rekindle.testing.harness import JobHarness
from rekindle.testing.harness.fixtures import SETTINGS

WARMING = 3
ROWS = "ts timestamp, auction long"


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2025, 1, 1, hour, minute, tzinfo=timezone.utc)


def define(task: Callable[[Any], Any]) -> rk.Job:
    job = rk.Job("harness_bench")
    stream = rk.Stream(lambda spark: spark.readStream.schema(ROWS).parquet("/nowhere"))
    bids = job.source("bids", stream, event_time="ts", watermark="10 minutes")
    job.sink("out", job.task(bids, uid="work")(task), rk.sinks.Parquet("/nowhere"))
    return job


def even(bids: Any) -> Any:
    return bids.where("auction % 2 = 0")


def hourly(bids: Any) -> Any:
    windows = bids.groupBy(F.window("ts", "1 hour"), "auction").agg(F.count("*").alias("bids"))
    return windows.select(F.col("window.start").alias("hour"), "auction", "bids")


def filtered(test: JobHarness) -> None:
    test.start()
    test.add("bids", [{"ts": at(0, 10), "auction": 7}, {"ts": at(0, 50), "auction": 8}])
    test.checkpoint()
    assert len(test.rows("out")) == 1


def closed(test: JobHarness) -> None:
    test.start()
    test.add("bids", [{"ts": at(0, 10), "auction": 7}, {"ts": at(0, 50), "auction": 7}])
    test.checkpoint()
    assert test.rows("out") == []
    test.add("bids", [{"ts": at(1, 11), "auction": 7}])
    test.checkpoint()
    assert len(test.rows("out")) == 1


def drained(test: JobHarness) -> None:
    test.start()
    test.add("bids", [{"ts": at(0, 10), "auction": 7}])
    assert test.drain().state == "DRAINED"
    assert len(test.rows("out")) == 1


def plain(spark: SparkSession, folder: Path) -> None:
    """Run the query of `closed` with nothing of Rekindle."""
    (folder / "in").mkdir()
    bids = spark.readStream.schema(ROWS).parquet(str(folder / "in")).withWatermark("ts", "10 minutes")
    rows = [[{"ts": at(0, 10), "auction": 7}, {"ts": at(0, 50), "auction": 7}], [{"ts": at(1, 11), "auction": 7}]]
    writer = hourly(bids).writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start(str(folder / "out"))
    for number, part in enumerate(rows):
        table = pa.Table.from_pylist(part, schema=pa.schema({"ts": pa.timestamp("us", "UTC"), "auction": pa.int64()}))
        pq.write_table(table, folder / "in" / f"{number}.parquet")
        query.processAllAvailable()
    query.stop()
    assert len(pq.read_table(folder / "out", columns=["bids"])) == 1


CASES = {
    "a filter, no state, one checkpoint": (even, filtered),
    "a window, two checkpoints": (hourly, closed),
    "a window, and a drain": (hourly, drained),
}
PLAIN = "the window, two batches of rows, plain Spark alone"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="cases of each kind that count")
    given = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        builder = SparkSession.builder.master("local[2]").appName("rekindle-bench")
        for key, value in {**SETTINGS, "spark.sql.warehouse.dir": folder}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in (*CASES, PLAIN)}
        for _ in range(WARMING + given.runs):
            for name, (task, run) in CASES.items():
                cpu_s, began_s = cpu_seconds(), time.monotonic()
                with JobHarness(define(task), spark, schemas={"bids": ROWS}) as test:
                    run(test)
                took[name].append((cpu_seconds() - cpu_s, time.monotonic() - began_s))
            cpu_s, began_s = cpu_seconds(), time.monotonic()
            with tempfile.TemporaryDirectory(dir=folder) as own:
                plain(spark, Path(own))
            took[PLAIN].append((cpu_seconds() - cpu_s, time.monotonic() - began_s))
        machine = where(spark, before)
        spark.stop()
    print("\n| | CPU | by the clock | the first of its kind, by the clock |\n| --- | ---: | ---: | ---: |")
    for name, each in took.items():
        cpu_s, clock_s = (middle([one[index] for one in each[WARMING:]]) for index in (0, 1))
        print(f"| {name} | {cpu_s:.2f} s | {clock_s:.2f} s | {each[0][1]:.1f} s |")
    print(f"\n{given.runs} of each after {WARMING} that do not count, medians.\n{machine}")


if __name__ == "__main__":
    main()
