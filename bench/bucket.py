"""`make bench-requests`: what a job asks of its bucket, by kind, and what an hour of that costs at list prices.

A job whose storage is a bucket reads a file stream, a small file every 10 seconds, into a windowed aggregate with so
many partitions of state, and takes a checkpoint every 30 seconds: all settings as they are by default, but that Spark
keeps fewer batches, so that its clean-up is at work within a minute and not within a quarter of an hour. Between the
job and the server, S3Proxy, a proxy counts every request, Rekindle's and Spark's. After a warm-up it is counted for
some minutes, and an hour is extrapolated from that. An idle job is the same one, whose stream brings nothing after its
first file.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from measuring import SETTINGS, arguments, publish, settled, where
from rekindle.session.session import make_session
from rekindle.spark.query import kept_batches
from tests.servers import s3 as s3_server
from tests.servers.counting import Requests, counting
from tests.servers.kafka import jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_EVERY_S, CHECKPOINT_EVERY_S = 10.0, 30
HOUR_S, HOURS_A_MONTH = 3_600, 730
KEPT, MARGIN = 8, 3
"""Batches that Spark keeps here, instead of 100."""

DOLLARS = {"PUT": 5e-6, "COPY": 5e-6, "POST": 5e-6, "LIST": 5e-6, "GET": 4e-7, "HEAD": 4e-7}
"""List prices of a request: S3 Standard, us-east-1. Deletions are free."""

IDLE = "idle"

KINDS = ("PUT", "COPY", "LIST", "GET", "HEAD", "DELETE", "DELETE many")


class Counted(NamedTuple):
    """The requests of one job."""

    #: "idle", or its number of partitions
    name: str
    seconds: float
    batches: int
    checkpoints: int
    requests: Counter[tuple[str, str]]

    def an_hour(self, kind: str, *who: str) -> float:
        """Return the requests of a kind in an hour, made by any of `who`."""
        return sum(self.requests[one, kind] for one in who) * HOUR_S / self.seconds

    def dollars(self, *who: str) -> float:
        """Return the cost of an hour's requests, in US dollars."""
        return sum(self.an_hour(kind, *who) * price for kind, price in DOLLARS.items())


def define(data: Path, out: Path) -> rk.Job:
    """Count rows by hour and key."""
    from pyspark.sql import functions as F

    job = rk.Job("requests")
    read = rk.Stream(lambda spark: spark.readStream.schema("ts timestamp, k long").parquet(str(data)))
    source = job.source("rows", read, event_time="ts", watermark="1 hour")

    @job.task(source)
    def count(rows: DataFrame) -> DataFrame:
        return rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.count("*").alias("rows"))

    job.sink("out", count, rk.sinks.Parquet(out))
    return job


def feed(data: Path, over: threading.Event, files: int | None) -> None:
    """Drop a small file every 10 seconds, with rows for all partitions; so many of them, or until it is over."""
    number, keys = 0, 200
    while not over.is_set() and number != files:
        times = pa.array([time.time_ns() // 1_000] * keys, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "k": list(range(keys))}), data / f".{number}")
        (data / f".{number}").rename(data / f"{number:06d}.parquet")
        number += 1
        over.wait(FILE_EVERY_S)


def measure(
    spark: SparkSession, requests: Requests, bucket: str, name: str, warm_up_s: float, seconds: float
) -> Counted:
    """Run the job, and count."""
    partitions, files = (1, 1) if name == IDLE else (int(name), None)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data, over = Path(folder) / "rows", threading.Event()
        data.mkdir()
        threading.Thread(target=feed, args=(data, over, files), daemon=True).start()
        config = {"checkpoint.interval": f"{CHECKPOINT_EVERY_S} seconds", "state.partitions": str(partitions)}
        storage = f"s3://{bucket}/state-{name}"
        handle = define(data, Path(folder) / "out").start(spark, storage=storage, config=config)
        while handle.status().tasks[0].batch < 0:
            time.sleep(0.1)
        time.sleep(warm_up_s)
        before, began, status = requests.so_far(), time.monotonic(), handle.status()
        time.sleep(seconds)
        after, took_s, done = requests.so_far(), time.monotonic() - began, handle.status()
        over.set()
        result = handle.stop()
        assert result.state == "STOPPED", result
    return Counted(
        name,
        took_s,
        done.tasks[0].batch - status.tasks[0].batch,
        done.checkpoints_completed - status.checkpoints_completed,
        after - before,
    )


def table(found: list[Counted]) -> str:
    """Return the table of requests in an hour by kind, all and Rekindle's alone, and their cost."""
    head = " | ".join(one.name for one in found)
    lines = [f"| requests an hour, partitions of state: | {head} |", f"| --- |{' ---: |' * len(found)}"]
    for who, name in ((("Rekindle", "Spark"), "all"), (("Rekindle",), "of them Rekindle's")):
        rows = {kind: [f"{one.an_hour(kind, *who):,.0f}" for one in found] for kind in KINDS}
        rows["cost of an hour"] = [f"**${one.dollars(*who):.4f}**" for one in found]
        rows["cost of a month"] = [f"**${one.dollars(*who) * HOURS_A_MONTH:.2f}**" for one in found]
        lines += [f"| {kind}, {name} | {' | '.join(cells)} |" for kind, cells in rows.items()]
    return "\n".join(lines)


def main() -> None:
    parser = arguments("Requests of a job to its bucket, by kind, and what they cost.")
    parser.add_argument("--jobs", nargs="+", default=[IDLE, "1", "10", "100"], help="idle, or partitions of state")
    parser.add_argument("--warm-up", type=float, default=150, help="seconds before it is counted")
    parser.add_argument("--seconds", type=float, default=180, help="seconds that are counted")
    given = parser.parse_args()
    load_before = settled()
    kept_batches.LEAST, kept_batches.MARGIN = KEPT, MARGIN
    server = s3_server.S3Server()
    try:
        server.start()
        bucket = server.make_bucket()
        inner = urlsplit(server.endpoint).port
        assert inner is not None, "the server has a port"
        with counting(inner) as (port, requests):
            os.environ.update({**server.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
            connector = ",".join(map(str, jars("spark-s3")))
            spark = make_session("rekindle-bench", {**SETTINGS, "spark.jars": connector})
            found = []
            for name in given.jobs:
                found.append(measure(spark, requests, bucket, name, given.warm_up, given.seconds))
                print(found[-1], flush=True)
            counted = ", ".join(
                f"{one.batches} batches and {one.checkpoints} checkpoints in {one.seconds:.0f} s" for one in found
            )
            text = f"""\
{table(found)}

- one file every {FILE_EVERY_S:.0f} seconds, a checkpoint every {CHECKPOINT_EVERY_S}; extrapolated from {counted}
- list prices of S3 Standard, us-east-1: $0.005 for 1,000 PUT, COPY, POST or LIST, $0.0004 for 1,000 GET or HEAD
{where(spark, load_before)}"""
            spark.stop()
    finally:
        server.remove()
    publish("requests", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
