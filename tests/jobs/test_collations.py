"""Strings with a collation: in a history that several tasks read, on the way between tasks, and in a key."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import QUICK, World, committed, rows
from tests.jobs.test_processors import number, processor

pytestmark = pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="Spark has collations since 4.0")


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_several_tasks_read_strings_with_a_collation(spark: SparkSession, world: World, mode: Any) -> None:
    world.add_history(rows(0, 30, "aAb"), rows(1, 30, "aAb"))
    job = rk.Job("collated")
    files = rk.Files(str(world.history), schema="ts timestamp, k string collate UTF8_LCASE, v long")
    source = job.source("history", files, event_time="ts")

    @job.task(source, uid="passes")
    def passes(frame: Any) -> Any:
        return frame.filter("k = 'A'")

    @job.task(passes, uid="reads")
    def reads(frame: Any) -> Any:
        return frame.select(F.collation("k").alias("collation"), "k", "v")

    @job.task(passes, uid="values")
    def values(frame: Any) -> Any:
        return frame.filter("k = 'a' AND v > 0").select("v")

    @job.task(source, uid="others")
    def others(frame: Any) -> Any:
        return frame.filter("k = 'B'").select("k", "v")

    for task in (reads, values, others):
        job.sink(f"{task.uid}_out", task, rk.sinks.Parquet(world.root / "outs" / task.uid))
    result = job.start(spark, storage=world.storage, mode=mode).wait()

    assert (result.state, result.error) == ("FINISHED", None)
    found = {uid: committed(world.root / "outs" / uid) for uid in ("reads", "values", "others")}
    assert sorted(row["k"] for row in found["reads"]) == ["A"] * 20 + ["a"] * 20
    assert {row["collation"].rpartition(".")[2] for row in found["reads"]} == {"UTF8_LCASE"}
    assert len(found["values"]) == 40
    assert [row["k"] for row in found["others"]] == ["b"] * 20


def test_a_key_with_a_collation_is_refused_at_once(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 3, "aAb"))
    folder, columns = str(world.live), "ts timestamp, k string collate UTF8_LCASE, v long"
    job = rk.Job("collated_key")
    stream = rk.Stream(lambda session: session.readStream.schema(columns).parquet(folder))
    live = job.source("live", stream, event_time="ts", watermark="1 hour")

    @job.task(live, uid="hourly")
    def hourly(frame: Any) -> Any:
        return frame.groupBy(F.window("ts", "1 hour"), "k").count()

    job.sink("out", hourly, rk.sinks.Parquet(world.out))
    result = job.start(spark, storage=world.storage, config=QUICK).wait()

    assert result.state == "FAILED" and result.error is not None
    assert result.error["code"] == "QUERY_REFUSED" and "Binary inequality" in result.error["message"]


@pytest.mark.since("4.1")
def test_groups_of_a_processor_by_a_collation_are_refused_where_equals_differ(
    spark: SparkSession, world: World
) -> None:
    def code(collation: str) -> str | None:
        job = rk.Job(collation.lower())
        history = job.source("history", world.files(), event_time="ts")

        @job.task(history, uid="seen")
        def seen(frame: Any) -> Any:
            keyed = frame.select("ts", F.collate("k", collation).alias("k")).groupBy("k")
            return keyed.transformWithState(processor(number), "k string", "append", "eventTime")

        job.sink("out", seen, rk.sinks.Parquet(world.root / collation))
        try:
            return job.start(spark, storage=world.storage, config=QUICK).wait().state
        except rk.RekindleError as error:
            return error.code

    world.add_history(rows(0, 3, "aAb"))
    assert [code(name) for name in ("UTF8_LCASE", "UNICODE", "UTF8_BINARY")] == [*2 * ["GROUPS_COLLATED"], "FINISHED"]
