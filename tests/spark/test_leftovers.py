"""Which queries have something left that comes out at their end, as their plans say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from rekindle.spark.plans.leftovers import Leftovers, leftovers_of, waits_for_the_clock

Frame = Any


def _near(how: str) -> Callable[[Frame, Frame], Frame]:
    def joined(left: Frame, right: Frame) -> Frame:
        near = F.expr("k = l and u between ts and ts + interval 1 hour")
        return left.join(right.select(F.col("ts").alias("u"), F.col("k").alias("l")), near, how)

    return joined


def _hours(left: Frame, _right: Frame) -> Frame:
    return left.groupBy(F.window("ts", "1 hour"), "k").count()


def _sessions(left: Frame, _right: Frame) -> Frame:
    return left.groupBy(F.session_window("ts", "5 minutes"), "k").count()


def _own(left: Frame, _right: Frame, timeout: str = "EventTimeTimeout") -> Frame:
    return left.groupBy("k").applyInPandasWithState(
        lambda _key, _frames, _state: iter(()), "k string", "n int", "append", timeout
    )


def _beside_a_table(left: Frame, _right: Frame) -> Frame:
    table = left.sparkSession.createDataFrame([("a", 1)], "k string, n int")
    return left.join(table.groupBy("k").count().limit(1), "k", "left")


def _stateless(left: Frame, right: Frame) -> Frame:
    return left.unionByName(right).filter("k <> 'a'").select(F.explode(F.array("k")))


def _mapped(left: Frame, _right: Frame) -> Frame:
    return left.select("ts").mapInPandas(lambda frames: frames, "ts timestamp")


def _once(left: Frame, _right: Frame) -> Frame:
    return left.dropDuplicates(["ts", "k"])


def _counted_pairs(left: Frame, right: Frame) -> Frame:
    return _near("inner")(left, right).groupBy(F.window("ts", "1 hour")).count()


def _counted_once(left: Frame, right: Frame) -> Frame:
    return _hours(_once(left, right), right)


def _named(left: Frame, right: Frame) -> Frame:
    return _hours(left.join(left.sparkSession.createDataFrame([("a", 1)], "k string, n int"), "k"), right)


def _days(left: Frame, right: Frame) -> Frame:
    return _hours(left, right).groupBy(F.window(F.window_time("window"), "1 day")).count()


def _times(left: Frame, _right: Frame) -> Frame:
    """Rows without a time are a group that never closes."""
    return left.groupBy("ts").count()


def _distinct(left: Frame, _right: Frame) -> Frame:
    return left.select("k").distinct()


def _own_of_distinct(left: Frame, right: Frame) -> Frame:
    return _own(_once(left, right), right)


QUERIES: dict[str, tuple[Callable[[Frame, Frame], Frame], Leftovers]] = {
    "stateless": (_stateless, Leftovers.NONE),
    "Python": (_mapped, Leftovers.NONE),
    "inner join": (_near("inner"), Leftovers.NONE),
    "semi join": (_near("left_semi"), Leftovers.NONE),
    "deduplication": (_once, Leftovers.NONE),
    "left join": (_near("left"), Leftovers.SPARKS_OWN),
    "right join": (_near("right"), Leftovers.SPARKS_OWN),
    "full join": (_near("full"), Leftovers.SPARKS_OWN),
    "windows": (_hours, Leftovers.WINDOWS),
    "sessions": (_sessions, Leftovers.WINDOWS),
    "windows after a join": (_counted_pairs, Leftovers.SPARKS_OWN),
    "windows after deduplication": (_counted_once, Leftovers.SPARKS_OWN),
    "windows beside a table": (_named, Leftovers.WINDOWS),
    "windows of windows": (_days, Leftovers.WINDOWS),
    "times": (_times, Leftovers.SPARKS_OWN),
    "distinct": (_distinct, Leftovers.NONE),
    "processor": (_own, Leftovers.USERS_OWN),
    "processor after deduplication": (_own_of_distinct, Leftovers.USERS_OWN),
}


@pytest.mark.parametrize(("query", "expected"), QUERIES.values(), ids=QUERIES)
def test_a_plan_says_what_may_come_out_at_its_end(
    spark: Any, query: Callable[[Frame, Frame], Frame], expected: Leftovers
) -> None:
    assert leftovers_of(query(*_streams(spark))) is expected


def test_a_table_beside_a_stream_has_no_say(spark: Any) -> None:
    """But for the join itself, whose type does not say which side is the stream: it is taken for one of streams."""
    left, right = _streams(spark)
    assert leftovers_of(_beside_a_table(left, right)) is Leftovers.SPARKS_OWN
    assert leftovers_of(left.join(left.sparkSession.range(3).groupBy("id").count(), F.expr("k = id"))) is Leftovers.NONE


def test_time_outs_of_processing_time_wait_for_the_clock(spark: Any) -> None:
    left, right = _streams(spark)
    modes = ("ProcessingTimeTimeout", "EventTimeTimeout", "NoTimeout")
    assert [waits_for_the_clock(_own(left, right, mode)) for mode in modes] == [True, False, False]


@pytest.mark.since("3.5")
def test_each_value_is_remembered_within_the_watermark_only_to_leave_out_others(spark: Any) -> None:
    left, _ = _streams(spark)
    assert leftovers_of(left.dropDuplicatesWithinWatermark(["k"])) is Leftovers.NONE


def _streams(spark: Any) -> tuple[Frame, Frame]:
    def stream() -> Frame:
        rate = spark.readStream.format("rate").load()
        return rate.select(F.col("timestamp").alias("ts"), F.col("value").cast("string").alias("k")).withWatermark(
            "ts", "1 minute"
        )

    return stream(), stream()
