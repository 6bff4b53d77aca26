"""Columns of ``key=value`` folders have the values that Spark's batch reader finds there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from tests.jobs.kit import World, rows, write

NEW_YORK = {"timeZone": "America/New_York"}


def read_by_both(
    spark: SparkSession, world: World, folders: Iterable[str], options: dict[str, str]
) -> tuple[Counter[str], Counter[str]]:
    """Return what a job finds in a history of these folders, and what Spark does."""
    for folder in folders:
        write(world.history / folder, "a.parquet", rows(0, 2))
    job = rk.Job("folders")
    source = job.source("history", rk.Files(str(world.history), options=options))
    job.sink("out", job.task(source, uid="same")(lambda history: history), rk.sinks.Parquet(world.out))
    assert job.start(spark, storage=world.storage, config={"restart.attempts": "0"}).wait().error is None
    return contents(spark.read.parquet(str(world.out))), contents(
        spark.read.options(**options).parquet(str(world.history))
    )


def contents(frame: Any) -> Counter[str]:
    return Counter(map(str, frame.collect()))


@pytest.mark.parametrize(
    ("folders", "options"),
    [
        pytest.param(["at=2025-01-01 10%3A00%3A00", "at=2025-07-01 10%3A00%3A00"], NEW_YORK, id="the reader's zone"),
        pytest.param(["k2=caf%E9", "k2=caf%EA", "k2=%80%C0%ff%41", "k2=50%25%zz"], {}, id="bytes that are not UTF-8"),
    ],
)
def test_a_value_is_what_spark_makes_of_it(
    spark: SparkSession, world: World, folders: list[str], options: dict[str, str]
) -> None:
    found, expected = read_by_both(spark, world, folders, options)
    assert found == expected


def test_a_value_in_utf8_stays_readable(spark: SparkSession, world: World) -> None:
    """Arrow encodes it so; Spark takes each byte for a letter."""
    found, _ = read_by_both(spark, world, ["city=Z%C3%BCrich", "city=Bern"], {})
    assert sum(count for row, count in found.items() if "city='Zürich'" in row) == 2


def test_data_may_have_a_column_of_the_name_of_sparks_hidden_one(spark: SparkSession, world: World) -> None:
    data = spark.range(1).selectExpr("id", "named_struct('file_path', 1) AS _metadata").coalesce(1)
    for number in (1, 2):
        data.write.parquet(str(Path(world.history, f"number={number}")))
    found, expected = read_by_both(spark, world, [], {})
    assert found == expected
