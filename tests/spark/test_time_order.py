"""Plans that allow their histories to be read in the order of time, and plans that make older rows of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rekindle.graph.job_graph import Task
from rekindle.spark.plans.time_order import why_any_order
from tests.jobs.kit import DDL

Frame = Any
Query = Callable[[Frame, Frame], Frame]


def hours(rows: Frame) -> Frame:
    return rows.groupBy(F.window("ts", "1 hour"), "k").count()


def shifted(rows: Frame) -> Frame:
    return rows.withColumn("ts", F.expr("ts - INTERVAL 8 HOURS"))


def called_shifted(rows: Frame) -> Frame:
    """The same, and Spark takes it for the event time."""
    return shifted(rows).withMetadata("ts", rows.schema["ts"].metadata)


def mapped(rows: Frame) -> Frame:
    return rows.mapInPandas(lambda frames: frames, rows.schema)


def pairs(left: Frame, right: Frame, how: str = "inner") -> Frame:
    other = right.select(F.col("k").alias("other_k"), F.col("ts").alias("other_ts"))
    bounds = "other_ts BETWEEN ts - INTERVAL 1 HOUR AND ts + INTERVAL 30 MINUTES"
    return left.join(other, F.expr(f"k = other_k AND {bounds}"), how)


def of_keys(left: Frame, right: Frame) -> Frame:
    return left.join(right.select("k", F.col("v").alias("w")), "k")


def after(left: Frame, right: Frame) -> Frame:
    other = right.select(F.col("k").alias("other_k"), F.col("ts").alias("other_ts"))
    return left.join(other, F.expr("k = other_k AND other_ts > ts"))


def until_another_time(left: Frame, right: Frame) -> Frame:
    other = right.select(F.col("k").alias("other_k"), F.col("ts").alias("other_ts"))
    left = left.withColumn("until", F.expr("ts + INTERVAL 100 DAYS"))
    return left.join(other, F.expr("k = other_k AND other_ts BETWEEN ts AND until"))


def at_another_time(left: Frame, right: Frame) -> Frame:
    return left.join(right.select((F.col("ts") + F.expr("INTERVAL 1 DAY")).alias("ts")), "ts")


def of_windows(left: Frame, right: Frame) -> Frame:
    return hours(left).join(hours(right).select("window", "k", F.col("count").alias("n")), ["window", "k"])


def thrice(left: Frame, right: Frame) -> Frame:
    """Two event times on one side: Spark removes its rows by the first."""
    third = right.select(F.col("k").alias("third_k"), F.col("ts").alias("third_ts"))
    return pairs(left, right).join(
        third, F.expr("k = third_k AND third_ts BETWEEN other_ts AND other_ts + INTERVAL 1 DAY")
    )


ALLOWED: dict[str, Query] = {
    "windows": lambda left, right: hours(left.unionByName(right)),
    "sliding windows": lambda left, _: left.groupBy(F.window("ts", "1 hour", "20 minutes")).count(),
    "sessions": lambda left, _: left.groupBy(F.session_window("ts", "5 minutes"), "k").count(),
    "windows of windows": lambda left, _: hours(left).groupBy(F.window(F.window_time("window"), "1 day")).count(),
    "times": lambda left, _: left.groupBy("ts").count(),
    "another name": lambda left, _: left.withColumnRenamed("ts", "at").groupBy(F.window("at", "1 hour")).count(),
    "deduplication": lambda left, right: left.unionByName(right).dropDuplicates(["ts", "k"]),
    "keys": lambda left, _: left.dropDuplicates(["k"]),
    "pairs": pairs,
    "windows of pairs": lambda left, right: hours(pairs(left, right)),
    "windows of pairs and rows without": lambda left, right: hours(pairs(left, right, "left")),
    "pairs of one time": lambda left, right: left.join(right.select("ts", F.col("v").alias("w")), "ts", "left"),
    "pairs of windows": of_windows,
    "rows of other times, and no state": lambda left, right: right.unionByName(shifted(left)),
    "a column more": lambda left, _: hours(left.withColumn("day", F.date_trunc("day", "ts"))),
}
JOINED = "joins two streams without bounds on the event times of both"
MADE = "computes event times of its own"
REFUSED: dict[str, tuple[Query, str]] = {
    "pairs of keys": (of_keys, JOINED),
    "windows of pairs of keys": (lambda left, right: hours(of_keys(left, right)), JOINED),
    "one bound": (after, JOINED),
    "a bound of another time": (until_another_time, JOINED),
    "equal to another time": (at_another_time, JOINED),
    "two event times": (thrice, JOINED),
    "a union": (lambda left, right: hours(right.unionByName(shifted(left))), MADE),
    "a union, its first part": (lambda left, right: hours(called_shifted(left).unionByName(right)), MADE),
    "metadata": (lambda left, _: hours(called_shifted(left)), MADE),
    "Python": (lambda left, _: hours(mapped(left)), MADE),
    "Python in a union": (lambda left, right: hours(right.unionByName(mapped(left))), MADE),
}


@pytest.fixture(scope="module")
def inputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Frame, Frame]:
    def stream(name: str) -> Frame:
        folder: Path = tmp_path_factory.mktemp(name)
        return spark.readStream.schema(DDL).parquet(str(folder)).withWatermark("ts", "3000000 days")

    return stream("left"), stream("right")


def why(query: Query, inputs: tuple[Frame, Frame], *, is_read: bool = False, **arguments: Any) -> str | None:
    return why_any_order(Task(uid="task", inputs=("left", "right"), **arguments), query(*inputs), is_read=is_read)


@pytest.mark.parametrize("name", ALLOWED)
def test_a_plan_that_makes_no_older_rows_allows_the_order_of_time(inputs: tuple[Frame, Frame], name: str) -> None:
    assert why(ALLOWED[name], inputs) is None


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_that_makes_older_rows_does_not(inputs: tuple[Frame, Frame], name: str) -> None:
    query, reason = REFUSED[name]
    assert reason in str(why(query, inputs))


def test_what_other_tasks_read_has_the_time_that_was_read_or_says_how_far_it_lags(inputs: tuple[Frame, Frame]) -> None:
    def ends(left: Frame, _: Frame) -> Frame:
        return hours(left).select(F.col("window.end").alias("ts"), "k")

    def starts(left: Frame, _: Frame) -> Frame:
        return hours(left).select(F.col("window.start").alias("ts"), "k")

    def times(left: Frame, _: Frame) -> Frame:
        return hours(left).select(F.window_time("window").alias("ts"), "k")

    in_time: list[Query] = [
        lambda left, _: left.where("v > 0"),
        lambda left, right: left.unionByName(right),
        ends,
        times,
    ]
    late: list[Query] = [lambda left, _: shifted(left), starts, pairs, lambda left, _: left.select("k")]
    for query in in_time:
        assert why(query, inputs, is_read=True, event_time="ts") is None
    for query in late:
        assert "may lag its watermark" in str(why(query, inputs, is_read=True, event_time="ts"))
        assert why(query, inputs, is_read=True, event_time="ts", watermark="9 hours") is None
        assert why(query, inputs, is_read=True) is None, "it gives no time"
        assert why(query, inputs, event_time="ts") is None, "no task reads it"
    assert JOINED in str(why(of_keys, inputs, is_read=True, event_time="ts", watermark="9 hours"))


def test_hundreds_of_columns_are_not_asked_for_one_by_one(inputs: tuple[Frame, Frame]) -> None:
    def looks(columns: int) -> int:
        """Return how many objects of the JVM a look at a plan takes."""
        left, _ = inputs
        made = left.select("ts", "k", *((F.col("v") + number).alias(f"v{number}") for number in range(columns)))
        sums = made.groupBy(F.window("ts", "1 hour"), "k").agg(*(F.sum(f"v{number}") for number in range(columns)))
        began = number_of_objects(left)
        assert why(lambda *_: sums.union(sums), inputs) is None
        return number_of_objects(left) - began

    assert looks(300) < looks(3) + 50


def number_of_objects(frame: Frame) -> int:
    """Return how many objects of the JVM Python has been handed so far: their names are numbers."""
    return int(frame._jdf.queryExecution()._target_id.removeprefix("o"))
