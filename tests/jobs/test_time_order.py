"""A history in the order of its event times, by the statistics of its files: results come as it is read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, World, has_read, rows, until

pytestmark = pytest.mark.usefixtures("one_file_a_batch")

HOURS = 8


def fill(world: World) -> None:
    """A file for each hour, each with rows of the hour behind it, and their names in no order."""
    files = [rows(hour, 50) + rows(hour + 1.1, 20) for hour in range(HOURS)]
    random.Random(7).shuffle(files)
    world.add_history(*files, [(None, "a", 1)])


def job(world: World, ordered: Any = None, told: list[int] | None = None, **files: Any) -> rk.Job:
    """Rows per hour and key of the history; `told` is given how many rows each batch has, the flush last."""
    made = rk.Job("ordered")
    history = made.source("history", rk.Files(str(world.history), ordered=ordered, **files), event_time="ts")

    @made.task(history)
    def count(history: Any) -> Any:
        return history.filter("v > 0").groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

    made.sink("out", count, rk.sinks.Parquet(world.out))
    if told is not None:
        made.sink("told", count, rk.sinks.Foreach(lambda df, _: told.append(df.count())))
    return made


def frozen_by_time(storage: str) -> bool:
    found = JobStorage(open_store(storage), "ordered").frozen_files("history")
    return found is not None and found.by_time


ALWAYS_ONE_FILE = {"input.target_batch_duration": "1 ms"}


def test_windows_come_out_while_it_is_read_and_nothing_is_lost(spark: SparkSession, world: World) -> None:
    fill(world)
    told: list[int] = []

    assert job(world, told=told).start(spark, storage=world.storage, config=ALWAYS_ONE_FILE).wait().error is None

    assert world.output() == world.expected()
    assert len([rows_out for rows_out in told if rows_out]) > HOURS / 2
    assert max(told) <= 4 * 3, "no more than four hours of three keys were ever held"


def test_in_any_order_nothing_comes_before_the_end_and_the_rows_are_the_same(spark: SparkSession, world: World) -> None:
    fill(world)
    told: list[int] = []
    unordered = job(world, ordered=False, told=told)

    assert unordered.start(spark, storage=world.storage, config=ALWAYS_ONE_FILE).wait().error is None

    assert world.output() == world.expected()
    assert [rows_out for rows_out in told if rows_out] == [sum(world.expected().values())]
    assert not frozen_by_time(world.storage)


@pytest.mark.slow
def test_beside_a_stream_it_goes_on_in_its_order_after_a_stop(spark: SparkSession, world: World) -> None:
    fill(world)
    world.add_live(rows(HOURS - 1, 60))
    handle = world.hourly().start(spark, storage=world.storage, config=QUICK | ALWAYS_ONE_FILE)
    until(lambda: world.has_hour(2))
    handle.stop()
    assert handle.wait().state == "STOPPED"
    world.add_live(rows(HOURS + 6, 60))

    handle = world.hourly().start(spark, storage=world.storage, config=QUICK)
    until(lambda: handle.status().tasks[0].inputs["history"].ended and has_read(handle, 2))
    handle.stop(drain=True)

    assert handle.wait().state == "DRAINED"
    assert world.output() == world.expected()


@pytest.mark.parametrize(
    ("transform", "by_time"),
    [
        (lambda rows: rows.filter("v > 0").withColumn("more", F.lit(1)), True),
        (lambda rows: rows.withColumn("ts", F.col("ts") - F.expr("INTERVAL 1 DAY")), False),
        (lambda rows: rows.withColumn("ts", F.to_timestamp(F.col("ts").cast("string"))), False),
        (lambda rows: rows.unionByName(rows.withColumn("ts", F.col("ts") - F.expr("INTERVAL 3 HOURS"))), False),
    ],
    ids=["leaves the event time alone", "moves it", "parses it", "moves it in the second part of a union"],
)
def test_a_transform_that_computes_the_event_time_makes_statistics_useless(
    spark: SparkSession, world: World, transform: Any, by_time: bool
) -> None:
    world.add_history(rows(5, 30), rows(0, 30))

    if not by_time:
        with pytest.raises(DefinitionError, match=r"STATISTICS_UNUSABLE.*its transform computes 'ts'"):
            job(world, "statistics", transform=transform).start(spark, storage=f"{world.storage}-2")
    job(world, transform=transform).start(spark, storage=world.storage).wait()

    assert frozen_by_time(world.storage) == by_time


def test_what_has_no_statistics_is_read_in_any_order_unless_they_are_asked_for(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.add_history(rows(0, 30))
    written_by_spark = tmp_path / "int96"
    spark.read.parquet(str(world.history)).write.parquet(str(written_by_spark))
    lines = tmp_path / "lines"
    spark.read.parquet(str(world.history)).write.json(str(lines))
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (written_by_spark, {}, "is INT96"),
        (lines, {"format": "json", "schema": "ts timestamp, k string, v long"}, "json files have no statistics"),
    ]
    for number, (folder, arguments, word) in enumerate(cases):
        world.history = folder
        with pytest.raises(DefinitionError, match=rf"STATISTICS_UNUSABLE.*{word}"):
            job(world, "statistics", **arguments).start(spark, storage=f"{world.storage}-no-{number}")
        world.out = tmp_path / f"out-{number}"
        assert job(world, **arguments).start(spark, storage=f"{world.storage}-{number}").wait().error is None
        assert world.output() == world.expected()
