"""`make bench-requests`: what a job asks of its bucket, by kind, and what an hour of that costs at list prices.

A job whose storage is a bucket reads a file stream, a small file at a time, into one windowed aggregate or ten with so
many partitions of state, and takes a checkpoint every 30 seconds: all settings as they are by default, but that Spark
keeps fewer batches, so that its clean-up is at work within a minute and not within a quarter of an hour. Between the
job and the server (S3Proxy, Azurite or fake-gcs-server, by ``--store``) a proxy counts every request, Rekindle's and
Spark's, and the bytes they write. After a warm-up it is counted for some minutes, and an hour is extrapolated from
that. Files come so rarely that two cores keep pace: what a batch asks does not depend on how many there are. An idle
job's stream brings nothing after its first file.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from measuring import SETTINGS, arguments, load, publish, settled, where
from rekindle.session.session import make_session
from rekindle.spark.query import kept_batches
from rekindle.storage.open import open_store
from tests.servers.azurite import ACCOUNT, AzureServer
from tests.servers.counting import Requests, counting, kind_on_azure, kind_on_google
from tests.servers.fixtures import proxy_properties
from tests.servers.gcs import GoogleServer
from tests.servers.kafka import jars
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT_EVERY_S = 30
HOUR_S, HOURS_A_MONTH = 3_600, 730
AT_REST_S = 330
"""Until an idle job is at rest, and its storage was looked over once more."""
KEPT, MARGIN = 8, 3
"""Batches that Spark keeps here, instead of 100."""

KINDS = ("PUT", "COPY", "POST", "LIST", "GET", "HEAD", "other", "DELETE", "DELETE many")


class Prices(NamedTuple):
    """What a cloud's list of prices says, in US dollars."""

    write: float
    list: float
    read: float
    head: float
    stored_gb_month: float

    def of(self, kind: str) -> float:
        """Return the price of a request; deletions are free."""
        by_kind = {"LIST": self.list, "GET": self.read, "HEAD": self.head, "other": self.head}
        return 0.0 if kind.startswith("DELETE") else by_kind.get(kind, self.write)


class Bucket(NamedTuple):
    """A server of one kind of buckets, which a job reaches through what counts its requests."""

    requests: Requests
    #: returns the address of a new bucket
    make: Callable[[], str]
    jars: str
    #: Spark's settings
    settings: Mapping[str, str]
    #: the JVM's own plain HTTP goes through this port
    proxy: int | None = None


@contextmanager
def on_s3() -> Iterator[Bucket]:
    """Run S3Proxy."""
    server = S3Server()
    try:
        server.start()
        inner = urlsplit(server.endpoint).port
        assert inner is not None, "the server has a port"
        with counting(inner) as (port, requests):
            os.environ.update({**server.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
            yield Bucket(requests, lambda: f"s3://{server.make_bucket()}", "spark-s3", {})
    finally:
        server.remove()


@contextmanager
def on_azure() -> Iterator[Bucket]:
    """Run Azurite."""
    server = AzureServer()
    try:
        server.start()
        with counting(server.port, kind_on_azure) as (port, requests):
            endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
            os.environ.update({**server.environment, "AZURE_STORAGE_ENDPOINT": endpoint})
            yield Bucket(
                requests,
                lambda: f"abfs://{server.make_container()}@{ACCOUNT}.dfs.core.windows.net",
                "spark-azure",
                server.hadoop_settings,
                port,
            )
    finally:
        server.remove()


@contextmanager
def on_google() -> Iterator[Bucket]:
    """Run fake-gcs-server: Rekindle speaks Google's XML API, and Spark its JSON API."""
    server = GoogleServer()
    try:
        server.start()
        inner = urlsplit(server.json_api).port
        assert inner is not None, "the server has a port"
        with (
            counting(server.port, kind_on_google) as (port, requests),
            counting(inner, kind_on_google, requests) as (json_port, _),
        ):
            os.environ.update({**server.environment, "GOOGLE_BASE_URL": f"http://127.0.0.1:{port}"})
            settings = {**server.hadoop_settings, "fs.gs.storage.root.url": f"http://127.0.0.1:{json_port}"}
            yield Bucket(requests, lambda: f"gs://{server.make_bucket()}", "spark-gcs", settings)
    finally:
        server.remove()


STORES = {"s3": on_s3, "azure": on_azure, "google": on_google}
PRICES = {
    "s3": ("S3 Standard, us-east-1", Prices(5e-6, 5e-6, 4e-7, 4e-7, 0.023)),
    "azure": ("Azure Blob, hot, LRS, East US", Prices(5.5e-6, 5.5e-6, 4.4e-7, 4.4e-7, 0.0208)),
    "google": ("Google Cloud Storage, Standard, us-central1", Prices(5e-6, 5e-6, 4e-7, 4e-7, 0.020)),
}
"""As found in 2026-11; docs/object-storage.md says where."""

CLUSTER, CLUSTER_HOUR = "one m7g.large (2 CPUs, 8 GB) of EC2 in us-east-1, on demand", 0.0816


class Shape(NamedTuple):
    """A job: so many tasks, each with so many partitions of state, and a file for all of them every so many seconds."""

    tasks: int
    partitions: int
    every_s: float
    idle: bool = False

    @property
    def files(self) -> str:
        """How often a file comes."""
        return "no file after the first" if self.idle else f"a file every {self.every_s:.0f} s"


SHAPES = {
    "idle": Shape(1, 1, 10.0, idle=True),
    "1 task": Shape(1, 1, 10.0),
    "1 task, 10 partitions": Shape(1, 10, 10.0),
    "1 task, 100 partitions": Shape(1, 100, 60.0),
    "10 tasks, 200 partitions": Shape(10, 20, 60.0),
}


class Counted(NamedTuple):
    """The requests of one job."""

    name: str
    seconds: float
    batches: int
    checkpoints: int
    requests: Counter[tuple[str, str]]
    #: bytes put while it was counted, by who put them
    written: Counter[str]
    #: bytes in the storage when it had stopped
    stored: int

    def an_hour(self, kind: str, *who: str) -> float:
        """Return the requests of a kind in an hour, made by any of `who`."""
        return sum(self.requests[one, kind] for one in who) * HOUR_S / self.seconds

    def dollars(self, prices: Prices, *who: str) -> float:
        """Return the cost of an hour's requests, in US dollars."""
        return sum(self.an_hour(kind, *who) * prices.of(kind) for kind in KINDS)

    def a_batch(self, kind: str) -> float:
        """Return Spark's requests of a kind for each batch."""
        return self.requests["Spark", kind] / max(self.batches, 1)


def define(data: Path, out: Path, tasks: int) -> rk.Job:
    """Count rows by hour and key, in so many tasks side by side."""
    from pyspark.sql import functions as F

    job = rk.Job("requests")
    read = rk.Stream(lambda spark: spark.readStream.schema("ts timestamp, k long").parquet(str(data)))
    source = job.source("rows", read, event_time="ts", watermark="1 hour")

    def count(rows: DataFrame) -> DataFrame:
        return rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.count("*").alias("rows"))

    for number in range(tasks):
        counts = job.task(source, uid=f"count_{number}")(count)
        job.sink(f"out_{number}", counts, rk.sinks.Parquet(out / str(number)))
    return job


def feed(data: Path, over: threading.Event, shape: Shape) -> None:
    """Drop a small file again and again, with rows for all partitions, until it is over; one only, for an idle job."""
    number, keys = 0, 200
    while not over.is_set() and not (shape.idle and number):
        times = pa.array([time.time_ns() // 1_000] * keys, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "k": list(range(keys))}), data / f".{number}")
        (data / f".{number}").rename(data / f"{number:06d}.parquet")
        number += 1
        over.wait(shape.every_s)


def measure(spark: SparkSession, bucket: Bucket, name: str, warm_up_s: float, seconds: float) -> Counted:
    """Run the job, and count."""
    shape, storage, requests = SHAPES[name], f"{bucket.make()}/state", bucket.requests
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data, over = Path(folder) / "rows", threading.Event()
        data.mkdir()
        threading.Thread(target=feed, args=(data, over, shape), daemon=True).start()
        config = {"checkpoint.interval": f"{CHECKPOINT_EVERY_S} seconds", "state.partitions": str(shape.partitions)}
        handle = define(data, Path(folder) / "out", shape.tasks).start(spark, storage=storage, config=config)
        while min(task.batch for task in handle.status().tasks) < 0:
            time.sleep(0.1)
        time.sleep(max(warm_up_s, AT_REST_S) if shape.idle else warm_up_s)
        before, put, began, status = requests.so_far(), requests.written(), time.monotonic(), handle.status()
        time.sleep(seconds)
        after, put_by_now = requests.so_far(), requests.written()
        took_s, done = time.monotonic() - began, handle.status()
        over.set()
        result = handle.stop()
        assert result.state == "STOPPED", result
    return Counted(
        name,
        took_s,
        sum(task.batch for task in done.tasks) - sum(task.batch for task in status.tasks),
        done.checkpoints_completed - status.checkpoints_completed,
        after - before,
        put_by_now - put,
        sum(entry.size_bytes for entry in open_store(storage).walk("")),
    )


def table(found: list[Counted], store: str) -> str:
    """Return the table of requests in an hour by kind, all and Rekindle's alone, their bytes and their cost."""
    head = " | ".join(one.name for one in found)
    lines = [f"| an hour of: | {head} |", f"| --- |{' ---: |' * len(found)}"]
    both = ("Rekindle", "Spark")

    def row(name: str, *cells: str) -> None:
        if {*cells} - {"0", "0.0"}:
            lines.append(f"| {name} | {' | '.join(cells)} |")

    for who, name in ((both, "all"), (("Rekindle",), "of them Rekindle's")):
        for kind in KINDS:
            row(f"{kind}, {name}", *(f"{one.an_hour(kind, *who):,.0f}" for one in found))
    for kind in KINDS:
        row(f"{kind} a batch, Spark's", *(f"{one.a_batch(kind):.1f}" for one in found))
    for who_put in both:
        row(f"MB written, {who_put}'s", *(f"{one.written[who_put] / 1e6 * HOUR_S / one.seconds:,.1f}" for one in found))
    row("MB stored at the end", *(f"{one.stored / 1e6:,.1f}" for one in found))
    listed, prices = PRICES[store]
    row(f"requests, {listed}", *(f"**${one.dollars(prices, *both):.4f}**" for one in found))
    row("a month", *(f"${one.dollars(prices, *both) * HOURS_A_MONTH:.2f}" for one in found))
    row("what is stored, a month", *(f"${one.stored / 1e9 * prices.stored_gb_month:.4f}" for one in found))
    row("requests, per cent of the cluster", *(f"{one.dollars(prices, *both) / CLUSTER_HOUR:.1%}" for one in found))
    return "\n".join(lines)


def main() -> None:
    parser = arguments("Requests of a job to its bucket, by kind, and what they cost.")
    parser.add_argument("--store", default="s3", choices=STORES, help="whose buckets")
    parser.add_argument("--jobs", nargs="+", default=list(SHAPES), choices=SHAPES, help="which")
    parser.add_argument("--conf", nargs="*", default=[], help="settings of the Spark session, NAME=VALUE")
    parser.add_argument("--warm-up", type=float, default=150, help="seconds before it is counted, of a busy job")
    parser.add_argument("--seconds", type=float, default=180, help="seconds that are counted")
    given = parser.parse_args()
    more = dict(one.split("=", 1) for one in given.conf)
    load_before = load() if given.no_page else settled()
    kept_batches.LEAST, kept_batches.MARGIN = KEPT, MARGIN
    with STORES[given.store]() as bucket:
        settings = {f"spark.hadoop.{name}": value for name, value in bucket.settings.items()}
        if bucket.proxy is not None:
            options = (f"-D{name}={value}" for name, value in proxy_properties(bucket.proxy).items())
            settings["spark.driver.extraJavaOptions"] = " ".join(options)
        connector = ",".join(map(str, jars(bucket.jars)))
        spark = make_session("rekindle-bench", {**SETTINGS, "spark.jars": connector, **settings, **more})
        found: list[Counted] = []
        for name in given.jobs:
            found.append(measure(spark, bucket, name, given.warm_up, given.seconds))
            print(found[-1], flush=True)
        counted = ", ".join(
            f"{one.batches} batches and {one.checkpoints} checkpoints in {one.seconds:.0f} s" for one in found
        )
        files = ", ".join(f"{name}: {SHAPES[name].files}" for name in given.jobs)
        text = f"""\
{table(found, given.store)}

- {files}; a checkpoint every {CHECKPOINT_EVERY_S} seconds; extrapolated from {counted}
- the cluster: {CLUSTER}, ${CLUSTER_HOUR} an hour
{where(spark, load_before)}"""
        spark.stop()
    name = "requests" if given.store == "s3" else f"requests-{given.store}"
    publish(name, text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
