"""A job that has everything in a bucket: its history, storage, savepoints, and the files of its sink."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.cli.verbs import rekindle
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, UTC, World, rows, until
from tests.jobs.stored_elsewhere import documents, live_there
from tests.servers.s3 import SECRET, S3Server


class BucketWorld(World):
    """The live stream is a folder, as everywhere; the rest lies in a bucket."""

    def __init__(self, root: Path, s3: S3Server) -> None:
        super().__init__(root)
        self.client = s3.client
        self.bucket = s3.make_bucket()
        self.storage = f"s3://{self.bucket}/state of jobs"
        self.out = f"s3://{self.bucket}/out/hourly"

    def add_history(self, *files: list[Any]) -> None:
        super().add_history(*files)
        self.client.put(f"{self.history}/", f"{self.bucket}/history of 100%/", recursive=True)

    def files(self) -> rk.Files:
        return rk.Files(f"s3://{self.bucket}/history of 100%/*.parquet")

    def output(self) -> Counter[tuple[dt.datetime, str, int]]:
        return Counter((row["window"]["start"].replace(tzinfo=UTC), row["k"], row["v"]) for row in self.written())

    def written(self) -> Iterator[dict[str, Any]]:
        """The rows that the sink shows."""
        for path in self.client.find(self.out):
            if path.endswith(".parquet") and "/." not in path:
                with self.client.open(path) as file:
                    yield from pq.read_table(file).to_pylist()


@pytest.fixture
def world(tmp_path: Path, s3: S3Server, spark_on_s3: SparkSession) -> BucketWorld:
    return BucketWorld(tmp_path, s3)


def test_a_shadow_of_a_job_in_a_bucket_has_a_folder_there_until_it_is_disposed_of(
    spark: SparkSession, world: BucketWorld
) -> None:
    config = {**QUICK, "checkpoint.retained": "1000"}
    world.add_live(rows(0, 90))
    handle = world.hourly(history=False).start(spark, storage=world.storage, config=config)
    until(lambda: bool(handle.status().tasks) and handle.status().tasks[0].batch >= 0)
    origin = handle.savepoint(f"s3://{world.bucket}/saves").path
    world.add_live(rows(3, 90), rows(6, 90))
    until(lambda: world.has_hour(4))
    number = handle.checkpoint().number
    handle.stop()

    report = rk.shadow(
        world.hourly(history=False),
        origin,
        storage=world.storage,
        until_checkpoint=number,
        keep=True,
        spark=spark,
        config=config,
    )
    assert (report.verdict, report.state) == ("equal", "STOPPED"), report
    assert report.folder is not None and report.folder.startswith(f"s3://{world.bucket}/state of jobs-shadow/hourly-")
    shadows = open_store(f"s3://{world.bucket}/state of jobs-shadow")
    assert any("/rows/out/" in entry.path for entry in shadows.walk(""))
    assert CliRunner().invoke(rekindle, ["dispose", report.folder, "--yes"]).exit_code == 0
    assert list(shadows.walk("")) == []


def test_a_job_in_a_bucket_is_stopped_with_a_savepoint_resumed_restored_from_it_and_drained(
    spark: SparkSession, world: BucketWorld, tmp_path: Path
) -> None:
    live_there(world, f"s3://{world.bucket}", spark, tmp_path / "local")
    assert not any(SECRET.encode() in document for document in documents(world))


@pytest.mark.slow
def test_a_job_without_state_in_a_bucket_is_stopped_resumed_restored_from_its_savepoint_and_drained(
    spark: SparkSession, world: BucketWorld
) -> None:
    """Its query writes its own files in another way than one with state: docs/decisions/0065."""

    def start(**options: Any) -> rk.JobHandle:
        job = rk.Job("stateless")
        live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")
        each = job.task(live, uid="each")(lambda found: found.where("k <> 'c'"))
        job.sink("out", each, rk.sinks.Parquet(world.out))
        return job.start(spark, config=QUICK, **{"storage": world.storage, **options})

    def found() -> list[Any]:
        return sorted((row["ts"].replace(tzinfo=UTC), row["k"], row["v"]) for row in world.written())

    def expected(data: list[Any]) -> list[Any]:
        return sorted(row for row in data if row[1] != "c")

    world.add_live(rows(0, 60), rows(2, 60))
    handle = start()
    until(lambda: found() == expected(world.data))
    stopped = handle.stop(savepoint=f"s3://{world.bucket}/saves")
    saved = len(world.data)
    for hour in (4, 6):  # resumed, stopped, and resumed again
        world.add_live(rows(hour, 60))
        handle = start()
        until(lambda: found() == expected(world.data))
        handle.stop(drain=hour == 6)
    assert handle.wait().state == "DRAINED"
    assert found() == expected(world.data)

    world.out = f"s3://{world.bucket}/out/again"
    handle = start(storage=f"s3://{world.bucket}/elsewhere", restore=stopped.savepoint)
    until(lambda: found() == expected(world.data[saved:]))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert found() == expected(world.data[saved:])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_pipeline_with_its_channels_and_tables_in_a_bucket_ends_with_one_checkpoint(
    spark: SparkSession, world: BucketWorld, mode: str, s3: S3Server
) -> None:
    world.add_history(rows(0, 90), rows(5, 90), rows(9, 60))
    job = rk.Job("pipeline")
    history = job.source("history", world.files(), event_time="ts")
    positive = job.task(history, uid="positive", event_time="ts", parallelism=1 if mode == "batch" else 2)(
        lambda found: found.filter("v > 0")
    )
    hourly = job.task(positive, uid="hourly")(
        lambda found: found.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
    )
    archive = job.task(positive, uid="archive", parallelism=1 if mode == "batch" else 2)(lambda found: found)
    job.sink("out", hourly, rk.sinks.Parquet(world.out))
    job.sink("table", archive, rk.sinks.Delta(f"s3://{world.bucket}/archive of all"))
    result = job.start(spark, storage=world.storage, mode=mode, config=QUICK).wait()
    assert (result.state, result.error) == ("FINISHED", None)
    assert world.output() == world.expected()
    table = DeltaTable(f"s3://{world.bucket}/archive of all", storage_options=s3.delta_options).to_pyarrow_table()
    found = Counter(zip(*(table[name].to_pylist() for name in ("ts", "k", "v")), strict=True))
    assert found == Counter(row for row in world.data if row[0] is not None and row[2] > 0)
