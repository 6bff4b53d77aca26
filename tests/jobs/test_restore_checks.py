"""What has finished is not started again, so a job that would feed it is refused, in place and from a checkpoint."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RestoreError
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import QUICK, World, committed, has_read, rows, until


def job(world: World, *, sinks: tuple[str, ...]) -> rk.Job:
    """A task that ends and one that does not."""
    made = rk.Job("two")
    history = made.source("history", rk.Files(str(world.history)))
    live = made.source("live", world.stream())
    ends = made.task(history, uid="ends")(lambda frame: frame)
    lasts = made.task(live, uid="lasts")(lambda frame: frame)
    for uid in sinks:
        made.sink(uid, ends, rk.sinks.Parquet(world.root / uid))
    made.sink("other", lasts, rk.sinks.Parquet(world.root / "other"))
    return made


@pytest.mark.spark
def test_a_sink_that_is_added_to_a_task_that_has_finished_is_refused_and_nothing_is_lost(
    spark: Any, tmp_path: Path
) -> None:
    world = World(tmp_path)
    world.add_history(rows(0, 30))
    world.add_live(rows(30, 30))
    start = {"storage": str(tmp_path / "state"), "config": {"checkpoint.interval": "500 ms"}}
    handle = job(world, sinks=("out",)).start(spark, **start)
    until(lambda: {task.uid: task.status for task in handle.status().tasks}.get("ends") == "closed")
    handle.stop()
    handle.wait()

    for restore in ({}, {"restore": str(handle.status().latest_checkpoint)}):
        with pytest.raises(RestoreError) as refused:
            job(world, sinks=("out", "late")).start(spark, **start, **restore)
        assert refused.value.code == "FINISHED_STATE_MIXED"
        assert "late had not finished" in str(refused.value)

    again = job(world, sinks=("out",)).start(spark, **start)
    again.stop(drain=True)
    assert again.wait().state == "DRAINED"


def test_a_union_that_was_turned_round_is_refused_in_place_and_goes_on_from_a_checkpoint(
    spark: SparkSession, world: World
) -> None:
    """Spark would go on in each source where the other one stood."""

    def job_of(turned: bool, *, given_turned: bool = False) -> rk.Job:
        job = rk.Job("unions")
        sources = job.source("history", world.files()), job.source("live", world.stream())

        @job.task(*(sources[::-1] if given_turned else sources), uid="both")
        def both(*given: Any) -> Any:
            history, live = given[::-1] if given_turned else given
            return live.unionByName(history) if turned else history.unionByName(live)

        job.sink("out", both, rk.sinks.Parquet(world.out))
        return job

    world.add_history(rows(0, 3, keys="h"))
    world.add_live(rows(0, 3, keys="l"), rows(0, 3, keys="m"))
    handle = job_of(False).start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 2))
    handle.stop()
    handle.wait()
    with pytest.raises(RestoreError) as refused:
        job_of(True).start(spark, storage=world.storage)
    assert refused.value.code == "SOURCES_MOVED"
    assert refused.value.parameters == {"task": "both", "input": "history", "before": "1", "now": "2"}

    handle = job_of(False).start(spark, storage=world.storage, config=QUICK)
    handle.stop()

    # From a checkpoint the plan is built first, and what Spark keeps is copied with the numbers that it has now.
    world.add_live(rows(0, 3, keys="n"))
    last = str(JobStorage(open_store(world.storage), "unions").checkpoints()[0])
    said = job_of(True).check(spark, storage=world.storage, restore=last)
    assert (said.beginning, said.refused) == ("restores", False)
    for start in ({"restore": last}, {}):
        handle = job_of(True).start(spark, storage=world.storage, config=QUICK, **start)
        until(partial(has_read, handle, 3))
        handle.stop()
    # Where the inputs of the task are turned round as well, a start in place sees it.
    handle = job_of(False, given_turned=True).start(spark, storage=world.storage, config=QUICK)
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert sorted(row["k"] for row in committed(world.out)) == sorted("hhhlllmmmnnn")


def test_other_windows_over_old_state_are_refused_and_the_same_ones_go_on(spark: SparkSession, world: World) -> None:
    """Resumed in place and restored elsewhere; a query that has changed in another way is Spark's to judge."""
    world.add_live(rows(0, 90))

    def job_of(window: Any, *columns: str) -> rk.Job:
        job = rk.Job("windows")
        live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")

        @job.task(live)
        def count(live: Any) -> Any:
            counted = live.filter("v >= 0") if columns else live
            return counted.groupBy(window, "k").agg(F.count("*").alias("n"))

        job.sink("count", count, rk.sinks.Parquet(world.out))
        return job

    hourly = F.window("ts", "1 hour")
    handle = job_of(hourly).start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    savepoint = handle.stop(savepoint=str(world.root / "savepoints")).savepoint
    handle.wait()

    others = [
        F.window("ts", "2 hours"),
        F.window("ts", "1 hour", "30 minutes"),
        F.window("ts", "1 hour", None, "5 minutes"),
    ]
    for window in others:
        with pytest.raises(RestoreError) as resumed:
            job_of(window).start(spark, storage=world.storage)
        assert resumed.value.code == "STATE_WINDOWS_CHANGED"
        assert resumed.value.parameters["before"] == "3600 seconds"
    with pytest.raises(RestoreError) as restored:
        job_of(others[0]).start(spark, storage=str(world.root / "elsewhere"), restore=savepoint)
    assert restored.value.parameters == {"task": "count", "before": "3600 seconds", "now": "7200 seconds"}

    world.add_live(rows(2, 90))
    handle = job_of(hourly, "filtered").start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    assert {row["n"] for row in committed(world.out)} == {10, 20}


def test_other_aggregates_over_old_state_are_refused_and_the_same_ones_go_on(spark: SparkSession, world: World) -> None:
    """Each is of the types that the state has, so Spark accepts it and goes on from the wrong values."""
    world.add_live(rows(0, 90))

    def job_of(keys: tuple[str, ...], *aggregates: Any) -> rk.Job:
        job = rk.Job("aggregates")
        live = job.source("live", world.stream(), event_time="ts", watermark="4 seconds")

        @job.task(live)
        def count(live: Any) -> Any:
            named = live.withColumn("j", F.concat("k", F.lit("!")))
            return named.groupBy(F.window("ts", "1 hour"), *keys).agg(*aggregates)

        job.sink("count", count, rk.sinks.Parquet(world.out))
        return job

    def start(job: rk.Job, **options: Any) -> rk.JobHandle:
        return job.start(spark, config=QUICK, **{"storage": world.storage, **options})

    total, most = F.sum("v").alias("total"), F.max("v").alias("most")
    handle = start(job_of(("k", "j"), total, most))
    until(lambda: has_read(handle, 1))
    savepoint = handle.stop(savepoint=str(world.root / "savepoints")).savepoint
    handle.wait()

    others = [
        job_of(("k", "j"), total, F.min("v").alias("most")),
        job_of(("k", "j"), most, total),
        job_of(("j", "k"), total, most),
    ]
    for other in others:
        with pytest.raises(RestoreError) as resumed:
            start(other)
        assert resumed.value.code == "STATE_AGGREGATES_CHANGED"
        assert resumed.value.parameters["before"] == "by window, by k, by j, sum(v), max(v)"
    with pytest.raises(RestoreError) as restored:
        start(others[0], storage=str(world.root / "elsewhere"), restore=savepoint)
    assert restored.value.parameters["now"] == "by window, by k, by j, sum(v), min(v)"

    # Asked for twice, and under other names: the state is the same.
    world.add_live(rows(2, 90))
    handle = start(job_of(("k", "j"), (F.sum("v") + F.max("v")).alias("both"), F.sum("v").alias("total")))
    until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    # The first start may have put out its first window already.
    found = [row for row in committed(world.out) if "both" in row]
    assert found and all(row["both"] > row["total"] for row in found)


def test_other_operators_with_state_are_refused_and_the_same_ones_go_on(spark: SparkSession, world: World) -> None:
    """Spark 3.5 accepts some of them and loses state, later ones refuse them when the job has begun."""
    queries: dict[str, Callable[[Any], Any]] = {
        "none": lambda live: live.select("k", F.lit(1).alias("count")),
        "deduplication": lambda live: live.dropDuplicates(["k", "ts"]).select("k", F.lit(1).alias("count")),
        "aggregate": lambda live: live.groupBy("k").count(),
        "aggregate, deduplication": lambda live: live.dropDuplicates(["k", "ts"]).groupBy("k").count(),
        "join": lambda live: live.join(live.select("k", "ts"), ["k", "ts"]).select("k", F.lit(1).alias("count")),
    }

    def job_of(counts: str, copies: str = "none") -> rk.Job:
        job = rk.Job("operators")
        live = job.source("live", world.stream(), event_time="ts", watermark="1 hour")
        for uid, kinds in (("counts", counts), ("copies", copies)):
            mode: Literal["append", "update"] = "append" if "join" in kinds else "update"
            task = job.task(live, uid=uid, output_mode=mode)(queries[kinds])
            job.sink(f"{uid}_out", task, rk.sinks.Foreach(partial(counted, uid)))
        return job

    def start(job: rk.Job, **options: Any) -> rk.JobHandle:
        return job.start(spark, config=QUICK, **{"storage": world.storage, **options})

    def counted(uid: str, frame: Any, batch: Any) -> None:
        for row in frame.collect():
            found[uid][row["k"]] = row["count"]

    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kept = "aggregate, deduplication"
    world.add_live(rows(0, 9), rows(0, 9))
    handle = start(job_of(kept))
    until(lambda: found["counts"].total() == 9)
    savepoint = handle.stop(savepoint=str(world.root / "savepoints")).savepoint

    for now in sorted(queries.keys() - {kept}):
        with pytest.raises(RestoreError) as refused:
            start(job_of(now))
        assert refused.value.code == "STATE_OPERATORS_CHANGED"
        assert refused.value.parameters == {"task": "counts", "before": kept, "now": now}
    (said,) = (one for one in job_of("none").check(spark, storage=world.storage).tasks if one.uid == "counts")
    assert said.refused is not None and said.refused["code"] == "STATE_OPERATORS_CHANGED"
    for now, place in (("aggregate", {}), ("join", {"storage": str(world.root / "elsewhere"), "restore": savepoint})):
        with pytest.raises(RestoreError) as refused:
            start(job_of(kept, now), **place)
        assert refused.value.parameters == {"task": "copies", "before": "none", "now": now}

    world.add_live(rows(0, 3), rows(0.2, 3))
    handle = start(job_of(kept))
    until(lambda: found["counts"].total() == 12)
    handle.stop()
