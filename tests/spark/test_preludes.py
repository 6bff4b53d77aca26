"""Preludes: which queries have windows that a watermark closes for good, and what an earlier run has left of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rekindle.graph.job_graph import Task
from rekindle.graph.prelude import why_streamed
from rekindle.progress.directory import read_offsets
from rekindle.spark.inputs.input import Input
from rekindle.spark.plan_text import nodes
from rekindle.spark.prelude.closing import closed
from rekindle.spark.prelude.facts import facts_of
from rekindle.spark.prelude.keeping import kept_of
from rekindle.spark.prelude.prelude import NoPrelude, Prelude
from rekindle.spark.prelude.windows import NotClosedError, windows_of
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import InputPosition, PreludeDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore
from tests.jobs.kit import DDL

Frame = Any
Query = Callable[[Frame, Frame], Frame]
FOLDER = layout.subtask("job", "sums", 0, 1)


def hours(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).groupBy(F.window("ts", "1 hour"), "k").agg(F.count("*").alias("n"))


def days(history: Frame, live: Frame) -> Frame:
    return hours(history, live).groupBy(F.window(F.window_time("window"), "1 day")).count()


def without_their_window(history: Frame, live: Frame) -> Frame:
    both = history.unionByName(live)
    both.createOrReplaceTempView("both_of_them")
    return both.sparkSession.sql("SELECT k, count(*) AS n FROM both_of_them GROUP BY window(ts, '1 hour'), k")


def apart(history: Frame, live: Frame) -> Frame:
    return hours(history, history).unionByName(hours(live, live))


def beside_rows(history: Frame, live: Frame) -> Frame:
    return hours(history, live).select("k", "n").union(live.select("k", "v"))


def of_other_times(history: Frame, live: Frame) -> Frame:
    return hours(live, history.withColumn("ts", F.expr("ts + INTERVAL 1 DAY")))


def sessions(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).groupBy(F.session_window("ts", "1 hour"), "k").count()


def by_key(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).groupBy("k").count()


def sampled(history: Frame, live: Frame) -> Frame:
    return hours(history, live.where(F.rand() < 0.5))


def of_late(history: Frame, live: Frame) -> Frame:
    return hours(history, live.where("ts > current_timestamp() - INTERVAL 1 DAY"))


def joined(history: Frame, live: Frame) -> Frame:
    return hours(history, live.join(history.select("k", F.col("ts").alias("other")), "k").select("ts", "k", "v"))


def distinct(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).dropDuplicates(["ts", "k"])


def rows(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live)


def filtered_sessions(history: Frame, live: Frame) -> Frame:
    ends = sessions(history, live).select("count", F.col("session_window.end").alias("until"))
    return ends.select("count", (F.col("until") + F.expr("INTERVAL 1 HOUR")).alias("later")).where("later > now()")


def paired(history: Frame, live: Frame) -> Frame:
    other = live.select(F.col("k").alias("other_k"), F.col("ts").alias("other_ts"))
    bounds = "other_ts BETWEEN ts - INTERVAL 1 HOUR AND ts + INTERVAL 30 MINUTES"
    return history.join(other, F.expr(f"k = other_k AND {bounds}"))


def after(history: Frame, live: Frame) -> Frame:
    other = live.select(F.col("k").alias("other_k"), F.col("ts").alias("other_ts"))
    return history.join(other, F.expr("k = other_k AND other_ts > ts"))


def unbound(history: Frame, live: Frame) -> Frame:
    return history.join(live.select("k", F.col("v").alias("w")), "k")


def outer(history: Frame, live: Frame) -> Frame:
    return history.join(live.select("ts", "k", F.col("v").alias("w")), ["ts", "k"], "left")


def with_itself(history: Frame, live: Frame) -> Frame:
    return paired(history.unionByName(live), live)


def of_chance(history: Frame, live: Frame) -> Frame:
    return paired(history.where(F.rand() < 0.5), live)


def chained(history: Frame, live: Frame) -> Frame:
    return paired(history, live).groupBy(F.window("ts", "1 hour")).count()


def of_chance_after_a_table(history: Frame, live: Frame) -> Frame:
    names = history.sparkSession.createDataFrame([("a", "Ada")], "k string, name string")
    return paired(history.join(names, "k").where(F.rand() < 0.5), live)


def equal_hours(history: Frame, live: Frame) -> Frame:
    return hours(history, live).join(hours(live, live).select("window", "k", F.col("n").alias("m")), ["window", "k"])


def chained_keys(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).dropDuplicates(["ts", "k"]).groupBy(F.window("ts", "1 hour")).count()


def hours_with_a_key(history: Frame, live: Frame) -> Frame:
    return hours(history, live).join(hours(live, live).select("k", F.col("n").alias("m")), "k")


def hours_of_a_day(history: Frame, live: Frame) -> Frame:
    left, right = (
        one.select(F.window(F.window_time("window"), "1 day").alias("day"), "k")
        for one in (hours(history, live), hours(live, live))
    )
    return left.join(right.withColumnRenamed("k", "other"), "day")


def hours_or_none(history: Frame, live: Frame) -> Frame:
    return hours(history, live).join(hours(live, live).select("window", F.col("n").alias("m")), "window", "left")


def hours_with_rows(history: Frame, live: Frame) -> Frame:
    return hours(history, live).join(live.select("k", "v"), "k")


def sampled_on_one_side(history: Frame, live: Frame) -> Frame:
    left = hours(history, live.where(F.rand() < 0.5)).select("window", F.col("n").alias("m"))
    return left.join(hours(history, live), "window")


def first_of_hours(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).select(F.window("ts", "1 hour"), "k").dropDuplicates()


def at_a_time(history: Frame, live: Frame) -> Frame:
    return history.join(live.select("ts", "k", F.col("v").alias("w")), ["ts", "k"])


def distinct_keys(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).dropDuplicates(["k"])


def within_watermark(history: Frame, live: Frame) -> Frame:
    return history.unionByName(live).dropDuplicatesWithinWatermark(["k"])


REASONS: dict[Query, str | None] = {
    hours: None,
    days: "other windows of its windows",
    without_their_window: "no window, or no event time, among the keys that it puts out",
    apart: "put together with other rows",
    beside_rows: "put together with other rows",
    of_other_times: "another time than its event time",
    sessions: None,
    filtered_sessions: "before it makes it",
    paired: None,
    after: "keeps every row of a side",
    unbound: "keeps every row of a side",
    outer: "not an inner join",
    with_itself: "in several places",
    of_chance: "chance or the time of day",
    of_chance_after_a_table: "chance or the time of day",
    equal_hours: None,
    hours_with_a_key: "something else than the window",
    hours_of_a_day: "something else than the window",
    hours_or_none: "not an inner join",
    hours_with_rows: "in no window yet",
    sampled_on_one_side: "chance or the time of day",
    chained: "in no window yet",
    chained_keys: "hand on to each other",
    distinct_keys: "remembers every row",
    within_watermark: "depends on their order",
    by_key: "no window, or no event time",
    sampled: "chance or the time of day",
    of_late: "chance or the time of day",
    joined: "in no window yet",
    distinct: None,
    rows: "it keeps no state",
}


def test_a_query_says_whether_a_watermark_closes_what_it_keeps(spark: SparkSession, tmp_path: Path) -> None:
    def stream(name: str) -> Frame:
        (tmp_path / name).mkdir()
        return spark.readStream.schema(DDL).parquet(str(tmp_path / name)).withWatermark("ts", "4 seconds")

    history, live = stream("history"), stream("live")
    inputs = [
        Input(
            uid="history", frame=history, position=InputPosition(), bounded=True, event_time="ts", spark_sources=(0,)
        ),
        Input(uid="live", frame=live, position=InputPosition(), event_time="ts", delay_ms=4_000, spark_sources=(1,)),
    ]
    found = {}
    for query in REASONS:
        task = Task(uid="task", inputs=("history", "live"))
        facts, _ = facts_of(task, query(history, live), inputs, changed_files=False)
        assert facts.has_history
        found[query] = why_streamed(facts)

    wrong = {
        query.__name__: found[query]
        for query, words in REASONS.items()
        if (found[query] is None) != (words is None) or (words or "") not in (found[query] or "")
    }
    assert wrong == {}


@pytest.mark.parametrize("said", ["delete", "archive", "OFF"])
def test_a_live_stream_that_removes_what_it_has_read_is_not_read_twice(
    spark: SparkSession, tmp_path: Path, said: str
) -> None:
    reader = spark.readStream.schema(DDL).option("CLEANsource", said).option("sourceArchiveDir", str(tmp_path / "old"))
    (tmp_path / "live").mkdir()
    live = reader.parquet(str(tmp_path / "live")).withWatermark("ts", "4 seconds")
    history = spark.readStream.schema(DDL).parquet(str(tmp_path / "live")).withWatermark("ts", "4 seconds")
    inputs = [
        Input(uid="history", frame=history, position=InputPosition(), bounded=True, event_time="ts"),
        Input(uid="live", frame=live, position=InputPosition(), event_time="ts", delay_ms=4_000),
    ]
    task = Task(uid="task", inputs=("history", "live"))
    facts, _ = facts_of(task, hours(history, live), inputs, changed_files=False)

    assert ("cleanSource" in str(why_streamed(facts))) == (said != "OFF")


@pytest.mark.parametrize(
    ("query", "reach_s"), [(hours, 3600), (paired, 3600.001), (distinct, 0), (first_of_hours, 3600), (at_a_time, 0)]
)
def test_a_query_says_how_long_before_the_watermark_a_row_is_kept(
    spark: SparkSession, tmp_path: Path, query: Query, reach_s: float
) -> None:
    one, other = (
        spark.readStream.schema(DDL).parquet(str(tmp_path)).withWatermark("ts", "4 seconds") for _ in range(2)
    )
    frame = query(one, other)
    names = frozenset(node.name for node in nodes(frame))

    assert kept_of(frame, names & {"Aggregate", "Join", "Deduplicate"}).reach_us == reach_s * 1_000_000


@pytest.mark.parametrize(
    ("gap", "seconds"),
    [
        ("'10 minutes'", 600),
        ("'1 hour 30 seconds'", 3630),
        ("'1 day'", 25 * 3600),  # of the day on which clocks are set back
        ("'1 month'", None),
        ("CASE WHEN k = 'a' THEN '10 minutes' ELSE '5 minutes' END", None),
        ("k", None),
    ],
)
def test_the_gap_of_sessions_is_known_where_it_is_the_same_for_all_rows(
    spark: SparkSession, tmp_path: Path, gap: str, seconds: int | None
) -> None:
    stream = spark.readStream.schema(DDL).parquet(str(tmp_path)).withWatermark("ts", "4 seconds")

    found = windows_of(stream.groupBy(F.session_window("ts", F.expr(gap)), "k").count())

    assert found.length_us == (None if seconds is None else seconds * 1_000_000)


@pytest.mark.parametrize(
    ("watermark_ms", "kept"), [(1, []), (300_000, [0]), (2_200_000, [0, 1]), (4_000_000_000, [0, 1, 2])]
)
def test_windows_that_a_watermark_closes_are_kept_whatever_its_number(
    spark: SparkSession, tmp_path: Path, watermark_ms: int, kept: list[int]
) -> None:
    """Numbers below 2^31, of microseconds, come to the JVM in another type than those above."""

    def windowed(frame: Frame) -> Frame:
        return frame.groupBy(F.window("ts", "5 minutes")).agg(F.max("v").alias("v"))

    stream = spark.readStream.schema(DDL).parquet(str(tmp_path)).withWatermark("ts", "4 seconds")
    seconds = ((0, 10), (1, 1_000), (2, 3_000_000))
    batch = spark.createDataFrame([(s, v) for v, s in seconds], "s long, v long").selectExpr(
        "timestamp_seconds(s) AS ts", "v"
    )

    found = closed(windowed(batch), windows_of(windowed(stream)), watermark_ms).collect()

    assert sorted(row.v for row in found) == kept


def test_a_batch_of_another_shape_than_its_stream_is_none_to_go_by(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.schema(DDL).parquet(str(tmp_path)).withWatermark("ts", "4 seconds")
    batch = spark.createDataFrame([], DDL)
    windows = windows_of(hours(stream, stream))

    for other in (hours(batch, batch).where("n > 1").select("n"), rows(batch, batch)):
        with pytest.raises(NotClosedError, match="another way"):
            closed(other, windows, 0)


@pytest.mark.parametrize("planned", [True, False])
def test_what_was_decided_and_is_not_wanted_any_more_is_undone(planned: bool) -> None:
    storage = JobStorage(MemoryStore(), "job")
    storage.create(read_layout.prelude(FOLDER), PreludeDocument(watermark_ms=5_000, attempt="1-aa", run=1))
    storage.store.create(f"{read_layout.prelude_copy(FOLDER, '1-aa', 'live')}/part.parquet", b"")
    progress_dir = layout.spark_progress_dir(FOLDER)
    if planned:
        offsets = f"v1\n{json.dumps({'batchWatermarkMs': 5_000, 'conf': {}})}\n"
        storage.store.create(f"{progress_dir}/offsets/0", offsets.encode())

    assert not NoPrelude(storage, FOLDER).begin(-1)

    assert storage.prelude(FOLDER) is None
    assert storage.store.names(read_layout.prelude_folder(FOLDER)) == []
    if planned:
        assert read_offsets(storage.store, progress_dir, 0).batch_watermark_ms == 0


def test_what_is_recorded_is_not_undone() -> None:
    storage = JobStorage(MemoryStore(), "job")
    storage.create(read_layout.prelude(FOLDER), PreludeDocument(watermark_ms=5_000, attempt="1-aa", run=1))

    assert not NoPrelude(storage, FOLDER).begin(0)

    assert storage.prelude(FOLDER) is not None


def test_a_task_that_streams_all_that_it_reads_has_none() -> None:
    nothing: Any = None
    prelude = Prelude()

    prelude.plant(nothing)
    prelude.refuse_changed_files()
    prelude.recorded(0)
    prelude.interrupt()

    assert (prelude.begin(-1), prelude.compute(nothing, 0, 0)) == (False, None)
