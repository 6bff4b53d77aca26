"""Whole jobs under the harness for users' tests: rows, time, stops and crashes in the test's hand."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pytest

import rekindle as rk
from rekindle.testing.harness import JobHarness
from rekindle.testing.harness.fixtures import MakeHarness
from tests.waiting import until

pytestmark = pytest.mark.spark

BIDS = "ts timestamp, auction long"


def at(hour: float) -> dt.datetime:
    return dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(hours=hour)


def bid(hour: float, auction: int = 7) -> dict[str, Any]:
    return {"ts": at(hour), "auction": auction}


def nowhere(spark: Any) -> Any:
    raise AssertionError("the job's own source is never read")


def windows(frame: Any) -> Any:
    from pyspark.sql import functions as F

    return frame.groupBy(F.window("ts", "1 hour"), "auction").agg(F.count("*").alias("bids"))


def hourly(name: str = "hourly", *, idle_after: str | None = None, other: bool = False) -> rk.Job:
    """Bids per hour, in two tasks: one cleans, the next counts."""
    job = rk.Job(name)
    sources = [job.source("live", rk.Stream(nowhere), event_time="ts", watermark="0 seconds", idle_after=idle_after)]
    if other:
        sources.append(job.source("other", rk.Stream(nowhere), event_time="ts", watermark="0 seconds"))

    @job.task(*sources, uid="clean", event_time="ts", watermark="0 seconds")
    def clean(*frames: Any) -> Any:
        union = frames[0]
        for frame in frames[1:]:
            union = union.unionByName(frame)
        return union.filter("auction > 0")

    @job.task(clean, uid="count")
    def count(cleaned: Any) -> Any:
        return windows(cleaned)

    job.sink("out", count, rk.sinks.Parquet("/nowhere/out"))
    return job


def found(test: JobHarness) -> Counter[tuple[dt.datetime, int, int]]:
    return Counter((row["window"]["start"], row["auction"], row["bids"]) for row in test.rows("out"))


def test_a_job_lives_through_everything_and_each_row_is_committed_once(job_harness: MakeHarness) -> None:
    test = job_harness(hourly(), schemas={"live": BIDS})
    test.add("live", [bid(0.1), bid(0.2), bid(0.3, -1)])
    test.start()
    test.add("live", [bid(1.1)])
    test.checkpoint()
    assert test.rows("out") == []
    test.advance_event_time("live", at(1.2))
    test.settle()
    assert test.rows("out") == []
    test.checkpoint()
    first = {(at(0), 7, 2): 1}
    assert found(test) == first

    # its driver dies while rows are visible that it does not know of
    test.advance_event_time("live", at(2))
    with test.crash_at("sink.commit/after"):
        test.checkpoint()
    with pytest.raises(RuntimeError, match="start"):
        test.checkpoint()
    test.start()
    test.checkpoint()
    second = first | {(at(1), 7, 1): 1}
    assert found(test) == second
    assert [row["window"]["start"] for row in test.new_rows("out", order_by=["window"])] == [at(0), at(1)]

    # it is stopped, and another version of it goes on
    saved = test.checkpoints()[0]
    test.add("live", [bid(2.5, 8), bid(2.6)])
    assert test.stop().state == "STOPPED"
    test.start(hourly())
    test.fail_at("record.create/before")
    test.add("live", [bid(3.0)])
    test.advance_event_time("live", at(3))
    test.advance(seconds=30)  # a checkpoint is due, without being asked for
    third = second | {(at(2), 8, 1): 1, (at(2), 7, 1): 1}
    assert found(test) == third
    assert test.status().restarts == 1

    test.crash()
    test.start()
    assert test.drain().state == "DRAINED"
    assert found(test) == third | {(at(3), 7, 1): 1}
    assert len(test.new_rows("out")) == 3 and test.new_rows("out") == []

    # a checkpoint from before all that is still there to be started from
    assert saved.number < test.checkpoints()[0].number


def test_time_passes_when_the_test_says_so(job_harness: MakeHarness) -> None:
    test = job_harness(hourly(idle_after="5 minutes", other=True), schemas={"live": BIDS, "other": BIDS})
    test.add("other", [bid(0.5), bid(1.5), bid(2.5)])
    test.start()
    test.add("live", [bid(0.2, 9)])
    test.checkpoint()
    assert found(test) == {}, "the live stream holds the watermark back"
    taken = len(test.checkpoints())
    test.advance(minutes=4)
    assert len(test.checkpoints()) == taken, "one that would say what the newest one says is left out"
    assert found(test) == {}
    test.advance(minutes=2)
    test.advance_event_time("other", at(2.5))
    test.checkpoint()
    assert found(test) == {(at(0), 7, 1): 1, (at(0), 9, 1): 1, (at(1), 7, 1): 1}


def test_a_bounded_job_ends_by_itself_and_a_batch_run_gives_the_same(job_harness: MakeHarness) -> None:
    from pyspark.sql import functions as F

    job = rk.Job("bounded")
    history = job.source(
        "history", rk.Files("/nowhere", format="json", transform=lambda rows: rows.withColumn("n", F.lit(1)))
    )

    @job.task(history)
    def wide(rows: Any) -> Any:
        return rows.selectExpr("auction", "n", "array(ts) AS times", "map('a', ts) AS named", "struct(ts) AS one")

    job.sink("out", wide, rk.sinks.Parquet("/nowhere"))
    for mode in ("streaming", "batch"):
        test = job_harness(job)
        test.add("history", [{"ts": at(0.5), "auction": 2}])
        test.add("history", [{"ts": "2025-01-01 01:00", "auction": None}])
        test.start(mode=mode)
        test.settle()
        result = test.result
        assert result is not None and result.state == "FINISHED", mode
        half = at(0.5)
        assert test.rows("out", order_by=["auction"]) == [
            {"auction": None, "n": 1, "times": [at(1)], "named": {"a": at(1)}, "one": {"ts": at(1)}},
            {"auction": 2, "n": 1, "times": [half], "named": {"a": half}, "one": {"ts": half}},
        ], mode
        with pytest.raises(ValueError, match="before the start"):
            test.add("history", [])


def test_what_is_wrong_is_said_at_once(job_harness: MakeHarness) -> None:
    job = rk.Job("failing")
    live = job.source("live", rk.Stream(nowhere))

    @job.task(live)
    def divided(rows: Any) -> Any:
        return rows.selectExpr("assert_true(auction > 0) AS fine", "auction")

    job.sink("out", divided, rk.sinks.Parquet("/nowhere"))
    test = job_harness(job)
    with pytest.raises(ValueError, match="schemas="):
        test.start()
    test.add("live", [{"auction": 1}])
    with pytest.raises(ValueError, match="no column 'action'"):
        test.add("live", [{"action": 1}])
    with pytest.raises(ValueError, match="no source 'life'"):
        test.add("life", [])
    with pytest.raises(ValueError, match="no sink"):
        test.rows("live")
    with pytest.raises(ValueError, match="has none"):
        test.advance_event_time("live", at(1))
    test.start()
    with pytest.raises(RuntimeError, match="runs already"):
        test.start()
    with pytest.raises(ValueError, match=r"did you mean 'sink\.commit/before'"):
        test.fail_at("sink.comit/before")
    never = r"never reached drain\.create/before, but: .*manifest\.create/before"
    with pytest.raises(AssertionError, match=never), test.crash_at("drain.create/before"):
        test.checkpoint()
    test.add("live", [{"auction": -1}])
    with pytest.raises(rk.RekindleError):
        test.settle()
    assert test.result is not None and test.result.state == "FAILED"
    assert test.rows("out") == [{"fine": None, "auction": 1}]


class Service(rk.SplitSource):
    schema = BIDS
    bounded = False

    def splits(self) -> list[str]:
        raise AssertionError("the job's own source is never asked")

    def read(self, spark: Any, split: Any, position: Any) -> Any:
        raise AssertionError("the job's own source is never read")


def test_rows_stand_in_for_both_parts_of_a_history_that_is_continued(job_harness: MakeHarness) -> None:
    job = rk.Job("hybrid")
    both = rk.sources.Hybrid(rk.Files("/nowhere/old", schema=BIDS), then=Service())

    @job.task(job.source("bids", both))
    def same(frame: Any) -> Any:
        return frame

    job.sink("out", same, rk.sinks.Parquet("/nowhere/out"))
    test = job_harness(job)
    test.add("bids", [bid(1)])
    test.start()
    test.add("bids.then", [bid(2), bid(3)])
    test.checkpoint()
    assert len(test.rows("out")) == 3


def test_rows_stand_in_for_a_source_of_splits_and_come_once(job_harness: MakeHarness) -> None:
    job = rk.Job("split")

    @job.task(job.source("service", Service()), parallelism=2)
    def same(frame: Any) -> Any:
        return frame

    job.sink("out", same, rk.sinks.Parquet("/nowhere/out"))
    test = job_harness(job)
    test.start()
    test.add("service", [bid(1), bid(2)])
    test.checkpoint()
    assert Counter(row["auction"] for row in test.rows("out")) == Counter({7: 2})


def waiting(keyed: Any) -> Any:
    """A row of each key, half a second of processing time after its first."""

    def keep(key: Any, frames: Any, state: Any) -> Any:
        if state.hasTimedOut:
            import pandas as pd

            state.remove()
            yield pd.DataFrame({"auction": [key[0]]})
        elif not state.exists:
            state.update((1,))
            state.setTimeoutDuration(500)

    return keyed.applyInPandasWithState(keep, BIDS.split(", ")[1], "n long", "append", "ProcessingTimeTimeout")


def test_a_job_with_timers_of_processing_time_comes_to_rest_though_its_batches_never_end(
    job_harness: MakeHarness,
) -> None:
    job = rk.Job("waiting")
    live = job.source("live", rk.Stream(nowhere))
    first = job.task(live, uid="first")(lambda rows: waiting(rows.groupBy("auction")))
    job.sink(
        "out", job.task(first, uid="second")(lambda rows: rows.filter("auction > 0")), rk.sinks.Parquet("/nowhere")
    )
    test = job_harness(job, schemas={"live": BIDS})
    test.start()
    test.settle()
    test.add("live", [bid(0, 7)])
    test.add("live", [bid(0, 8)])
    test.checkpoint()
    assert test.status().tasks[0].inputs["live"].position == {"logOffset": 1}

    def fired(*auctions: int) -> bool:
        test.checkpoint()
        return [row["auction"] for row in test.rows("out", order_by=["auction"])] == list(auctions)

    until(lambda: fired(7, 8))
    test.add("live", [bid(0, 9)])
    test.stop()
    test.start()
    until(lambda: fired(7, 8, 9))
    assert test.drain().state == "DRAINED"
    assert test.rows("out", order_by=["auction"]) == [{"auction": 7}, {"auction": 8}, {"auction": 9}]
