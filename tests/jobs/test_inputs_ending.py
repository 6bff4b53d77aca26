"""Inputs that end before others: each operator gives what a batch query gives, before and after a restart (DESIGN 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import DDL, QUICK, Row, World, at, committed, has_read, rows, until

Frame = Any


def filters(left: Frame, right: Frame) -> Frame:
    """Predicates that Spark would like to push below the watermark, where they would drop the marks."""
    odd = F.udf(lambda value: value is not None and value != 7, "boolean")
    both = left.unionByName(right).filter("v > 0 and k <> 'z'").dropna().filter(odd("v"))
    return both.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v")).select("window.start", "k", "v")


def _pairs(left: Frame, right: Frame, how: str) -> Frame:
    right = right.select(F.col("ts").alias("rts"), F.col("k").alias("rk"), F.col("v").alias("rv"))
    near = F.expr("k = rk and v = rv and rts between ts - interval 3 hours and ts + interval 3 hours")
    return left.join(right, near, how).select("ts", "k", "v", "rts", "rv")


def inner(left: Frame, right: Frame) -> Frame:
    return _pairs(left, right, "inner")


def outer(left: Frame, right: Frame) -> Frame:
    """Unmatched rows of the input that ends first, and of that input only, come when the other's time has passed."""
    return _pairs(left, right, "leftOuter")


def full(left: Frame, right: Frame) -> Frame:
    return _pairs(left, right, "fullOuter")


def distinct(left: Frame, right: Frame) -> Frame:
    return left.unionByName(right).dropDuplicates(["ts", "k"]).select("ts", "k")


def sessions(left: Frame, right: Frame) -> Frame:
    both = left.unionByName(right).groupBy(F.session_window("ts", "20 minutes"), "k").agg(F.count("*").alias("n"))
    return both.select("session_window.start", "session_window.end", "k", "n")


def chained(left: Frame, right: Frame) -> Frame:
    hours = left.unionByName(right).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
    days = hours.groupBy(F.window(F.window_time("window"), "6 hours")).agg(F.count("*").alias("n"), F.sum("v").alias("v"))
    return days.select("window.start", "n", "v")


PIPELINES: tuple[Callable[[Frame, Frame], Frame], ...] = (filters, inner, outer, full, distinct, sessions, chained)

HISTORY = (
    rows(0, 40) + [(None, "a", 1), (at(0.3), "z", 1), (at(0.4), "a", 7)],
    rows(6, 30) + rows(0, 10),  # files whose times run backwards, and rows that come twice
    rows(2, 20),
)
LIVE = (rows(2, 20) + [(at(2.1), "a", 7)], rows(5, 30), rows(9, 20), rows(14, 20))


def values(frames: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in frames)


def batch_result(spark: SparkSession, pipeline: Callable[[Frame, Frame], Frame], *inputs: list[Row]) -> Counter[Any]:
    frames = [spark.createDataFrame(data, DDL) for data in inputs]
    return Counter(tuple(row) for row in pipeline(*frames).collect())


def make(world: World, pipeline: Callable[[Frame, Frame], Frame], left: rk.Files | rk.Batch, right: Any) -> rk.Job:
    name = pipeline.__name__
    job = rk.Job(name)
    history = job.source("history", left, event_time="ts")
    lateness = {} if right.bounded else {"watermark": "1 minute"}
    live = job.source("live", right, event_time="ts", **lateness)
    task = job.task(history, live, uid="work")(pipeline)
    job.sink("out", task, rk.sinks.Parquet(world.out / name))
    return job


@pytest.mark.parametrize("kind", ["files", "batch"])
def test_a_history_that_ends_first_holds_nothing_back_before_or_after_a_restart(
    spark: SparkSession, world: World, kind: str
) -> None:
    world.add_history(*HISTORY)
    world.add_live(*LIVE[:1])
    folder, calls = str(world.history), []

    def read(session: SparkSession) -> Frame:
        calls.append(1)
        return session.read.parquet(folder)

    source = rk.Files(folder) if kind == "files" else rk.Batch(read)
    jobs = {pipeline: make(world, pipeline, source, world.stream()) for pipeline in PIPELINES}

    def start() -> list[rk.JobHandle]:
        return [job.start(spark, storage=world.storage, config=QUICK) for job in jobs.values()]

    handles = start()
    until(lambda: all(handle.status().tasks[0].inputs["history"].ended for handle in handles), 120)
    world.add_live(*LIVE[1:3])
    until(lambda: all(has_read(handle, 3) for handle in handles), 120)
    # Nothing of the hours before the live stream's is held back by the history, which has ended.
    until(lambda: any(row["start"] == at(2).replace(tzinfo=None) for row in committed(world.out / "filters")), 120)
    for handle in handles:
        handle.stop()
    assert [handle.wait().state for handle in handles] == ["STOPPED"] * len(jobs)

    handles = start()
    world.add_live(*LIVE[3:])
    until(lambda: all(has_read(handle, 4) for handle in handles), 120)
    until(lambda: any(row["start"] == at(9).replace(tzinfo=None) for row in committed(world.out / "filters")), 120)
    for handle in handles:
        handle.stop(drain=True)
    assert [handle.wait().state for handle in handles] == ["DRAINED"] * len(jobs)

    found = {pipeline: values(committed(world.out / pipeline.__name__)) for pipeline in PIPELINES}
    compare(spark, found)
    assert len(calls) == (len(jobs) if kind == "batch" else 0), "a batch is read once, not again on a resume"


def test_inputs_that_all_end_give_what_a_batch_query_gives(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.add_history(*HISTORY)
    world.add_live(*LIVE)
    live = rk.Batch(lambda session: session.read.parquet(str(world.live)))
    handles = [
        make(world, pipeline, rk.Files(str(world.history)), live).start(spark, storage=world.storage)
        for pipeline in PIPELINES
    ]
    assert [handle.wait().state for handle in handles] == ["FINISHED"] * len(handles)
    compare(spark, {pipeline: values(committed(world.out / pipeline.__name__)) for pipeline in PIPELINES})


def compare(spark: SparkSession, found: dict[Callable[[Frame, Frame], Frame], Counter[Any]]) -> None:
    history, live = (list(sum(files, [])) for files in (HISTORY, LIVE))
    for pipeline, result in found.items():
        expected = batch_result(spark, pipeline, history, live)
        assert expected
        plain = Counter({tuple(_plain(value) for value in row): n for row, n in expected.items()})
        missing, extra = plain - result, result - plain
        assert (missing, extra) == (Counter(), Counter()), pipeline.__name__


def _plain(value: Any) -> Any:
    """Python gives times of a DataFrame in the zone of the process; committed files hold UTC."""
    return value
