"""Rows that Spark cannot write into a sink or a channel: no restart would mend that, and the mended job goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import SinkError
from tests.jobs.kit import World, committed, rows

QUICK = {"checkpoint.interval": "0", "restart.attempts": "1", "restart.delay": "100 ms"}


def test_rows_that_spark_cannot_write_end_the_job_at_once_and_the_mended_job_goes_on(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 3))
    sink = rk.sinks.Parquet

    def made(name: str, column: str, target: rk.sinks.TwoPhaseSink) -> rk.Job:
        job = rk.Job(name)
        history = job.source("history", world.files(), event_time="ts")
        task = job.task(history, uid="task")(lambda frame: frame.select("k", F.expr(column).alias("x")))
        job.sink("out", task, target)
        return job

    def run(name: str, column: str, target: rk.sinks.TwoPhaseSink) -> rk.JobResult:
        result = made(name, column, target).start(spark, storage=world.storage, config=QUICK).wait()
        assert result is not None
        return result

    cases: dict[str, tuple[str, str, dict[str, Any], str]] = {
        "typo": ("1", "1", {"partition_by": ["q"]}, "`q` not found"),
        "all": ("1", "1", {"partition_by": ["k", "x"]}, "all columns for partition columns"),
        "map": ("map(1, 2)", "1", {"partition_by": ["x"]}, "for partition column"),
        "interval": ("make_interval(1)", "1", {}, '`x` of the type "INTERVAL"'),
        "long": ("repeat('y', 254)", "1", {"partition_by": ["x"]}, "a name of 256 bytes: x=yyy"),
        "codec": ("1", "1", {"options": {"compression": "zipp"}}, "zipp"),
    }

    def lives(name: str) -> None:
        column, mended, arguments, words = cases[name]
        if name in ("typo", "interval"):  # of other cases the look before a start is tried without Spark
            looked = made(name, column, sink(world.out / name, **arguments)).check(spark, storage=world.storage)
            refused = [one.refused for one in looked.tasks] + [one.refused for one in looked.sinks]
            assert [one["code"] for one in refused if one is not None] == ["ROWS_UNWRITABLE"]
        failed = run(name, column, sink(world.out / name, **arguments))
        assert failed.error is not None, name
        assert (failed.state, failed.error["code"]) == ("FAILED", "ROWS_UNWRITABLE")
        assert failed.error["message"].startswith("Spark cannot write such rows into sink 'out': ")
        assert words in failed.error["message"]
        assert run(name, mended, sink(world.out / name)).state == "FINISHED"
        assert [row["k"] for row in committed(world.out / name)] == ["a", "b", "c"]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lives, cases))


def test_a_channel_whose_columns_cannot_be_written_is_refused_before_they_are_remembered(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 3))

    def made(column: str) -> rk.Job:
        job = rk.Job("job")
        history = job.source("history", world.files(), event_time="ts")
        read = job.task(history, uid="read")(lambda frame: frame.withColumn("x", F.expr(column)))
        job.sink("out", job.task(read, uid="keys")(lambda frame: frame.select("k")), rk.sinks.Parquet(world.out))
        return job

    with pytest.raises(SinkError) as caught:
        made("named_struct('of', make_interval(1))").start(spark, storage=world.storage, config=QUICK)
    assert caught.value.code == "ROWS_UNWRITABLE"
    assert "the channel of task 'read': column 'x' is struct<of:interval>, which Parquet" in str(caught.value)
    result = made("1").start(spark, storage=world.storage, config=QUICK).wait()
    assert result is not None and result.state == "FINISHED"
    assert len(committed(world.out)) == 3
