"""What is found in a task's plan before anything runs, and columns whose names differ in capitals alone."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from tests.jobs.kit import QUICK, World, committed, rows, write


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_two_columns_that_spark_takes_for_one_are_found_before_anything_runs(
    spark: SparkSession, world: World, mode: str
) -> None:
    world.add_history(rows(0, 3))
    job = rk.Job("duplicates")
    history = job.source("history", world.files())
    work = job.task(history, uid="work")(lambda history: history.select("k", F.col("v").alias("K")))
    job.sink("out", work, rk.sinks.Parquet(world.out))
    with pytest.raises(DefinitionError) as caught:
        job.start(spark, storage=world.storage, mode=mode)
    assert (caught.value.code, caught.value.parameters) == (
        "COLUMNS_DUPLICATE",
        {"task": "work", "one": "k", "other": "K"},
    )


def test_folders_may_spell_a_column_of_the_schema_in_other_capitals(spark: SparkSession, world: World) -> None:
    for month in (1, 2):
        write(world.history / f"Month={month}", "a.parquet", rows(month, 5))
    job = rk.Job("folders")
    spec = rk.Files(str(world.history), schema="ts timestamp, k string, v long, month int")
    history = job.source("history", spec, event_time="ts")
    job.sink("out", job.task(history, uid="work")(lambda history: history), rk.sinks.Parquet(world.out))
    assert job.start(spark, storage=world.storage, config=QUICK).wait().state == "FINISHED"
    assert Counter(row["month"] for row in committed(world.out)) == {1: 5, 2: 5}


@pytest.mark.parametrize("function", [lambda history: history, functools.partial(lambda history: history)])
def test_a_task_of_a_function_without_a_name_asks_for_a_uid(function: Any) -> None:
    job = rk.Job("nameless")
    history = job.source("history", rk.Files("history"))
    with pytest.raises(DefinitionError) as caught:
        job.task(history)(function)
    assert caught.value.code == "UID_MISSING"
    assert "uid='name'" in caught.value.next_step
