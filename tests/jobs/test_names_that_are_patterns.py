"""Files of a stream whose names Spark takes for patterns: no row twice, and a word that says what to do."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import InputError
from tests.jobs.kit import DDL, QUICK, World, rows, until, write

NAMES = ("report.parquet", "report[1].parquet", "other.parquet")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def job_of(world: World, *, history: bool = False, **options: Any) -> rk.Job:
    job = rk.Job("named")
    read = rk.Stream(lambda spark: spark.readStream.schema(DDL).options(**options).parquet(str(world.live)))
    sources = [job.source("live", read, event_time="ts", watermark="1 minute")]
    if history:
        sources.append(job.source("history", world.files(), event_time="ts"))

    @job.task(*sources)
    def hours(*frames: Any) -> Any:
        union = functools.reduce(lambda one, other: one.unionByName(other), frames)
        return union.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

    job.sink("out", hours, rk.sinks.Parquet(world.out))
    return job


def drained(spark: SparkSession, world: World, job: rk.Job, **config: str) -> None:
    handle = job.start(spark, storage=world.storage, config={**QUICK, **config})
    until(lambda: handle.wait(0) is not None or handle.status().tasks[0].batch >= 0)
    assert handle.stop(drain=True).state == "DRAINED"


def test_a_batch_in_which_spark_would_read_files_twice_is_not_read_until_it_reads_each_once(
    spark: SparkSession, world: World
) -> None:
    for number, name in enumerate(NAMES):
        world.data += rows(number, 30)
        write(world.live, name, rows(number, 30))

    with pytest.raises(InputError, match=r"takes \S*report\[1\]\.parquet for a pattern") as refused:
        job_of(world).run(spark, storage=world.storage, config=QUICK)
    assert refused.value.code == "FILES_READ_TWICE"
    assert world.output() == Counter()

    drained(spark, world, job_of(world, recursiveFileLookup="true"))
    assert world.output() == world.expected()


def test_where_folders_are_columns_each_file_is_read_once(spark: SparkSession, world: World) -> None:
    for number, name in enumerate(NAMES):
        world.data += rows(number, 30)
        write(world.live / f"part={number % 2}", name, rows(number, 30))
    drained(spark, world, job_of(world))
    assert world.output() == world.expected()


@pytest.mark.parametrize("mode", ["stream", "auto"])
def test_a_history_before_such_files_is_not_mixed_with_a_copy_that_has_rows_twice(
    spark: SparkSession, world: World, mode: str
) -> None:
    world.add_history(rows(0, 90))
    for number, name in enumerate(NAMES):
        write(world.live, name, rows(3 + number, 30))

    with pytest.raises(InputError) as refused:
        job_of(world, history=True).run(spark, storage=world.storage, config={**QUICK, "backlog.mode": mode})

    assert refused.value.code == "FILES_READ_TWICE"
    assert world.output() == Counter()


def test_a_static_side_may_be_no_files_or_files_that_were_named_twice(spark: SparkSession, world: World) -> None:
    url = "jdbc:derby:memory:static;create=true"
    spark.range(1).selectExpr("'one' AS static").write.jdbc(url, "names")
    static, live = str(world.root / "static"), rows(0, 30)
    spark.range(1).selectExpr("2 AS named").write.parquet(static)
    write(world.live, "live.parquet", live)
    job = rk.Job("static")
    read = rk.Stream(lambda spark: spark.readStream.schema(DDL).parquet(str(world.live)))

    @job.task(job.source("live", read))
    def joined(frame: Any) -> Any:
        return frame.crossJoin(spark.read.jdbc(url, "names")).crossJoin(spark.read.parquet(static, static))

    job.sink("out", joined, rk.sinks.Parquet(world.out))
    drained(spark, world, job)
    out = spark.read.parquet(str(world.out))
    assert (out.count(), {*map(tuple, out.select("static", "named").distinct().collect())}) == (
        2 * len(live),
        {("one", 2)},
    )
