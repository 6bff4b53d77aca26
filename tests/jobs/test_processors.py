"""Processors of transformWithState that Spark refuses in each attempt, and timers that set timers beside windows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.spark.query.flush import END_OF_TIME_MS
from tests.jobs.kit import QUICK, START, UTC, World, committed, has_read, rows, until

pytestmark = pytest.mark.since("4.1")

MINUTE_MS = 60_000
Frame = Any


def processor(
    make: Callable[[Any], Any],
    fired: Callable[[Any, Any, int], Any] | None = None,
    seen: Callable[[Any], None] = lambda of: None,
) -> Any:
    """A processor with one variable; each key's first row sets a timer, if there is something to do when it fires."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle, self.seen = handle, make(handle)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            seen(self)
            if fired is not None and not list(self.handle.listTimers()):
                self.handle.registerTimer(round(START.timestamp() * 1000) + 10 * MINUTE_MS)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            assert fired is not None
            return fired(self, key, expiredTimerInfo.getExpiryTimeInMs())

        def close(self) -> None:
            pass

    return Processor()


def number(handle: Any) -> Any:
    return handle.getValueState("seen", "n long")


def relayed(of: Any, key: Any, at_ms: int) -> Any:
    """Three timers in a row, each of which emits a row of its time."""
    fired = of.seen.get()[0] if of.seen.exists() else 0
    of.seen.update((fired + 1,))
    if fired < 2:
        of.handle.registerTimer(at_ms + MINUTE_MS)
    yield Row(k=key[0], t=dt.datetime.fromtimestamp(at_ms / 1000, UTC))


def relays(frame: Frame, **more: Any) -> Frame:
    keyed = frame.groupBy("k")
    return keyed.transformWithState(processor(number, relayed), "k string, t timestamp", "append", "eventTime", **more)


def counted(frame: Frame) -> Frame:
    return frame.groupBy(F.window("t", "1 hour"), "k").count()


def test_timers_that_set_timers_below_windows_are_refused_in_one_task_and_fire_in_two(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 9, "abc"))
    one = rk.Job("one")
    history = one.source("history", world.files(), event_time="ts")
    both = one.task(history, uid="both")(lambda frame: counted(relays(frame, eventTimeColumnName="t")))
    one.sink("out", both, rk.sinks.Parquet(world.root / "one"))
    failed = one.start(spark, storage=world.storage, config=QUICK).wait()
    assert failed.error is not None and failed.error["code"] == "ROWS_BEFORE_WATERMARK", failed.error
    assert "let another task read the rows" in failed.error["next_step"]

    two = rk.Job("two")
    history = two.source("history", world.files(), event_time="ts")
    first = two.task(history, uid="first", event_time="t")(relays)
    two.sink("out", two.task(first, uid="second")(counted), rk.sinks.Parquet(world.out))
    assert two.start(spark, storage=world.storage, config=QUICK).wait().state == "FINISHED"
    assert sorted((row["k"], row["count"]) for row in committed(world.out)) == [("a", 3), ("b", 3), ("c", 3)]


def test_a_timer_after_the_end_of_time_is_in_the_notes(spark: SparkSession, world: World) -> None:
    def again(of: Any, key: Any, at_ms: int) -> Any:
        """Look again a minute later, counted from the watermark: at the end it is that of the end of time."""
        of.handle.registerTimer(END_OF_TIME_MS + MINUTE_MS)
        return iter(())

    world.add_history(rows(0, 9, "abc"))
    job = rk.Job("again")
    history = job.source("history", world.files(), event_time="ts")
    work = job.task(history, uid="work")(
        lambda frame: frame.groupBy("k").transformWithState(processor(number, again), "k string", "append", "eventTime")
    )
    job.sink("out", work, rk.sinks.Parquet(world.out))
    result = job.start(spark, storage=world.storage, config=QUICK).wait()
    note = "work: 3 timers never fire (they are after the end of the year 9999)"
    assert (result.state, result.notes) == ("FINISHED", (note,))


REFUSED = {
    "a time to live without processing time": ("k", lambda handle: handle.getValueState("seen", "n long", 1000)),
    "a name that is Spark's": ("k", lambda handle: handle.getValueState("$seen", "n long")),
    "a key whose name Avro does not have": ("c d", number),
    "a type that Avro does not have": ("k", lambda handle: handle.getValueState("seen", "n interval day to second")),
}


@pytest.mark.parametrize(("key", "make"), REFUSED.values(), ids=REFUSED)
def test_a_processor_that_spark_refuses_is_not_tried_again(
    spark: SparkSession, world: World, key: str, make: Callable[[Any], Any]
) -> None:
    def work(frame: Frame) -> Frame:
        keyed = frame.withColumn("c d", F.col("k")).groupBy(key)
        return keyed.transformWithState(processor(make), "k string", "append", "eventTime")

    world.add_history(rows(0, 3))
    job = rk.Job("refused")
    history = job.source("history", world.files(), event_time="ts")
    job.sink("out", job.task(history, uid="work")(work), rk.sinks.Parquet(world.out))
    failed = job.start(spark, storage=world.storage, config={**QUICK, "restart.attempts": "1"}).wait()
    assert failed.error is not None and failed.error["code"] == "QUERY_REFUSED", failed.error


def test_a_variable_of_another_kind_is_another_state_and_one_of_another_name_is_shown_before(
    spark: SparkSession, world: World
) -> None:
    def made(make: Callable[[Any], Any]) -> rk.Job:
        job = rk.Job("changed")
        live = job.source("live", world.stream(), event_time="ts", watermark="1 hour")
        work = job.task(live, uid="work")(
            lambda frame: frame.groupBy("k").transformWithState(processor(make), "k string", "append", "eventTime")
        )
        job.sink("out", work, rk.sinks.Parquet(world.out))
        return job

    def start(make: Callable[[Any], Any]) -> rk.JobHandle:
        world.add_live(rows(0, 3))
        return made(make).start(spark, storage=world.storage, config={**QUICK, "restart.attempts": "1"})

    before = start(number)
    until(lambda: has_read(before, 1))
    before.stop()
    assert made(number).check(spark, storage=world.storage).tasks[0].query == ()
    renamed = made(lambda handle: handle.getValueState("known", "n long")).check(spark, storage=world.storage)
    assert [(one.what, one.before, one.now) for one in renamed.tasks[0].query] == [
        ("the variables of a transformWithState", "seen", "known")
    ]
    failed = start(lambda handle: handle.getListState("seen", "n long")).wait()
    assert failed.error is not None and failed.error["code"] == "STATE_SCHEMA_INCOMPATIBLE", failed.error
