"""Jobs that keep state, each with the batch query that says what it has to put out in the end.

A shape makes the tasks of a job over its inputs ``a`` and ``b``, which have the columns of `kit.DDL` and rows that come
in time. What its sinks have to hold is what the same functions make of all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rekindle as rk
from tests.jobs.stateful_processors import Frame, Query, by_time_outs, by_timers, hourly, timed


@dataclass(frozen=True)
class Output:
    """A task with a sink, and the batch query over some inputs that gives its rows."""

    task: Any
    inputs: Sequence[str]
    expected: Query


@dataclass(frozen=True)
class Shape:
    """A kind of job.

    Args:
        inputs: how many it has.
        make: adds the tasks to a job, given its sources; returns the outputs by the uid of their sinks.
        streams: no input may be a history.
        repeats: rows come again, late too: it puts each out once.
    """

    inputs: int
    make: Callable[[rk.Job, Mapping[str, Any]], Mapping[str, Output]]
    streams: bool = False
    repeats: bool = False


def one(query: Query, expected: Query | None = None, *, inputs: int = 1, mode: str = "append", **more: bool) -> Shape:
    """A job of one task."""
    uids = ["a", "b"][:inputs]

    def make(job: rk.Job, of: Mapping[str, Any]) -> Mapping[str, Output]:
        task = job.task(*(of[uid] for uid in uids), uid="work", output_mode=mode)(query)
        return {"out": Output(task, uids, expected or query)}

    return Shape(inputs, make, **more)


def two(first: Query, expected: Query) -> Shape:
    """Hours by one task, and windows of them by another."""

    def make(job: rk.Job, of: Mapping[str, Any]) -> Mapping[str, Output]:
        hours = job.task(of["a"], uid="hours", event_time="ts")(first)
        return {"out": Output(job.task(hours, uid="work")(windows), ["a"], lambda a: windows(expected(a)))}

    return Shape(1, make)


def for_two(job: rk.Job, of: Mapping[str, Any]) -> Mapping[str, Output]:
    """A task that two others read; one of them reads another input too, and may end later."""
    joined = pairs("left_outer")
    cleaned = job.task(of["a"], uid="clean", event_time="ts")(clean)
    alone, both = job.task(cleaned, uid="alone")(windows), job.task(cleaned, of["b"], uid="both")(joined)
    return {
        "alone": Output(alone, ["a"], lambda a: windows(clean(a))),
        "both": Output(both, ["a", "b"], lambda a, b: joined(clean(a), b)),
    }


def with_itself(job: rk.Job, of: Mapping[str, Any]) -> Mapping[str, Output]:
    """An outer join of an input with itself."""

    def query(left: Frame, right: Frame) -> Frame:
        return pairs("left_outer")(left.filter("v % 2 = 0"), right.filter("v % 2 = 1"))

    return {"out": Output(job.task(of["a"], of["a"], uid="work")(query), ["a", "a"], query)}


def clean(frame: Frame) -> Frame:
    return frame.filter("v % 5 <> 0")


def pairs(how: str, minutes: int = 20) -> Query:
    """A join with bounds in time."""

    def joined(left: Frame, right: Frame) -> Frame:
        from pyspark.sql import functions as F

        span = f"interval {minutes} minutes"
        near = F.expr(f"l.k = r.k and l.ts between r.ts - {span} and r.ts + {span}")
        found = left.alias("l").join(right.alias("r"), near, how)
        if how == "left_semi":
            return found.select("l.ts", "l.k", "l.v")
        return found.selectExpr("l.ts", "l.k", "l.v", "r.ts AS ts2", "r.v AS v2")

    return joined


def left_of_pairs(left: Frame, right: Frame) -> Frame:
    """An outer join, for an operator above it."""
    return pairs("left_outer")(left, right).select("ts", "k", "v")


def windows(frame: Frame) -> Frame:
    """Rows of each quarter of an hour and key."""
    from pyspark.sql import functions as F

    found = frame.groupBy(F.window("ts", "15 minutes"), "k").agg(F.sum("v").alias("v"), F.count("*").alias("n"))
    return found.select("window.start", "k", "v", "n", F.window_time("window").alias("ts"))


def windows_of_windows(frame: Frame) -> Frame:
    from pyspark.sql import functions as F

    return windows(frame).groupBy(F.window("ts", "1 hour")).agg(F.sum("v").alias("v"), F.count("*").alias("n"))


def sessions(frame: Frame) -> Frame:
    from pyspark.sql import functions as F

    found = frame.groupBy(F.session_window("ts", "10 minutes"), "k").agg(F.sum("v").alias("v"))
    return found.select("session_window.start", "session_window.end", "k", "v")


def distinct(frame: Frame) -> Frame:
    return frame.dropDuplicates(["ts", "k", "v"])


def distinct_within(frame: Frame) -> Frame:
    return frame.dropDuplicatesWithinWatermark(["k", "v"])


SHAPES: dict[str, Shape] = {
    **{
        f"{how} join": one(pairs(how), inputs=2)
        for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
    },
    "a join with itself": Shape(1, with_itself),
    "a task for two": Shape(2, for_two),
    "windows after a left join": one(lambda a, b: windows(left_of_pairs(a, b)), inputs=2),
    "windows of a union": one(lambda a, b: windows(a.unionByName(b)), inputs=2),
    "windows of windows": one(windows_of_windows),
    "sessions": one(sessions),
    "windows without duplicates": one(lambda a: windows(distinct(a)), repeats=True),
    "windows without duplicates within the watermark": one(
        lambda a: windows(distinct_within(a)), lambda a: windows(distinct(a)), streams=True, repeats=True
    ),
    **{f"timers, {kind}": one(by_timers(kind), hourly) for kind in ("map", "list", "value")},
    "timers, chained": one(by_timers("map", chained=True), hourly),
    "timers, pandas": one(by_timers("value", pandas=True), hourly),
    "timers, pandas, update": one(by_timers("list", pandas=True, mode="update"), hourly, mode="update"),
    "timers after a left join": one(
        lambda a, b: by_timers("map")(left_of_pairs(a, b)), lambda a, b: hourly(left_of_pairs(a, b)), inputs=2
    ),
    "timers after a deduplication": one(
        lambda a: by_timers("list")(distinct(a)), lambda a: hourly(distinct(a)), repeats=True
    ),
    "timers after windows": one(lambda a: by_timers("value")(windows(a)), lambda a: hourly(windows(a))),
    "windows after timers": one(
        lambda a: windows(by_timers("map", timed=True)(a)), lambda a: windows(timed(hourly)(a))
    ),
    "a join after timers": one(
        lambda a, b: pairs("left_outer", 60)(by_timers("map", timed=True)(a), b),
        lambda a, b: pairs("left_outer", 60)(timed(hourly)(a), b),
        inputs=2,
    ),
    "timers, then windows": two(timed(by_timers("map")), timed(hourly)),
    "time-outs": one(by_time_outs, hourly),
    "time-outs after a left join": one(
        lambda a, b: by_time_outs(left_of_pairs(a, b)), lambda a, b: hourly(left_of_pairs(a, b)), inputs=2
    ),
    "time-outs, then windows": two(timed(by_time_outs), timed(hourly)),
}
