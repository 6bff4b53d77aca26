"""What a batch and a checkpoint ask of a bucket of S3, counted between Spark and the server.

`docs/object-storage.md` has these figures. What Rekindle asks beside them is in `tests/simulation/test_requests.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import World, rows, until
from tests.servers.counting import Requests, counting
from tests.servers.s3 import S3Server

STATELESS = {"PUT": 3, "COPY": 3, "DELETE": 3, "LIST": 17, "HEAD": 24, "GET": 1}
"""Spark's requests for a file, which is one batch: its plan, its commit and the log of the source."""

STATEFUL = {"PUT": 10, "COPY": 7, "DELETE": 7, "LIST": 64, "HEAD": 87, "GET": 1}
"""Spark's requests for a file that is two batches, since the watermark moves: the same, and one partition of state."""

FILES = 3
"""Files that are counted. Once a minute Spark looks at its state, perhaps in the middle of one."""

_COMMIT = re.compile(r".*/spark/commits/(\d+)")


class Bill:
    """A storage in a bucket, and the requests that it has got."""

    def __init__(self, s3: S3Server, requests: Requests) -> None:
        self._s3 = s3
        self._bucket = s3.make_bucket()
        self._requests = requests
        self._before: Counter[tuple[str, str, str]] = Counter()
        self.storage = f"s3://{self._bucket}/state"

    def batch(self) -> int:
        """Return the newest batch that Spark has committed, as the server says without being counted."""
        found = map(_COMMIT.fullmatch, self._s3.keys(self._bucket))
        return max((int(one[1]) for one in found if one), default=-1)

    def settle(self, spark: SparkSession, batch: int) -> None:
        """Wait until a batch is committed, and its query waits for the next one."""
        until(lambda: self.batch() >= batch and not any(one.status["isTriggerActive"] for one in spark.streams.active))
        assert self.batch() == batch

    def begin(self) -> None:
        """Count from here."""
        self._before = self._requests.named()

    def of(self, who: str, part: str = "") -> Counter[str]:
        """Return the requests of `who` since it began, by their kind: those for names that have `part` in them."""
        since = self._requests.named() - self._before
        found: Counter[str] = Counter()
        for (by, kind, name), count in since.items():
            if by == who and part in name:
                found[kind] += count
        return found


@pytest.fixture
def bill(spark_on_s3: SparkSession, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bill]:
    hadoop: Any = spark_on_s3.sparkContext._jsc.hadoopConfiguration()
    with counting(s3.port) as (port, requests):
        address = f"http://127.0.0.1:{port}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        hadoop.set("fs.s3a.endpoint", address)
        yield Bill(s3, requests)
        hadoop.set("fs.s3a.endpoint", s3.endpoint)


def _hourly(found: DataFrame) -> DataFrame:
    return found.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))


def _positive(found: DataFrame) -> DataFrame:
    return found.filter("v > 0")


def test_the_page_has_these_figures() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "object-storage.md").read_text()
    for what, asked in (("a batch without state", STATELESS), ("two batches with one partition of state", STATEFUL)):
        writes, looks = asked["PUT"] + asked["COPY"], asked["HEAD"] + asked["GET"]
        assert f"| {what}, Spark's | {writes} | {asked['LIST']} | {looks} |" in page


@pytest.mark.parametrize(("function", "batches", "expected"), [(_positive, 1, STATELESS), (_hourly, 2, STATEFUL)])
def test_a_batch_asks_no_more_than_the_page_says_and_a_checkpoint_nothing_of_spark(
    spark: SparkSession, bill: Bill, tmp_path: Path, function: Any, batches: int, expected: dict[str, int]
) -> None:
    world = World(tmp_path)
    job = rk.Job("billed")
    live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")
    job.sink("out", job.task(live, uid="task")(function), rk.sinks.Parquet(world.out))
    world.add_live(rows(0, 90))
    handle = job.start(spark, storage=bill.storage, config={"checkpoint.interval": "0", "state.partitions": "1"})
    bill.settle(spark, batches - 1)

    of_spark = []
    for number in range(1, FILES + 1):
        bill.begin()
        world.add_live(rows(3 * number, 90))
        bill.settle(spark, (number + 1) * batches - 1)
        of_spark.append(bill.of("Spark"))
        assert of_spark[-1] == bill.of("Spark", "/spark/"), "it asks for its own files alone"
        ours = bill.of("Rekindle", "/tasks/")
        # The batch record; before it, a look whether there is one, and the plan that it is to name.
        assert ours == {"PUT": batches, "GET": 2 * batches}, ours
    bill.begin()
    handle.checkpoint()
    until(lambda: bill.of("Rekindle", "/committed.json")["PUT"])

    assert bill.of("Spark") == {}
    assert bill.of("Rekindle", "/billed/checkpoints/")["PUT"] == 2, "the manifest, and that it is committed"
    assert handle.stop().state == "STOPPED"
    usual = {kind: median(one[kind] for one in of_spark) for kind in set().union(*of_spark)}
    writes = ("PUT", "COPY", "DELETE")
    assert all(usual[kind] <= expected.get(kind, 0) for kind in usual), usual
    assert all(usual[kind] >= expected[kind] - batches + 1 for kind in writes), usual
