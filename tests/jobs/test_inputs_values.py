"""What may be in an input: event times of every kind, types of every kind, and what is refused by name."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from tests.jobs.kit import QUICK, World, at, committed, rows, until
from tests.versions import older_than

Frame = Any

KINDS = """
        select timestamp'2025-01-01 10:00:00' ts, timestamp_ntz'2025-01-01 10:00:00' ntz, 1 id, true
        `__rekindle_marker`, named_struct('A', 1, 'b c', array(named_struct('ü', 'x'))) s, array(1, null) a, map('k',
        named_struct('v', 1d)) m, cast(1.50 as decimal(10, 2)) d, date'2025-01-01' day, X'00ff' bin, cast(null as
        string) Nothing union all select null, null, 2, null, null, null, null, null, null, null, 'x' union all select
        timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 23:59:59.999999', 3, false, named_struct('A',
        2, 'b c', array()), array(), map(), 0, date'9999-12-31', X'', ''
"""


def job_of(name: str, world: World, task: Callable[..., Frame], *sources: tuple[Any, dict[str, Any]], **options: Any):
    """A job with the sources s0, s1, …"""
    job = rk.Job(name)
    inputs = [job.source(f"s{number}", spec, **arguments) for number, (spec, arguments) in enumerate(sources)]
    job.sink("out", job.task(*inputs, uid="work", **options)(task), rk.sinks.Parquet(world.root / "outs" / name))
    return job


def same(*frames: Frame) -> Frame:
    return frames[0]


def contents(frame: Frame) -> Counter[str]:
    return Counter(str(row) for row in frame.collect())


def test_times_that_are_missing_or_far_off_and_columns_of_every_type_pass_unchanged(
    spark: SparkSession, world: World
) -> None:
    def read(session: SparkSession) -> Frame:
        return session.sql(KINDS).withColumn("must", F.lit(1))  # a column that cannot be null

    batch = job_of("batch", world, same, (rk.Batch(read), {"event_time": "ts"}))
    read(spark).write.parquet(str(world.root / "in"))
    beside = job_of(
        "beside",
        world,
        lambda data, live: data.unionByName(live),
        (rk.Files(str(world.root / "in")), {"event_time": "ts"}),
        (rk.Stream(lambda session: _files(session, world)), {"event_time": "ts", "watermark": "1 hour"}),
    )
    _write_live(spark, world, read(spark))

    handle = beside.start(spark, storage=world.storage, config=QUICK)
    result = batch.start(spark, storage=world.storage).wait()
    until(lambda: handle.status().tasks[0].inputs["s0"].ended)
    until(lambda: (handle.status().tasks[0].inputs["s1"].position or {}).get("logOffset") == 0)
    handle.stop(drain=True)

    assert (result.state, handle.wait().state) == ("FINISHED", "DRAINED")
    expected = contents(read(spark))
    written = spark.read.parquet(str(world.root / "outs" / "batch"))
    assert written.columns == read(spark).columns
    assert contents(written) == expected
    assert contents(spark.read.parquet(str(world.root / "outs" / "beside"))) == expected + expected


def _files(session: SparkSession, world: World) -> Frame:
    return session.readStream.schema(session.read.parquet(str(world.root / "in")).schema).parquet(str(world.live))


def _write_live(spark: SparkSession, world: World, frame: Frame) -> None:
    frame.coalesce(1).write.mode("append").parquet(str(world.live))


def test_a_window_at_the_end_of_all_dates_comes_and_such_dates_make_nothing_late(
    spark: SparkSession, world: World
) -> None:
    far = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.timezone.utc)
    world.add_history([(far, "a", 1), (at(0), "a", 1)], rows(0, 5), rows(30, 5))

    def daily(frame: Frame) -> Frame:
        return frame.groupBy(F.window("ts", "1 day").alias("w")).agg(F.sum("v").alias("v")).select("v")

    job = job_of("far", world, daily, (rk.Files(str(world.history)), {"event_time": "ts"}))
    # One file a batch: the far date comes before the others.
    result = job.start(spark, storage=world.storage, config={"input.target_batch_duration": "1 ms"}).wait()

    assert result.error is None
    assert sorted(row["v"] for row in committed(world.root / "outs" / "far")) == [1, 5, 6]


def test_a_time_before_1970_fails_the_batch_and_nothing_of_it_is_recorded_unless_it_may_be_dropped(
    spark: SparkSession, world: World
) -> None:
    times = ["1969-12-31 23:59:59", "1970-01-01 00:00:00", "1970-01-01 00:00:00.000001", "2025-01-01 00:00:00"]
    text = " union all ".join(f"select timestamp'{time}' `the time`" for time in times) + " union all select null"

    def spec() -> rk.Batch:
        return rk.Batch(lambda session: session.sql(text).coalesce(1))

    def distinct(frame: Frame) -> Frame:
        return frame.dropDuplicates(["the time"])

    failing = (
        job_of("failing", world, same, (spec(), {"event_time": "the time"})).start(spark, storage=world.storage).wait()
    )
    dropping = (
        job_of("dropping", world, distinct, (spec(), {"event_time": "the time", "late": "drop"}))
        .start(spark, storage=world.storage)
        .wait()
    )

    assert failing.state == "FAILED" and failing.error is not None
    assert failing.error["code"] == "EVENT_TIME_BEFORE_EPOCH"
    assert failing.error["parameters"] == {"source": "s0", "column": "the time"}
    assert not list((world.root / "storage" / "failing").rglob("batches/*.json"))
    assert committed(world.root / "outs" / "failing") == []
    assert dropping.error is None
    found = [row["the time"] for row in committed(world.root / "outs" / "dropping")]
    assert sorted(str(time) for time in found) == ["1970-01-01 00:00:00.000001", "2025-01-01 00:00:00", "None"]


def test_a_time_before_1970_that_a_task_puts_out_is_to_be_filtered_in_that_task(
    spark: SparkSession, world: World
) -> None:
    job = rk.Job("putting_out")
    source = job.source("source", rk.Batch(lambda session: session.sql("select timestamp'2025-01-01 00:00:00' ts")))

    @job.task(source, event_time="ts")
    def older(frame: Frame) -> Frame:
        return frame.select(F.expr("ts - interval 100 years").alias("ts"))

    @job.task(older)
    def reading(frame: Frame) -> Frame:
        return frame

    job.sink("out", reading, rk.sinks.Parquet(world.root / "outs" / "putting_out"))
    result = job.start(spark, storage=world.storage).wait()

    assert result is not None and result.error is not None
    assert result.error["code"] == "EVENT_TIME_BEFORE_EPOCH"
    assert result.error["message"].startswith("Input 'older'")
    assert "in its function" in result.error["next_step"]


def test_a_time_after_9999_moves_no_watermark_beyond_all_other_rows(spark: SparkSession, world: World) -> None:
    days = ["date'2025-01-01'", "date'2025-01-02'", "date'9999-12-31'"]
    text = " union all ".join(f"select cast({day} as timestamp) ts" for day in days)
    text += " union all select timestamp_seconds(1735689600000) ts"  # milliseconds

    def job(name: str, **options: str) -> Any:
        source = (rk.Batch(lambda session: session.sql(text).repartition(4)), {"event_time": "ts", **options})
        return job_of(name, world, lambda frame: frame.groupBy(F.window("ts", "1 day")).count(), source)

    failing = job("failing").start(spark, storage=world.storage).wait()
    dropping = job("dropping", late="drop").start(spark, storage=world.storage).wait()

    assert failing.error is not None and failing.error["code"] == "EVENT_TIME_AFTER_9999"
    assert dropping.error is None
    assert [row["count"] for row in committed(world.root / "outs" / "dropping")] == [1, 1, 1]


def test_a_row_of_an_outer_join_that_never_comes_for_want_of_a_time_is_reported(
    spark: SparkSession, world: World
) -> None:
    world.add_history([(None, "a", 1), (at(0), "a", 1), (at(0), "b", 1)])

    def outer(left: Frame, right: Frame) -> Frame:
        right = right.filter("k = 'a'").select(F.col("ts").alias("t"), F.col("k").alias("l"))
        return left.join(right, F.expr("k = l and t >= ts and t <= ts + interval 1 hour"), "leftOuter").select("k", "l")

    source = (rk.Files(str(world.history)), {"event_time": "ts"})
    result = job_of("outer", world, outer, source, source).start(spark, storage=world.storage).wait()

    assert sorted(row["k"] for row in committed(world.root / "outs" / "outer")) == ["a", "b"]
    assert len(result.notes) == 1 and "rows stay in its state forever" in result.notes[0]


@pytest.mark.since("4.0")
def test_totals_within_each_window_come_out(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 4, "ab"))

    def totals(frame: Frame) -> Frame:
        timed = frame.withColumn("w", F.window("ts", "1 hour"))
        return timed.groupingSets([["w", "k"], ["w"]], "w", "k").agg(F.sum("v").alias("v"))

    job = job_of("totals", world, totals, (rk.Files(str(world.history)), {"event_time": "ts"}))
    result = job.start(spark, storage=world.storage).wait()

    assert result.error is None and not result.notes
    found = [(row["k"], row["v"]) for row in committed(world.root / "outs" / "totals")]
    assert Counter(found) == Counter([("a", 2), ("b", 2), (None, 4)])


@pytest.mark.usefixtures("one_file_a_batch")
def test_a_function_is_called_once_for_each_window_that_has_closed(spark: SparkSession, world: World) -> None:
    world.add_history(*(rows(hour, 5, "aab" if hour % 2 else "b") for hour in (0, 1, 0, 2, 1, 3)))

    def best(group: Any) -> Any:
        first = group.sort_values(["count", "k"], ascending=False).head(1)
        return first.assign(n=len(group))[["k", "count", "n"]]

    def best_of_each_hour(frame: Frame) -> Frame:
        counted = frame.groupBy(F.window("ts", "1 hour"), "k").count()
        return counted.groupBy("window").applyInPandas(best, "k string, count long, n long")

    found = {}
    for mode in ("streaming", "batch"):
        job = job_of(mode, world, best_of_each_hour, (rk.Files(str(world.history)), {"event_time": "ts"}))
        result = job.start(spark, storage=world.storage, mode=mode).wait()
        assert (result.state, result.notes) == ("FINISHED", ())
        written = committed(world.root / "outs" / mode)
        found[mode] = sorted((row["k"], row["count"], row["n"]) for row in written)

    assert found["streaming"] == found["batch"] and len(found["batch"]) == 4


@pytest.mark.slow
def test_rows_without_a_time_come_out_of_what_waits_for_no_time_and_of_batch_runs(
    spark: SparkSession, world: World
) -> None:
    world.add_history([(None, "a", 1), (None, "a", 1), (None, "b", 2), (at(0), "c", 3)])

    def job(name: str) -> rk.Job:
        made = rk.Job(name)
        source = made.source("s", rk.Files(str(world.history)), event_time="ts")
        twins = made.source("t", rk.Files(str(world.history)), event_time="ts")

        def add(uid: str, *inputs: Any) -> Callable[[Any], Any]:
            def added(function: Any) -> Any:
                task = made.task(*inputs, uid=uid)(function)
                made.sink(f"{uid}_out", task, rk.sinks.Parquet(str(world.root / name / uid)))
                return task

            return added

        add("filtered", source)(lambda s: s.filter("k < 'b'").select("k"))
        add("distinct", source)(lambda s: s.dropDuplicates(["ts", "k"]).select("k"))
        add("window", source)(lambda s: s.groupBy(F.window("ts", "1 hour"), "k").count().select("k"))
        add("matched", source, twins)(
            lambda s, t: s.join(t.selectExpr("k AS l", "ts AS u").filter("l = 'b'"), F.expr("k = l")).select("k")
        )
        add("by_time", source)(lambda s: s.groupBy("ts").count().selectExpr("string(count) AS k"))
        return made

    stream = job("stream").start(spark, storage=world.storage).wait()
    batch = job("batch").start(spark, storage=world.storage, mode="batch").wait()

    assert (stream.state, batch.state) == ("FINISHED", "FINISHED")

    def came(name: str, uid: str) -> list[str]:
        return sorted(row["k"] for row in committed(world.root / name / uid))

    for uid, keys in {"filtered": "aa", "distinct": "abc", "window": "c", "matched": "b"}.items():
        assert came("stream", uid) == came("batch", uid) == list(keys), uid
    assert came("batch", "by_time") == ["1", "3"] and came("stream", "by_time") == ["1"]
    assert [note for note in stream.notes if note.startswith("by_time: 1 rows stay")]


def _code(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(DefinitionError) as error:
        call()
    return error.value.code, f"{error.value.message} {error.value.next_step}"


def test_what_cannot_go_well_is_refused_before_anything_runs_with_what_to_do(spark: SparkSession, world: World) -> None:
    world.add_history(rows(0, 2))
    history, files = str(world.history), rk.Files(str(world.history))
    stream, timed, live = world.stream(), {"event_time": "ts"}, {"event_time": "ts", "watermark": "1 hour"}

    def hours(frame: Frame) -> Frame:
        return frame.groupBy(F.window("ts", "1 hour")).count()

    def watermarked(frame: Frame) -> Frame:
        return hours(frame.withWatermark("ts", "1 hour"))

    def once(frame: Frame) -> Frame:
        return frame.dropDuplicatesWithinWatermark(["k"])

    def first(group: Any) -> Any:
        return group[["k"]].head(1)

    cases: dict[str, tuple[str, Callable[..., Frame], list[tuple[Any, dict[str, Any]]]]] = {
        "own-watermark": ("WATERMARK_IN_TASK", watermarked, [(files, timed)]),
        "own-watermark-live": ("WATERMARK_IN_TASK", watermarked, [(stream, live)]),
        "watermark-above-join": (
            "WATERMARK_IN_TASK",
            lambda left, right: watermarked(left.join(right.select("k"), "k")),
            [(files, timed), (files, {})],
        ),
        "watermark-in-transform": (
            "WATERMARK_IN_SOURCE",
            same,
            [(rk.Files(history, transform=lambda frame: frame.withWatermark("ts", "1 hour")), timed)],
        ),
        "window-without-time": ("EVENT_TIME_UNDECLARED", hours, [(files, {})]),
        "cube": ("TOTALS_NEVER_END", lambda frame: frame.cube(F.window("ts", "1 hour"), "k").count(), [(files, timed)]),
        "rollup": ("TOTALS_NEVER_END", lambda frame: frame.rollup("ts", "k").count(), [(stream, live)]),
        "groups-in-pandas": (
            "GROUPS_CUT_BY_BATCHES",
            lambda frame: frame.groupBy("k").applyInPandas(lambda group: group, frame.schema),
            [(files, timed)],
        ),
        "groups-in-arrow": (
            "GROUPS_CUT_BY_BATCHES",
            lambda frame: frame.groupBy(F.window("ts", "1 hour")).applyInArrow(lambda group: group, frame.schema),
            [(stream, live)],
        ),
        "groups-of-two": (
            "GROUPS_CUT_BY_BATCHES",
            lambda frame: (
                frame.groupBy("k").cogroup(frame.groupBy("k")).applyInPandas(lambda one, other: one, frame.schema)
            ),
            [(files, timed)],
        ),
        "groups-of-windows-by-another-column": (
            "GROUPS_CUT_BY_BATCHES",
            lambda frame: (
                frame.groupBy(F.window("ts", "1 hour"), "k").count().groupBy("k").applyInPandas(first, "k string")
            ),
            [(files, timed)],
        ),
        "session-filter": (
            "SESSION_FILTER_MOVED",
            lambda frame: frame.groupBy(F.session_window("ts", "1 hour")).count().where("session_window.end > '2025'"),
            [(files, timed)],
        ),
        "deduplication": ("DEDUPLICATION_UNSUPPORTED", once, [(files, timed)]),
        "no-such-column": ("EVENT_TIME_MISSING", same, [(files, {"event_time": "TS"})]),
        "not-a-time": ("EVENT_TIME_TYPE", same, [(files, {"event_time": "v"})]),
        "time-without-zone": ("EVENT_TIME_TYPE", same, [(rk.Batch(lambda s: s.sql(KINDS)), {"event_time": "ntz"})]),
        "batch-in-stream": ("SOURCE_NOT_STREAMING", same, [(rk.Stream(lambda s: s.read.parquet(history)), {})]),
        "stream-in-batch": ("SOURCE_NOT_BATCH", same, [(rk.Batch(stream.read), {})]),
        "no-frame": ("SOURCE_FUNCTION_FAILED", same, [(rk.Batch(lambda s: None), {})]),  # type: ignore[arg-type]
        "no-frame-live": ("SOURCE_FUNCTION_FAILED", same, [(rk.Stream(lambda s: {}["x"]), {})]),
        "bad-transform": ("SOURCE_FUNCTION_FAILED", same, [(rk.Files(history, transform=lambda f: f.select("x")), {})]),
        "no-such-format": (
            "CONNECTOR_MISSING",
            same,
            [(rk.Stream(lambda s: s.readStream.format("nowhere").load()), {})],
        ),
        "no-such-format-in-task": (
            "CONNECTOR_MISSING",
            lambda frame: frame.join(spark.read.format("nowhere").load(), "k"),
            [(files, {})],
        ),
        "failing-batch": (
            "SOURCE_FUNCTION_FAILED",
            same,
            [(rk.Batch(lambda s: s.range(1).selectExpr("raise_error('no luck')")), {})],
        ),
        "batch-task": ("TASK_BATCH_FRAME", lambda _: spark.range(1), [(files, {})]),
        "no-task": ("TASK_BATCH_FRAME", lambda _: None, [(files, {})]),
        "bad-task": ("TASK_FUNCTION_FAILED", lambda frame: frame.select("x"), [(files, {})]),
    }
    if older_than("4.0"):
        del cases["groups-in-arrow"]  # it has no applyInArrow
    found = {}
    for name, (_, task, sources) in cases.items():
        job = job_of(name, world, task, *sources)
        found[name] = _code(lambda job=job: job.start(spark, storage=world.storage))

    assert {name: code for name, (code, _) in found.items()} == {name: case[0] for name, case in cases.items()}
    assert "job.source(..., event_time='ts', watermark=...)" in found["own-watermark"][1]
    assert "no luck" in found["failing-batch"][1]
    for name in ("no-frame-live", "bad-transform", "bad-task"):
        assert re.search(r" \(line [1-9]\d*\) ", found[name][1]), found[name]
    assert "F.col('ntz').cast('timestamp')" in found["time-without-zone"][1]
    # Spark refuses some plans when the query starts.
    refused = job_of("refused", world, lambda frame: frame.orderBy("ts"), (files, timed))
    result = refused.start(spark, storage=world.storage).wait()
    assert result.error is not None and result.error["code"] == "QUERY_REFUSED"


def test_an_input_without_event_time_is_left_to_the_task_watermark_and_all(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 60), rows(2, 60))
    world.add_history(rows(0, 1))

    def hours(live: Frame) -> Frame:
        counted = live.withWatermark("ts", "1 minute").groupBy(F.window("ts", "1 hour")).count().select("count")
        return counted.crossJoin(live.sparkSession.read.parquet(str(world.history)).select("k"))

    job = job_of("left", world, hours, (world.stream(), {}))
    handle = job.start(spark, storage=world.storage, config=QUICK)
    until(lambda: (handle.status().tasks[0].inputs["s0"].position or {}).get("logOffset") == 1)
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert [(row["count"], row["k"]) for row in committed(world.root / "outs" / "left")] == [(60, "a")] * 2
