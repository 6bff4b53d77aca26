"""Queries write their own files at less cost in a local folder, and in a bucket of S3 where they keep no state."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.session.settings import FILE_MANAGER
from rekindle.spark.query.own_files import keeps_state, written_by_calls
from tests.jobs.kit import World, rows


def test_the_queries_of_a_job_in_a_local_folder_write_through_calls_and_the_session_is_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = []

    def look(df: DataFrame, batch: rk.sinks.SinkBatch) -> None:
        found.append(df.sparkSession.conf.get(FILE_MANAGER))
        df.count()

    world = World(tmp_path)
    world.add_history(rows(0, 60))
    job = rk.Job("looked_at")
    source = job.source("history", world.files(), event_time="ts")
    job.sink("look", job.task(source, uid="all")(lambda df: df), rk.sinks.Foreach(look))

    result = job.start(spark, storage=world.storage).wait()

    assert (result.state, result.error) == ("FINISHED", None)
    assert {name.rpartition(".")[2] for name in found} == {"FileSystemBasedCheckpointFileManager"}
    assert spark.conf.get(FILE_MANAGER, None) is None


def test_other_stores_and_what_the_user_has_set_are_left_as_they_are(spark: SparkSession) -> None:
    rate = spark.readStream.format("rate").load()
    assert written_by_calls(spark, "file:///state")
    assert written_by_calls(spark, "s3a://bucket/state", rate)
    for other in ("hdfs://host/state", "abfss://c@a.dfs.core.windows.net/state", "gs://bucket/state"):
        assert not written_by_calls(spark, other, rate)
    mine = spark.newSession()
    mine.conf.set(FILE_MANAGER, "my.own.Manager")
    assert not written_by_calls(mine, "file:///state")
    assert not written_by_calls(mine, "s3a://bucket/state", mine.readStream.format("rate").load())


def test_in_a_bucket_only_queries_that_keep_no_state_write_so(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    fixed = spark.range(10).withColumnRenamed("id", "value")
    without = [
        rows,
        rows.where("value > 1").selectExpr("value * 2 AS value", "timestamp").union(rows.select("value", "timestamp")),
        rows.select("timestamp", F.explode(F.array("value", "value"))),
        rows.select("value").mapInPandas(lambda frames: frames, "value long"),
    ]
    keeping = [
        rows.dropDuplicates(["value"]),
        rows.dropDuplicatesWithinWatermark(["value"]),
        rows.groupBy("value").count(),
        rows.groupBy(F.window("timestamp", "1 hour")).count(),
        rows.join(rows.selectExpr("value", "timestamp AS other"), "value"),
        rows.limit(3),
    ]
    assert [keeps_state(frame) for frame in without] == [False] * len(without)
    assert [keeps_state(frame) for frame in keeping] == [True] * len(keeping)
    assert keeps_state(rows.join(fixed, "value")), "a table beside the stream: it is not looked at so closely"
    assert not written_by_calls(spark, "s3a://bucket/state", keeping[0])
    assert not written_by_calls(spark, "s3a://bucket/state")
