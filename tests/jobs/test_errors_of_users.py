"""What a user's own code raises is reported in its own words, wherever it was called, and can be tried again."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import World, rows, until

FAIL_AT_ONCE = {"checkpoint.interval": "0", "restart.attempts": "0", "restart.delay": "100 ms"}


def test_an_error_of_a_user_keeps_its_words_in_a_batch_in_the_flush_and_in_a_sink(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 30))

    @F.udf("long")
    def look_up(value: int) -> int:
        raise KeyError(f"customer {value} does not exist")

    def in_a_batch(history: Any) -> Any:
        return history.select(look_up(F.lit(7)).alias("v"))

    def in_the_flush(history: Any) -> Any:
        counted = history.groupBy(F.window("ts", "1 hour")).agg(F.count("*").alias("n"))
        return counted.select(look_up("n").alias("v"))

    def corrupt(history: Any) -> Any:
        return history.select(F.raise_error(F.lit("CORRUPT: Malformed ORC")).cast("long").alias("v"))

    def not_found(df: Any, batch: Any) -> None:
        raise OSError("404: the page does not exist")

    def error_of(function: Any, sink: Any) -> tuple[str, str]:
        job = rk.Job(function.__name__)
        history = job.source("history", world.files(), event_time="ts")
        job.sink("out", job.task(history)(function), sink)
        result = job.start(spark, storage=world.storage, config=FAIL_AT_ONCE).wait()
        assert result.error is not None
        return result.error["code"], result.error["parameters"]["reason"]

    def rows_of(history: Any) -> Any:
        return history

    parquet = [
        (function, rk.sinks.Parquet(world.out / function.__name__)) for function in (in_a_batch, in_the_flush, corrupt)
    ]
    jobs = [*parquet, (rows_of, rk.sinks.Foreach(not_found))]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda each: error_of(*each), jobs))

    assert [code for code, _ in found] == ["RESTARTS_EXHAUSTED"] * 4, found
    reasons = [reason for _, reason in found]
    assert "KeyError: 'customer 7 does not exist'" in reasons[0]
    assert "KeyError: 'customer 30 does not exist'" in reasons[1]
    assert "CORRUPT: Malformed ORC" in reasons[2]
    assert "404: the page does not exist" in reasons[3]


@pytest.mark.parametrize("bounded", [True, False])
def test_a_function_that_reads_a_part_of_its_batch_is_told_so_where_state_is_kept_and_nothing_is_lost(
    spark: SparkSession, world: World, bounded: bool
) -> None:
    add = world.add_history if bounded else world.add_live
    counted: dict[str, int] = {}

    def partly(df: Any, batch: Any) -> None:
        df.limit(1).collect()

    def whole(df: Any, batch: Any) -> None:
        counted.update({row["k"]: row["count"] for row in df.collect()})

    def started(function: Any) -> rk.JobHandle:
        job = rk.Job("partly")
        data = job.source("data", world.files() if bounded else world.stream())
        counts = job.task(data, uid="counts", output_mode="update")(lambda data: data.groupBy("k").count())
        job.sink("out", counts, rk.sinks.Foreach(function))
        return job.start(spark, storage=world.storage, config={**FAIL_AT_ONCE, "state.partitions": "3"})

    add(rows(0, 30, keys="abcdefghijklmnopqrstuvwxyz"))  # some in each partition
    failed = started(partly).wait()
    again = started(whole)
    if not bounded:
        until(lambda: counted)
        add(rows(1, 30, keys="abcdefghijklmnopqrstuvwxyz"))
        until(lambda: counted == Counter(key for _, key, _ in world.data))
        again.stop()
    result = again.wait()

    assert failed.error is not None and failed.error["code"] == "BATCH_PARTLY_READ", failed.error
    assert "rk.sinks.Foreach" in failed.error["next_step"]
    assert result.error is None, result.error
    assert counted == Counter(key for _, key, _ in world.data)
