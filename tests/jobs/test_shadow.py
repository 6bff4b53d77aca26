"""The new code of a job runs as its shadow, over the same inputs, and the rows of both are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError, RekindleError
from rekindle.shadowing.shadow import beside
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, World, rows, until
from tests.servers.kafka import KafkaServer

CONFIG = {**QUICK, "checkpoint.retained": "1000"}


def hourly(world: World, change: Callable[[DataFrame], DataFrame] = lambda counted: counted) -> rk.Job:
    """Rows per hour and key of the live stream, in flat columns."""
    job = rk.Job("hourly")
    live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")

    @job.task(live, uid="count")
    def count(frame: DataFrame) -> DataFrame:
        counted = frame.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
        return change(counted.select(F.col("window.start").alias("hour"), "k", "v"))

    job.sink("out", count, rk.sinks.Parquet(world.out, partition_by=["k"]))
    job.sink("called", count, rk.sinks.Foreach(lambda frame, _: frame.collect()))
    return job


def compared_until(number: int, world: World, spark: SparkSession) -> dict[str, Any]:
    """Return the arguments of a shadow that ends with a checkpoint."""
    return {
        "storage": world.storage,
        "spark": spark,
        "config": CONFIG,
        "key": ["hour", "k"],
        "until_checkpoint": number,
    }


def test_equal_code_is_equal_other_code_differs_and_the_job_runs_on_undisturbed(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.add_live(rows(0, 90))
    original = hourly(world).start(spark, storage=world.storage, config=CONFIG)
    until(lambda: original.status().tasks != () and original.status().tasks[0].batch >= 0)
    origin = original.savepoint(str(tmp_path / "saves")).path
    world.add_live(rows(3, 90), rows(6, 90))
    until(lambda: world_has(world, 7))  # the last that closes, whether both files are one batch or two
    number = original.checkpoint().number
    before = set(JobStorage(open_store(world.storage), "hourly").control(frozenset()).requests)
    common = compared_until(number, world, spark)

    report = rk.shadow(hourly(world), origin, **common)
    sink, called = report.sinks
    assert (report.verdict, report.state, report.folder) == ("equal", "STOPPED", None), report
    assert sink.equal >= 6 and not sink.examples and sink.columns_gone == ()
    assert called.verdict == "not compared" and called.unseen
    assert list((tmp_path / "storage-shadow").iterdir()) == []

    def changed(counted: DataFrame) -> DataFrame:
        doubled = F.when(F.col("k") == "b", F.col("v") * 2).otherwise(F.col("v"))
        return counted.where("k != 'a'").withColumns({"v": doubled, "w": F.lit(1)})

    other = rk.shadow(hourly(world, changed), origin, **common)
    sink = other.sinks[0]
    assert (other.verdict, sink.extra, sink.columns_new) == ("differs", 0, ("w",)), other
    assert min(sink.different, sink.missing, sink.equal) >= 2, other
    assert {example.shadow is None for example in sink.examples} == {True, False}
    assert other.folder is not None and Path(other.folder, "rows", "out").is_dir()

    def failing(counted: DataFrame) -> DataFrame:
        return counted.where(F.raise_error(F.lit("no such customer")).isNull())

    with pytest.raises(RekindleError) as failed:
        rk.shadow(hourly(world, failing), origin, **{**common, "config": {**CONFIG, "restart.attempts": "0"}})
    assert "no such customer" in str(failed.value)

    assert set(JobStorage(open_store(world.storage), "hourly").control(frozenset()).requests) == before
    assert original.status().restarts == 0
    original.stop(drain=True)
    ended = original.wait()
    assert ended is not None and ended.state == "DRAINED"


@pytest.mark.slow
def test_a_topic_is_compared_like_a_table(
    spark: SparkSession, kafka: KafkaServer, world: World, tmp_path: Path
) -> None:
    kafka.make_topic("shadowed")

    def job(factor: int) -> rk.Job:
        made = hourly(world, lambda counted: counted.withColumn("v", F.when(F.col("k") == "b", factor * F.col("v"))))
        sink = rk.sinks.Kafka(kafka.bootstrap, "shadowed", key="k", producers=2)
        return made.with_sinks(lambda uid, other: sink if uid == "out" else other)

    world.add_live(rows(0, 90))
    original = job(1).start(spark, storage=world.storage, config=CONFIG)
    until(lambda: original.status().tasks != () and original.status().tasks[0].batch >= 0)
    origin = original.savepoint(str(tmp_path / "saves")).path
    world.add_live(rows(3, 90), rows(6, 90))
    until(lambda: len({message.value() for message in kafka.messages("shadowed")}) >= 15)
    number = original.checkpoint().number
    common = compared_until(number, world, spark)
    equal = rk.shadow(job(1), origin, **common)
    assert (equal.verdict, equal.sinks[0].columns_gone) == ("equal", ()) and equal.sinks[0].equal >= 6, equal
    other = rk.shadow(job(2), origin, **common)
    assert (other.verdict, other.sinks[0].missing, other.sinks[0].extra) == ("differs", 0, 0), other
    assert other.sinks[0].different >= 2 and '"k":"b"' in str(other.sinks[0].examples[0].original)
    with pytest.raises(RekindleError) as canceled:
        rk.shadow(job(1), origin, **common, wait=lambda handle: handle.cancel())
    assert canceled.value.code == "SHADOW_NOT_FINISHED"
    original.stop(drain=True)
    original.wait()


def test_a_job_with_other_sinks_is_the_same_job(world: World) -> None:
    job, given = hourly(world), dict[str, str]()

    def replaced(uid: str, sink: rk.sinks.TwoPhaseSink) -> rk.sinks.TwoPhaseSink:
        given[uid] = sink.kind
        return rk.sinks.Foreach(print)

    other = job.with_sinks(replaced)
    assert given == {"out": "Parquet", "called": "Foreach"}
    assert {sink.kind for sink in other.graph().sinks} == {"Foreach"}
    assert (other.graph().tasks, other.graph().sources) == (job.graph().tasks, job.graph().sources)
    assert [sink.kind for sink in job.graph().sinks] == ["Parquet", "Foreach"], "the job itself stays as it is"


def test_a_whole_bucket_has_no_place_beside_it(world: World) -> None:
    with pytest.raises(DefinitionError) as refused:
        beside("s3://bucket", None)
    assert refused.value.code == "ARGUMENT_INVALID" and "--target" in refused.value.next_step
    assert beside("s3://bucket/state", None) == "s3://bucket/state-shadow"
    assert beside(world.storage, str(world.root / "there")) == str(world.root / "there")


def world_has(world: World, hour: int) -> bool:
    """Whether a window of so many hours after the start is committed."""
    from tests.jobs.kit import at, committed

    return any(row["hour"].replace(tzinfo=at(0).tzinfo) >= at(hour - 1) for row in committed(world.out))
