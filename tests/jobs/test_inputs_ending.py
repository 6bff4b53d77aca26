"""Inputs that end before others: each operator gives what a batch query gives, before and after a restart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import DDL, QUICK, World, at, committed, has_read, rows, until

Frame = Any


def filters(left: Frame, right: Frame) -> Frame:
    """Predicates that Spark would like to push below the watermark, where they would drop the marks."""
    odd = F.udf(lambda value: value is not None and value != 7, "boolean")
    both = left.unionByName(right).filter("v > 0 and k <> 'z'").dropna().filter(odd("v"))
    return both.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v")).select("window.start", "k", "v")


def _pairs(left: Frame, right: Frame, how: str) -> Frame:
    right = right.select(F.col("ts").alias("rts"), F.col("k").alias("rk"), F.col("v").alias("rv"))
    left = left.filter("ts is not null")  # Spark keeps such a row of an outer join in its state for ever
    near = F.expr("k = rk and v = rv and rts between ts - interval 3 hours and ts + interval 3 hours")
    return left.join(right, near, how).select("ts", "k", "v", "rts", "rv")


def inner(left: Frame, right: Frame) -> Frame:
    return _pairs(left, right, "inner")


def outer(left: Frame, right: Frame) -> Frame:
    """Unmatched rows of the input that ends first, and of that input only, come when the other's time has passed."""
    return _pairs(left, right, "leftOuter")


def distinct(left: Frame, right: Frame) -> Frame:
    return left.unionByName(right).dropDuplicates(["ts", "k"]).select("ts", "k")


def sessions(left: Frame, right: Frame) -> Frame:
    both = left.unionByName(right).groupBy(F.session_window("ts", "20 minutes"), "k").agg(F.count("*").alias("n"))
    return both.select("session_window.start", "session_window.end", "k", "n")


def chained(left: Frame, right: Frame) -> Frame:
    hours = left.unionByName(right).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
    days = hours.groupBy(F.window(F.window_time("window"), "6 hours")).agg(
        F.count("*").alias("n"), F.sum("v").alias("v")
    )
    return days.select("window.start", "n", "v")


def totals(left: Frame, right: Frame) -> Frame:
    """What an outer join lets out at the end is counted after it, in the same flush."""
    hours = outer(left, right).groupBy(F.window("ts", "1 hour")).agg(F.count("*").alias("n"), F.count("rv").alias("m"))
    return hours.select("window.start", "n", "m")


Pipeline = Callable[[Frame, Frame], Frame]

PIPELINES: tuple[Pipeline, ...] = (filters, inner, outer, distinct, sessions, chained, totals)

FLUSHES = {filters: 1, inner: 0, outer: 1, distinct: 0, sessions: 1, chained: 1, totals: 1}
"""Batches at the end: one brings all, and where nothing is left that comes out there is none."""

BATCHES = (outer, distinct)
"""Those whose history is an `rk.Batch`; the others read `rk.Files`."""

HISTORY = (
    [*rows(0, 40), (None, "a", 1), (at(0.3), "z", 1), (at(0.4), "a", 7)],
    rows(6, 30) + rows(0, 10),  # files whose times run backwards, and rows that come twice
    rows(2, 20),
)
LIVE = ([*rows(2, 20), (at(2.1), "a", 7)], rows(5, 30), rows(9, 20), rows(14, 20))


def make(world: World, pipeline: Pipeline, history: rk.Files | rk.Batch, live: rk.Stream | rk.Batch) -> rk.Job:
    name = pipeline.__name__
    job = rk.Job(name)
    left = job.source("history", history, event_time="ts")
    right = job.source("live", live, event_time="ts", watermark=None if live.bounded else "1 minute")
    job.sink("out", job.task(left, right, uid="work")(pipeline), rk.sinks.Parquet(world.out / name))
    return job


def end(handles: list[rk.JobHandle], *, drain: bool) -> set[str]:
    """Stop them all at once; their final states."""
    with ThreadPoolExecutor(len(handles)) as pool:
        list(pool.map(lambda handle: handle.stop(drain=drain), handles))
    return {handle.wait().state for handle in handles}


def flushes(world: World, pipeline: Pipeline) -> int:
    """How many batches the flush of its task took."""
    (path,) = (Path(world.storage) / pipeline.__name__).rglob("end.json")
    document = json.loads(path.read_text())
    return int(document["batch"] - document["batch_before_flush"])


def was_planted(world: World, pipeline: Pipeline) -> bool:
    """Whether its flush was planned by us, for a query that is started again: the plan says the last batch's time."""
    (path,) = (Path(world.storage) / pipeline.__name__).rglob("end.json")
    last = json.loads(path.read_text())["batch"]
    plans = (path.parent / "spark" / "offsets" / str(batch) for batch in (last - 1, last))
    before, flush = (json.loads(plan.read_text().split("\n")[1])["batchTimestampMs"] for plan in plans)
    return bool(before == flush)


def differences(
    spark: SparkSession, world: World, pipelines: tuple[Pipeline, ...] = PIPELINES
) -> dict[str, tuple[Counter[Any], Counter[Any]]]:
    """Pipeline → rows that a batch query gives and the job did not, and the other way round."""
    found = {}
    frames = [spark.createDataFrame(list(chain(*files)), DDL) for files in (HISTORY, LIVE)]
    for pipeline in pipelines:
        name = pipeline.__name__
        expected = Counter(map(tuple, pipeline(*frames).collect()))
        result = Counter(map(tuple, spark.read.parquet(str(world.out / name)).collect()))
        assert expected
        if result != expected:
            found[name] = (expected - result, result - expected)
    return found


@pytest.mark.parametrize(
    "pipelines", [(filters, outer, sessions), pytest.param((filters, inner, distinct, chained), marks=pytest.mark.slow)]
)
def test_a_history_that_ends_first_holds_nothing_back_before_or_after_a_restart(
    spark: SparkSession, world: World, pipelines: tuple[Pipeline, ...]
) -> None:
    world.add_history(*HISTORY)
    world.add_live(*LIVE[:1])
    folder, calls = str(world.history), []

    def read(session: SparkSession) -> Frame:
        calls.append(1)
        return session.read.parquet(folder)

    jobs = [
        make(world, pipeline, rk.Batch(read) if pipeline in BATCHES else rk.Files(folder), world.stream())
        for pipeline in pipelines
    ]

    def start() -> list[rk.JobHandle]:
        return [job.start(spark, storage=world.storage, config=QUICK) for job in jobs]

    def has_come(hour: int) -> bool:
        return any(row["start"] == at(hour).replace(tzinfo=None) for row in committed(world.out / "filters"))

    handles = start()
    until(lambda: all(handle.status().tasks[0].inputs["history"].ended for handle in handles))
    world.add_live(*LIVE[1:3])
    until(lambda: all(has_read(handle, 3) for handle in handles))
    until(lambda: has_come(5))
    assert end(handles, drain=False) == {"STOPPED"}

    handles = start()
    world.add_live(*LIVE[3:])
    until(lambda: all(has_read(handle, 4) for handle in handles))
    until(lambda: has_come(9))
    assert end(handles, drain=True) == {"DRAINED"}

    assert differences(spark, world, pipelines) == {}
    assert len(calls) == len({*BATCHES} & {*pipelines}), "a batch is read once, not again on a resume"


def test_inputs_that_all_end_give_what_a_batch_query_gives(spark: SparkSession, world: World) -> None:
    world.add_history(*HISTORY)
    world.add_live(*LIVE)
    live = rk.Batch(lambda session: session.read.parquet(str(world.live)))

    jobs = [make(world, pipeline, rk.Files(str(world.history)), live) for pipeline in PIPELINES]
    handles = [job.start(spark, storage=world.storage) for job in jobs]

    assert {handle.wait().state for handle in handles} == {"FINISHED"}
    assert differences(spark, world) == {}
    assert {pipeline: flushes(world, pipeline) for pipeline in PIPELINES} == FLUSHES
    planted = {pipeline for pipeline in PIPELINES if FLUSHES[pipeline] and was_planted(world, pipeline)}
    assert planted == {outer, totals}, "windows are flushed by the query that runs"
