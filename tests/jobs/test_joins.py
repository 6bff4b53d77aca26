"""Joins in whole jobs: inputs that end one after the other, however their rows are dealt into batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import DDL, Row, at, write

pytestmark = pytest.mark.usefixtures("one_file_a_batch")

FILE_BY_FILE = {"checkpoint.interval": "0", "input.target_batch_duration": "1 ms"}

KEYS = "abcd"


def history(folder: Path, files: int, *, first: float = 0.0, keys: str = KEYS) -> str:
    """Files of twelve rows, a minute apart."""
    for number in range(files):
        rows: list[Row] = [
            (at(first + (12 * number + minute) / 60), keys[minute % len(keys)], 100 * number + minute)
            for minute in range(12)
        ]
        write(folder, f"{number:04d}.parquet", rows)
    return str(folder)


def bounded(left: Any, right: Any, how: str) -> Any:
    """Rows of the same key within ten minutes, with bounds that Spark can forget rows by."""
    span = "interval 10 minutes"
    condition = F.expr(f"l.k = r.k and l.ts between r.ts - {span} and r.ts + {span}")
    return (
        left.alias("l")
        .join(right.alias("r"), condition, how)
        .selectExpr("l.ts", "l.k", "l.v", "r.ts AS ts2", "r.v AS v2")
    )


def contents(frame: Any) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, frame.collect()))


def test_two_tasks_over_finished_histories_are_joined_as_in_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    quick = history(tmp_path / "quick", 1, first=0.3)
    slow = history(tmp_path / "slow", 4, keys="abx")

    job = rk.Job("joins")

    @job.task(job.source("quick", rk.Files(quick), event_time="ts"), event_time="ts")
    def left(frame: Any) -> Any:
        return frame.filter("v >= 0")

    @job.task(job.source("slow", rk.Files(slow), event_time="ts"), event_time="ts")
    def right(frame: Any) -> Any:
        return frame.filter("v >= 0")

    @job.task(left, right)
    def inner(left: Any, right: Any) -> Any:
        return bounded(left, right, "inner")

    @job.task(left, right)
    def outer(left: Any, right: Any) -> Any:
        return bounded(left, right, "left")

    for task in (inner, outer):
        job.sink(f"{task.uid}_out", task, rk.sinks.Parquet(tmp_path / task.uid))
    result = job.start(spark, storage=str(tmp_path / "storage"), config=FILE_BY_FILE).wait()

    assert (result.state, result.error) == ("FINISHED", None)
    frames = [spark.read.schema(DDL).parquet(place) for place in (quick, slow)]
    for name, how in (("inner", "inner"), ("outer", "left")):
        found = contents(spark.read.parquet(str(tmp_path / name)))
        wanted = contents(bounded(frames[0], frames[1], how))
        assert wanted
        assert (wanted - found, found - wanted) == (Counter(), Counter()), name
    assert any(row[4] is None for row in wanted) and any(row[4] is not None for row in wanted)


@pytest.mark.parametrize("event_time", [None, "ts"])
def test_bids_joined_with_their_auctions_are_all_there(
    spark: SparkSession, tmp_path: Path, event_time: str | None
) -> None:
    """Nexmark's query 20: no bound in time, whether the sources have an event time or not."""
    places = {"bids": history(tmp_path / "bids", 4), "auctions": history(tmp_path / "auctions", 2, keys="abe")}

    def query(bids: Any, auctions: Any) -> Any:
        wanted = auctions.filter("v % 100 < 9").selectExpr("k AS auction", "v AS category")
        return bids.join(wanted, F.expr("k = auction")).select("k", "v", "category")

    job = rk.Job("q20")
    sources = [job.source(name, rk.Files(place), event_time=event_time) for name, place in places.items()]
    job.sink("out", job.task(*sources, uid="q20")(query), rk.sinks.Parquet(tmp_path / "out"))
    result = job.start(spark, storage=str(tmp_path / "storage"), config=FILE_BY_FILE).wait()

    assert (result.state, result.error) == ("FINISHED", None)
    wanted = contents(query(*(spark.read.schema(DDL).parquet(place) for place in places.values())))
    found = contents(spark.read.parquet(str(tmp_path / "out")))
    assert wanted
    assert (wanted - found, found - wanted) == (Counter(), Counter())
