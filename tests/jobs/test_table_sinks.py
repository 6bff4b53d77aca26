"""A whole job into Delta, Iceberg and a function at once: history and live stream, faults, a stop, a drain."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.handle import JobHandle
from rekindle.runtime.steps import heard_by
from rekindle.sinks import SinkBatch
from rekindle.testing.crash import Moments
from tests.crash.connectors import MOMENTS
from tests.crash.kit import CONFIG, persist
from tests.jobs.kit import World, has_read, rows, until


class TableWorld(World):
    """One result, in tables of two formats, and in what a function was given."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.delta = root / "delta"
        self.catalog = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/warehouse"}
        self.told: dict[str, Counter[Any]] = {}
        self.calls = 0

    def job(self) -> rk.Job:
        from pyspark.sql import functions as F

        job = rk.Job("tables")
        history = job.source("history", rk.Files(str(self.history)), event_time="ts")
        live = job.source("live", self.stream(), event_time="ts", watermark="4 seconds")

        @job.task(history, live)
        def hourly(history: DataFrame, live: DataFrame) -> DataFrame:
            counted = history.unionByName(live).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
            return counted.select(F.col("window.start").alias("hour"), "k", "v")

        job.sink("delta", hourly, rk.sinks.Delta(self.delta, partition_by=["k"]))
        job.sink("iceberg", hourly, rk.sinks.Iceberg("local", "db.hourly", properties=self.catalog, partition_by=["k"]))
        job.sink("function", hourly, rk.sinks.Foreach(self.hear))
        return job

    def in_delta(self) -> Counter[Any]:
        """What DuckDB reads."""
        if not DeltaTable.is_deltatable(str(self.delta)):
            return Counter()
        found = duckdb.from_arrow(DeltaTable(self.delta).to_pyarrow_table())
        return Counter(found.select("hour", "k", "v").fetchall())

    def in_iceberg(self) -> Counter[Any]:
        """What pyiceberg reads."""
        found = load_catalog("local", **self.catalog).load_table("db.hourly").scan().to_arrow().to_pylist()
        return Counter((row["hour"], row["k"], row["v"]) for row in found)

    def hear(self, df: DataFrame, batch: SinkBatch) -> None:
        """An idempotent function: what comes again under a key replaces what came before."""
        self.calls += 1
        found = [(row.hour.replace(tzinfo=timezone.utc), row.k, row.v) for row in df.collect()]
        self.told[batch.key] = Counter(found)


@pytest.fixture
def tables(tmp_path: Path) -> TableWorld:
    world = TableWorld(tmp_path)
    world.add_history(rows(10, 90), rows(0, 90))
    world.add_live(rows(30, 60), rows(33, 60))
    return world


def test_a_job_writes_each_row_once_into_tables_and_functions_through_faults_a_stop_and_a_drain(
    spark: SparkSession, tables: TableWorld
) -> None:
    faults = Moments(MOMENTS)

    def start() -> JobHandle:
        return heard_by(faults, tables.job().start)(spark, storage=tables.storage, config=CONFIG)

    def look_and_stop(handle: JobHandle) -> None:
        until(lambda: handle.wait(0) is not None or sum(tables.in_delta().values()) > 0, 200)
        handle.stop()

    def read_and_drain(handle: JobHandle) -> None:
        until(lambda: handle.wait(0) is not None or has_read(handle, 3), 200)
        handle.stop(drain=True)

    persist(start, "STOPPED", look_and_stop)
    tables.add_live(rows(36, 60))
    persist(start, "DRAINED", read_and_drain)

    assert not faults.waiting, "these were never reached"
    expected = tables.expected()
    iceberg = load_catalog("local", **tables.catalog).load_table("db.hourly")
    assert tables.in_delta() == expected
    assert tables.in_iceberg() == expected
    assert sum(tables.told.values(), Counter()) == expected
    assert tables.calls > len(tables.told), "a batch that failed comes again, under the same key"
    assert len(iceberg.snapshots()) > 1


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A small disk with nothing but ballast on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk, and not in every container")
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(1 << 12))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_disk_that_is_full_below_the_tables_is_waited_for_and_loses_nothing(
    spark: SparkSession, full: Path, tmp_path: Path
) -> None:
    tables = TableWorld(tmp_path)
    tables.delta = full / "delta"
    tables.catalog |= {"warehouse": f"file://{full}/warehouse"}
    tables.add_history(rows(10, 90), rows(0, 90))
    tables.add_live(rows(30, 60))
    handle = tables.job().start(spark, storage=tables.storage, config=CONFIG)
    until(lambda: handle.wait(0) is not None or "restarting" in [one.status for one in handle.status().tasks])
    (full / "ballast").unlink()
    until(lambda: handle.wait(0) is not None or has_read(handle, 1))
    handle.stop(drain=True)

    assert handle.wait().state == "DRAINED"
    assert tables.in_delta() == tables.in_iceberg() == tables.expected()
