"""A job on Spark that is stopped, copied to another storage and resumed there: each row is there once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.storage import layout
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.upkeep.moving import copy_job
from tests.jobs.kit import QUICK, World, has_read, rows, until
from tests.servers.s3 import S3Server


def pipeline(world: World) -> rk.Job:
    """A live stream through a channel, and a history, into windows."""
    job = rk.Job("pipeline")
    history = job.source("history", world.files(), event_time="ts")
    live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")
    positive = job.task(live, uid="positive", event_time="ts")(lambda found: found.filter("v > 0"))
    hourly = job.task(positive, history, uid="hourly")(
        lambda one, other: one.unionByName(other).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
    )
    job.sink("out", hourly, rk.sinks.Parquet(world.out))
    return job


def stop_in_the_middle(spark: SparkSession, world: World) -> None:
    """Run the pipeline until so much went through the channel that its logs were compacted, and stop it."""
    world.add_history(rows(0, 90), rows(5, 90))
    world.add_live(rows(100, 90))
    handle = pipeline(world).start(spark, storage=world.storage, config=QUICK)
    log = f"{layout.inbox(layout.subtask('pipeline', 'hourly', 0, 1), 'positive')}/_spark_metadata"
    for hour in range(101, 140):
        until(lambda hour=hour: has_read(handle, hour - 100))  # type: ignore[misc]
        world.add_live(rows(hour, 90))
        if "9.compact" in open_store(world.storage).names(log):
            break
    until(lambda: has_read(handle, hour - 99) and world.has_hour(105))
    handle.stop()
    assert handle.wait().state == "STOPPED"


def resume(spark: SparkSession, world: World) -> None:
    """Run it to its end where it lies by now."""
    handle = pipeline(world).start(spark, storage=world.storage, config=QUICK)
    world.add_live(rows(150, 60))
    until(lambda: has_read(handle, len([*world.live.iterdir()])))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()


def move(world: World, target: str) -> None:
    """Copy the job, and take away where it was: nothing may lead back there."""
    source = open_store(world.storage)
    before = JobStorage(source, "pipeline").lineage()
    copy_job(source, "pipeline", open_store(target), 0)
    shutil.rmtree(world.storage)
    world.storage = target
    assert JobStorage(open_store(target), "pipeline").lineage() == before


def lineages(world: World) -> list[str]:
    return open_store(world.storage).names(layout.lineages("pipeline"))


def test_a_job_resumes_in_another_directory(spark: SparkSession, world: World, tmp_path: Path) -> None:
    stop_in_the_middle(spark, world)
    move(world, str(tmp_path / "another place of 100%"))
    resume(spark, world)
    assert lineages(world) == ["000001.json"], "it went on where it stood"


@pytest.mark.slow  # a copy from store to store: tests/upkeep/test_moving_stores.py; a life in a bucket: test_on_s3.py
def test_a_job_resumes_in_a_bucket(spark: SparkSession, world: World, s3: S3Server, spark_on_s3: SparkSession) -> None:
    stop_in_the_middle(spark, world)
    move(world, f"s3://{s3.make_bucket()}/state of jobs")
    resume(spark, world)
    assert lineages(world) == ["000001.json"]


@pytest.mark.slow
def test_a_job_that_was_canceled_is_copied_with_what_came_after_its_last_checkpoint(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    stop_in_the_middle(spark, world)
    handle = pipeline(world).start(spark, storage=world.storage, config=QUICK | {"checkpoint.interval": "1 hour"})
    world.add_live(rows(145, 60))
    until(lambda: has_read(handle, len([*world.live.iterdir()])))
    handle.cancel()
    assert handle.wait().state == "CANCELED"
    move(world, str(tmp_path / "another place"))
    resume(spark, world)
