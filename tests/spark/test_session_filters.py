"""Filters on sessions: which of them Spark applies to single rows, and what rows that costs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.spark.plans.session_filters import refuse_session_filters
from tests.jobs.kit import DDL

Frame = Any
NOON = dt.datetime(2025, 1, 1, 12, tzinfo=dt.timezone.utc)
GUARD = "OR spark_partition_id() < 0"


def sessions(rows: Frame) -> Frame:
    return rows.groupBy(F.session_window("ts", "10 minutes"), "k").agg(
        F.count("*").alias("n"), F.min("ts").alias("least")
    )


MOVED: dict[str, Callable[[Frame], Frame]] = {
    "end": lambda rows: sessions(rows).where("session_window.end > '2025-01-01 12:20:00'"),
    "start, with a key": lambda rows: sessions(rows).where("session_window.start <= '2025-01-01 12:05:00' AND k > ''"),
    "another name": lambda rows: (
        sessions(rows).select("n", F.col("session_window.end").alias("ended")).where("ended > '2025-01-01 12:20:00'")
    ),
}
LEFT: dict[str, Callable[[Frame], Frame]] = {
    "keys": lambda rows: sessions(rows).where("k = 'a'"),
    "what is computed": lambda rows: sessions(rows).where("n > 1"),
    "with what is computed": lambda rows: sessions(rows).where("session_window.start < least + INTERVAL 1 SECOND"),
    "guarded": lambda rows: sessions(rows).where(f"session_window.end > '2025-01-01 12:20:00' {GUARD}"),
    "there is one": lambda rows: sessions(rows).dropna(),
    "below": lambda rows: sessions(rows.where("ts > '2025-01-01 12:05:00'")),
    "windows": lambda rows: rows.groupBy(F.window("ts", "1 hour")).count().where("window.end > '2025-01-01 12:20:00'"),
}


def is_refused(frame: Frame) -> bool:
    try:
        refuse_session_filters(Task(uid="task", inputs=("rows",)), frame)
    except DefinitionError as error:
        return error.code == "SESSION_FILTER_MOVED"
    return False


@pytest.mark.parametrize("name", [*MOVED, *LEFT])
def test_a_filter_that_is_moved_below_sessions_is_refused_and_no_other(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    stream = spark.readStream.schema(DDL).parquet(str(tmp_path)).withWatermark("ts", "4 seconds")
    batch = spark.createDataFrame([], DDL)

    assert [is_refused({**MOVED, **LEFT}[name](rows)) for rows in (stream, batch)] == [name in MOVED] * 2


def test_rows_are_lost_where_it_is_refused_and_the_condition_that_is_advised_keeps_them(spark: SparkSession) -> None:
    # One session of a row a minute, from 12:00 to 12:15: it ends at 12:25.
    rows = spark.createDataFrame([(NOON + dt.timedelta(minutes=minute), "a", 1) for minute in range(16)], DDL)
    ended = "session_window.end > timestamp '2025-01-01 12:20:00Z'"

    as_it_is, guarded = (sessions(rows).where(condition) for condition in (ended, f"{ended} {GUARD}"))

    assert [row["n"] for row in guarded.collect()] == [16]
    assert is_refused(as_it_is) == ([row["n"] for row in as_it_is.collect()] != [16])
