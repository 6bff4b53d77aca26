"""A job whose catalog of Iceberg takes requests and answers none for a while: at the start, in a batch, in a commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.errors import SinkError
from tests.jobs.kit import QUICK, World, has_read, rows, until
from tests.servers.iceberg_rest import RestCatalogServer
from tests.servers.relay import Relay, relay_to

pytest.importorskip("pyiceberg")

from rekindle.sinks.iceberg_catalog import load

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SHORT = (5.0, 1.0)
"""Seconds that are waited for a connection, and for an answer."""


class CatalogWorld(World):
    def __init__(self, root: Path, server: RestCatalogServer, relay: Relay) -> None:
        super().__init__(root)
        self.server, self.relay = server, relay
        self.table = f"{root.name}.hourly"

    def job(self) -> rk.Job:
        from pyspark.sql import functions as F

        catalog = load("shop", {"type": "rest", "uri": f"http://127.0.0.1:{self.relay.port}"}, SHORT)
        job = rk.Job("hourly")
        live = job.source("live", self.stream(), event_time="ts", watermark="4 seconds")

        @job.task(live)
        def count(live: DataFrame) -> DataFrame:
            counted = live.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
            return counted.select(F.col("window.start").alias("hour"), "k", "v")

        job.sink("out", count, rk.sinks.Iceberg(catalog, self.table))
        return job

    def output(self) -> Counter[Any]:
        found = load("shop", {"type": "rest", "uri": self.server.url}).load_table(self.table).scan().to_arrow()
        return Counter((row["hour"], row["k"], row["v"]) for row in found.to_pylist())

    def committed(self) -> int:
        with suppress(Exception):
            return sum(self.output().values())
        return 0


@pytest.fixture
def world(tmp_path: Path, rest_catalog_of_tests: RestCatalogServer) -> Iterator[CatalogWorld]:
    with relay_to(rest_catalog_of_tests.port) as relay:
        yield CatalogWorld(tmp_path, rest_catalog_of_tests, relay)
        relay.answers.set()


@pytest.mark.parametrize(("method", "times"), [("GET", 3), ("POST", 1)])
def test_a_catalog_that_falls_silent_is_asked_again_and_each_row_comes_once(
    spark: SparkSession, world: CatalogWorld, method: str, times: int
) -> None:
    """With GET no look at the table is answered; with POST a commit is made, which only the next look can show."""
    world.add_live(rows(0, 180))
    handle = world.job().start(spark, storage=world.storage, config={**QUICK, "restart.attempts": "50"})
    until(lambda: handle.wait(0) is not None or world.committed())

    world.relay.silent_to = method
    world.relay.answers.clear()
    world.add_live(rows(3, 180))
    until(lambda: handle.wait(0) is not None or world.relay.unanswered.count(method) >= times)
    assert handle.status().state == "RUNNING"
    world.relay.answers.set()

    world.add_live(rows(6, 60))
    until(lambda: handle.wait(0) is not None or has_read(handle, 3))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()


def test_a_start_is_refused_where_the_catalog_is_silent(spark: SparkSession, world: CatalogWorld) -> None:
    job = world.job()
    world.relay.answers.clear()

    with pytest.raises(SinkError, match="SINK_TARGET_INVALID"):
        job.start(spark, storage=world.storage, config=QUICK)
