"""Queries in a local folder write their own files without a process for each; elsewhere Spark does as it does."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.session.settings import FILE_MANAGER
from rekindle.spark.query.own_files import written_by_calls
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


def test_a_bucket_and_what_the_user_has_set_are_left_as_they_are(spark: SparkSession) -> None:
    assert written_by_calls(spark, "file:///state")
    assert not written_by_calls(spark, "s3a://bucket/state")
    mine = spark.newSession()
    mine.conf.set(FILE_MANAGER, "my.own.Manager")
    assert not written_by_calls(mine, "file:///state")
