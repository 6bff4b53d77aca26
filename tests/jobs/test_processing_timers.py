"""Timers and time-outs at the end of a job: no flush fires those of processing time, and each other comes once."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from tests.jobs.kit import World, committed, rows
from tests.jobs.test_processors import processor


def groups(keyed: Any) -> Any:
    def keep(key: Any, frames: Any, state: Any) -> Any:
        state.update((sum(len(frame) for frame in frames),))
        state.setTimeoutDuration(3_600_000)
        return iter(())

    return keyed.applyInPandasWithState(keep, "k string", "n long", "append", "ProcessingTimeTimeout")


def timers(keyed: Any) -> Any:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Waiting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 3_600_000)
            return iter(())

        def close(self) -> None:
            pass

    return keyed.transformWithStateInPandas(Waiting(), "k string", "Append", "ProcessingTime")


def expiring(keyed: Any) -> Any:
    made = processor(
        lambda handle: handle.getListState("seen", "n long", 3_600_000), seen=lambda of: of.seen.put([(1,)])
    )
    return keyed.transformWithState(made, "k string", "Append", "ProcessingTime")


@pytest.mark.parametrize(
    "waiting",
    [
        groups,
        pytest.param(timers, marks=pytest.mark.since("4.0")),
        pytest.param(expiring, marks=pytest.mark.since("4.1")),
    ],
)
def test_what_waits_for_processing_time_is_in_the_notes(spark: SparkSession, world: World, waiting: Any) -> None:
    world.add_history(rows(0, 9, "abc"))
    job = rk.Job("waiting")
    history = job.source("history", world.files())
    job.sink("out", job.task(history, uid="work")(lambda rows: waiting(rows.groupBy("k"))), rk.sinks.Parquet(world.out))

    result = job.start(spark, storage=world.storage, config={"state.partitions": "1"}).wait()

    assert result.state == "FINISHED" and committed(world.out) == []
    note = "work: 3 rows stay in its state (at the end no timer of processing time fires, and no value expires)"
    assert result.notes == (note,)


def test_a_time_out_that_stays_set_comes_once_at_the_end(spark: SparkSession, world: World) -> None:
    """Spark itself calls such a function in each batch again."""

    def keep(key: Any, frames: Any, state: Any) -> Any:
        import pandas as pd

        if state.hasTimedOut:
            yield pd.DataFrame({"k": [key[0]], "n": [state.get[0]]})
        else:
            state.update((sum(len(frame) for frame in frames),))
            state.setTimeoutTimestamp(1_893_456_000_000)

    world.add_history(rows(0, 9, "abc"))
    job = rk.Job("staying")
    history = job.source("history", world.files(), event_time="ts")
    work = job.task(history, uid="work")(
        lambda frame: frame.groupBy("k").applyInPandasWithState(
            keep, "k string, n long", "n long", "append", "EventTimeTimeout"
        )
    )
    job.sink("out", work, rk.sinks.Parquet(world.out))
    result = job.start(spark, storage=world.storage, config={"state.partitions": "1"}).wait()
    assert (result.state, result.notes) == ("FINISHED", ())
    assert sorted((row["k"], row["n"]) for row in committed(world.out)) == [("a", 3), ("b", 3), ("c", 3)]
