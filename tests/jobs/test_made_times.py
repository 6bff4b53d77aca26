"""Histories with statistics, and tasks that make rows older than those they read: nothing is lost, in any order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.spark.streaming import orders
from tests.jobs.kit import DDL, QUICK, World, has_read, rows, until, write

pytestmark = pytest.mark.usefixtures("one_file_a_batch")

Frame = Any
ONE_FILE = {**QUICK, "input.target_batch_duration": "1 ms"}
HOURS, LONG = 4, 9


def hours(rows: Frame) -> Frame:
    return rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))


def shifted(rows: Frame) -> Frame:
    return rows.withColumn("ts", F.expr("ts - INTERVAL 8 HOURS"))


def pairs(history: Frame, more: Frame) -> Frame:
    return history.join(more.select("k", F.col("v").alias("w")), "k").select("ts", "k", "v")


def near(history: Frame, more: Frame) -> Frame:
    more = more.select(F.col("k").alias("k2"), F.col("ts").alias("ts2"))
    return history.join(more, F.expr("k = k2 AND ts2 BETWEEN ts AND ts + INTERVAL 3 HOURS")).select("ts", "k", "v")


def united(history: Frame, more: Frame) -> Frame:
    return more.unionByName(shifted(history))


def alone(history: Frame, more: Frame) -> Frame:
    return shifted(history.unionByName(more))


def fill(world: World, files: int = HOURS) -> None:
    for number in range(files):
        world.add_history(rows(number, 60))
        write(world.root / "more", f"{number}.parquet", rows(number + 0.1, 3))


def sources(world: World, job: rk.Job) -> list[Any]:
    places = {"history": world.history, "more": world.root / "more"}
    return [job.source(uid, rk.Files(str(place)), event_time="ts") for uid, place in places.items()]


def read(spark: SparkSession, world: World) -> list[Frame]:
    return [spark.read.schema(DDL).parquet(str(place)) for place in (world.history, world.root / "more")]


def contents(frame: Frame) -> Counter[str]:
    return Counter(str(row) for row in frame.select("window", "k", "v").collect())


def put_out(spark: SparkSession, world: World) -> Counter[str]:
    return contents(spark.read.parquet(str(world.out)))


@pytest.mark.parametrize("function", [pairs, united, near])
def test_one_task_over_histories(
    spark: SparkSession, world: World, caplog: pytest.LogCaptureFixture, function: Callable[..., Frame]
) -> None:
    fill(world)
    job = rk.Job("one")
    task = job.task(*sources(world, job), uid="hourly")(lambda *frames: hours(function(*frames)))
    job.sink("out", task, rk.sinks.Parquet(world.out))

    with caplog.at_level(logging.INFO, orders.__name__):
        assert job.start(spark, storage=world.storage, config=ONE_FILE).wait().error is None

    assert put_out(spark, world) == contents(hours(function(*read(spark, world))))
    said = [one.getMessage() for one in caplog.records if one.name == orders.__name__]
    assert [line.partition(":")[0] for line in said] == [
        f"Source {source} is read in any order by task hourly" for source in ("history", "more") if function is not near
    ]


@pytest.mark.parametrize("function", [pairs, alone])
def test_two_tasks_over_histories(spark: SparkSession, world: World, function: Callable[..., Frame]) -> None:
    fill(world, LONG)
    job = rk.Job("two")
    first = job.task(*sources(world, job), uid="first", event_time="ts")(function)
    job.sink("out", job.task(first, uid="hourly")(hours), rk.sinks.Parquet(world.out))

    assert job.start(spark, storage=world.storage, config=ONE_FILE).wait().error is None

    assert put_out(spark, world) == contents(hours(function(*read(spark, world))))


def test_a_join_of_channels(spark: SparkSession, world: World) -> None:
    """The tasks that it reads allow the order of time; it does not."""
    fill(world, LONG)
    job = rk.Job("channels")
    history, more = (
        job.task(source, uid=f"{source.uid}_rows", event_time="ts")(lambda rows: rows.where("v > 0"))
        for source in sources(world, job)
    )
    joined = job.task(history, more, uid="hourly")(lambda *frames: hours(pairs(*frames)))
    job.sink("out", joined, rk.sinks.Parquet(world.out))

    assert job.start(spark, storage=world.storage, config=ONE_FILE).wait().error is None

    assert put_out(spark, world) == contents(hours(pairs(*read(spark, world))))


def test_what_lags_more_than_its_task_says_fails_the_task_that_reads_it(spark: SparkSession, world: World) -> None:
    fill(world)
    job = rk.Job("lagging")
    first = job.task(*sources(world, job), uid="first", event_time="ts", watermark="1 hour")(alone)
    job.sink("out", job.task(first, uid="hourly")(hours), rk.sinks.Parquet(world.out))

    result = job.start(spark, storage=world.storage, config=ONE_FILE).wait()

    assert (result.state, (result.error or {}).get("code")) == ("FAILED", "ROWS_DROPPED_AS_LATE")


def both(history: Frame, live: Frame) -> Frame:
    return live.unionByName(history)


def beside_a_stream(world: World, function: Callable[..., Frame] = united, ordered: Any = None) -> rk.Job:
    job = rk.Job("beside")
    history = job.source("history", rk.Files(str(world.history), ordered=ordered), event_time="ts")
    live = job.source("live", world.stream(), event_time="ts", watermark="1 minute")
    task = job.task(history, live, uid="hourly")(lambda *frames: hours(function(*frames)))
    job.sink("out", task, rk.sinks.Parquet(world.out))
    return job


def stopped_halfway(spark: SparkSession, world: World, function: Callable[..., Frame] = united) -> None:
    fill(world)
    world.add_live(rows(48, 10))
    handle = beside_a_stream(world, function).start(spark, storage=world.storage, config=ONE_FILE)
    until(lambda: (handle.status().tasks[0].inputs["history"].share or 0) > 0.3)
    handle.stop()
    assert handle.wait().state == "STOPPED"


def test_beside_a_stream_nothing_is_lost_and_a_start_after_a_stop_decides_the_same(
    spark: SparkSession, world: World
) -> None:
    stopped_halfway(spark, world)
    world.add_live(rows(60, 10))

    handle = beside_a_stream(world).start(spark, storage=world.storage, config=ONE_FILE)
    until(lambda: handle.status().tasks[0].inputs["history"].ended and has_read(handle, 2))
    handle.stop(drain=True)

    assert handle.wait().state == "DRAINED"
    frames = [spark.read.schema(DDL).parquet(str(place)) for place in (world.history, world.live)]
    assert put_out(spark, world) == contents(hours(united(*frames)))


def test_where_an_earlier_start_has_read_in_the_order_of_time_no_row_is_lost_silently(
    spark: SparkSession, world: World
) -> None:
    stopped_halfway(spark, world, both)

    handle = beside_a_stream(world).start(spark, storage=world.storage, config=ONE_FILE | {"restart.attempts": "0"})
    result = handle.wait(timeout_s=120)

    assert result is not None
    assert (result.state, (result.error or {}).get("code")) == ("FAILED", "ROWS_DROPPED_AS_LATE")


@pytest.mark.parametrize("ordered", ["statistics", True])
def test_an_order_that_is_asked_for_is_refused(spark: SparkSession, world: World, tmp_path: Path, ordered: Any) -> None:
    fill(world)
    with pytest.raises(DefinitionError, match=r"STATISTICS_UNUSABLE.*'history'.*'hourly' computes event times"):
        beside_a_stream(world, ordered=ordered).start(spark, storage=world.storage)

    job = rk.Job("through")
    history = job.source("history", rk.Files(str(world.history), ordered=ordered), event_time="ts")
    more = job.source("more", rk.Files(str(world.root / "more")), event_time="ts")
    clean = job.task(history, uid="clean", event_time="ts")(lambda rows: rows.where("v > 0"))
    task = job.task(clean, more, uid="hourly")(lambda *frames: hours(pairs(*frames)))
    job.sink("out", task, rk.sinks.Parquet(world.out))
    other = str(tmp_path / "other")
    found = {one.uid: one.refused for one in job.check(spark, storage=other).tasks}
    assert found["clean"] is None
    assert (found["hourly"] or {}).get("code") == "STATISTICS_UNUSABLE"
    with pytest.raises(DefinitionError, match=r"STATISTICS_UNUSABLE.*'history'.*'hourly' joins two streams"):
        job.start(spark, storage=other)
