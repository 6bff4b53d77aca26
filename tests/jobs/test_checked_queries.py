"""`Job.check` with a session says what a start would make of each query, and neither runs nor writes anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RestoreError
from rekindle.start.previews import StartPreview, TaskPreview
from tests.jobs.kit import QUICK, World, has_read, rows, until

Query = Callable[..., Any]
COMPARED = int(pyspark.__version__.split(".")[0]) >= 4
"""Whether this Spark compares schemas before it reads the state."""


def job(world: World, query: Query, *, delay: str = "4 seconds", mode: str = "append") -> rk.Job:
    """A history and a live stream → `clean` → `kept`, whose query keeps state."""
    made = rk.Job("job")
    history = made.source("history", world.files(), event_time="ts")
    live = made.source("live", world.stream(), event_time="ts", watermark=delay)
    clean = made.task(live, uid="clean", event_time="ts")(lambda live: live.where("v > 0"))
    kept = made.task(history, live, clean, uid="kept", output_mode=mode)(query)  # type: ignore[arg-type]
    made.sink("kept", kept, rk.sinks.Foreach(lambda frame, batch: frame.collect()))
    return made


def begun(spark: SparkSession, world: World, made: rk.Job) -> str:
    """Let it read what there is, and stop it with a savepoint."""
    world.add_history(rows(0, 9))
    world.add_live(rows(1, 9))
    handle = made.start(spark, storage=world.storage, config=QUICK)
    until(lambda: all((-1 if task.batch is None else task.batch) >= 0 for task in handle.status().tasks), 120)
    handle.stop(savepoint=str(world.root / "savepoints"))
    result = handle.wait()
    assert result is not None and result.savepoint is not None, result
    return result.savepoint


def files(world: World) -> dict[str, int]:
    found = Path(world.storage).rglob("*")
    return {str(path): os.stat(path).st_mtime_ns for path in found if path.is_file()}


def looked(spark: SparkSession, world: World, made: rk.Job, **options: Any) -> StartPreview:
    before = files(world)
    said = made.check(spark, storage=world.storage, **options)
    assert files(world) == before, "it only looks"
    assert said.unseen is None
    return said


def of(said: StartPreview, uid: str) -> TaskPreview:
    return next(task for task in said.tasks if task.uid == uid)


def code(task: TaskPreview) -> str | None:
    return None if task.refused is None else task.refused["code"]


def windows(length: str, *aggregates: Any, keys: tuple[str, ...] = ("k",)) -> Query:
    def query(history: Any, live: Any, clean: Any) -> Any:
        union = history.unionByName(live).unionByName(clean)
        return union.groupBy(F.window("ts", length), *keys).agg(*aggregates)

    return query


@pytest.mark.spark
def test_each_change_of_a_query_is_found_before_the_start_that_would_meet_it(spark: SparkSession, world: World) -> None:
    total, most = F.sum("v").alias("total"), F.max("v").alias("most")
    made = job(world, windows("1 hour", total, most))
    savepoint = begun(spark, world, made)

    for options in ({}, {"restore": savepoint}):
        said = looked(spark, world, made, **options)
        assert not said.refused
        assert [(task.uid, task.fate, task.query) for task in said.tasks] == [
            ("clean", "resumes", ()), ("kept", "resumes", ())
        ]  # fmt: skip
        assert {(one.uid, one.fate) for one in said.sources} == {("history", "resumes"), ("live", "resumes")}

        other = job(world, windows("2 hours", total, most))
        assert code(of(looked(spark, world, other, **options), "kept")) == "STATE_WINDOWS_CHANGED"
        other = job(world, windows("1 hour", most, total))
        assert code(of(looked(spark, world, other, **options), "kept")) == "STATE_AGGREGATES_CHANGED"
        other = job(world, windows("1 hour", total, most, F.count("*").alias("n")))
        assert code(of(looked(spark, world, other, **options), "kept")) == (
            "STATE_SCHEMA_INCOMPATIBLE" if COMPARED else None
        )
        other = job(world, windows("1 hour", total, most, keys=("v",)))
        assert code(of(looked(spark, world, other, **options), "kept")) == (
            "STATE_SCHEMA_INCOMPATIBLE" if COMPARED else None
        )

        named = job(
            world, windows("1 hour", F.sum(F.col("v") * 2).alias("total"), most), delay="9 seconds", mode="update"
        )
        said = looked(spark, world, named, **options)
        assert not said.refused
        assert sorted(one.what.split(",")[0] for one in of(said, "kept").query) == [
            "the delay of a watermark", "the output mode", "what an aggregate"
        ]  # fmt: skip
    assert [one.what for one in of(said, "clean").query] == [], "it keeps no state"


@pytest.mark.spark
def test_a_query_that_cannot_be_built_is_refused_and_what_reads_it_is_not_looked_at(
    spark: SparkSession, world: World
) -> None:
    made = rk.Job("job")
    first = made.task(made.source("live", world.stream()), uid="first")(lambda live: live.select("nothing"))
    second = made.task(first, uid="second")(lambda first: first)
    made.sink("second", second, rk.sinks.Parquet(world.root / "second"))
    alone = made.task(made.source("other", world.stream()), uid="alone")(lambda other: other.groupBy("k").count())
    made.sink("out", alone, rk.sinks.Parquet(world.out))
    said = looked(spark, world, made)
    assert [(task.uid, code(task)) for task in said.tasks] == [
        ("first", "TASK_FUNCTION_FAILED"), ("second", None), ("alone", "QUERY_REFUSED")
    ]  # fmt: skip
    assert of(said, "second").unseen == "first, which it reads, could not be built"
    assert said.refused and not Path(world.storage).exists()


def pairs(kind: str, condition: str) -> Query:
    """Rows of the stream with rows of the other task, beside the history."""

    def query(history: Any, live: Any, clean: Any) -> Any:
        named = clean.select(F.col("k").alias("j"), F.col("ts").alias("at"))
        return live.join(named, F.expr(condition), kind).unionByName(history, allowMissingColumns=True)

    return query


@pytest.mark.spark
def test_joins_and_deduplications_are_described(spark: SparkSession, world: World) -> None:
    near = "k = j AND at BETWEEN ts AND ts + INTERVAL 1 MINUTE"
    begun(spark, world, job(world, pairs("inner", near)))
    assert of(looked(spark, world, job(world, pairs("inner", near))), "kept").query == ()
    far = near.replace("1 MINUTE", "9 MINUTES")
    said = looked(spark, world, job(world, pairs("left_outer", far)))
    assert [one.what.split(",")[0] for one in of(said, "kept").query] == [
        "the kind of a join",
        "the condition of a join",
    ]
    assert not said.refused

    def without_state(history: Any, _live: Any, clean: Any) -> Any:
        return history.unionByName(clean).unionByName(_live)

    refused = of(looked(spark, world, job(world, without_state)), "kept").refused
    assert refused is not None


@pytest.mark.spark
def test_other_columns_of_a_deduplication_are_named_and_ones_that_changed_places_refused(
    spark: SparkSession, world: World
) -> None:
    def first_of(*columns: str) -> rk.Job:
        made = rk.Job("job")
        live = made.source("live", world.stream())
        task = made.task(live, uid="kept")(
            lambda live: live.withColumn("j", F.concat("k", F.lit("!"))).dropDuplicates([*columns])
        )
        made.sink("kept", task, rk.sinks.Parquet(world.out))
        return made

    world.add_live(rows(0, 9))
    handle = first_of("k", "j").start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    handle.stop()
    handle.wait()
    assert code(of(looked(spark, world, first_of("j", "k")), "kept")) == "STATE_AGGREGATES_CHANGED"
    with pytest.raises(RestoreError) as refused:
        first_of("j", "k").start(spark, storage=world.storage, config=QUICK)
    assert refused.value.parameters["now"] == "j, k"

    made = rk.Job("job")
    renamed = made.task(made.source("live", world.stream()), uid="kept")(
        lambda live: live.select("ts", "k", "v", F.lit("x").alias("i")).dropDuplicates(["k", "i"])
    )
    made.sink("kept", renamed, rk.sinks.Parquet(world.out))
    (named,) = of(looked(spark, world, made), "kept").query
    assert (named.before, named.now) == ("k, j", "k, i")


@pytest.mark.spark
@pytest.mark.skipif(not COMPARED, reason="Spark 3.5 compares schemas when it reads the state")
def test_groups_with_state_are_compared_while_the_job_runs(spark: SparkSession, world: World) -> None:
    def grouped(state: str, key: str = "k") -> rk.Job:
        def keep(group: Any, frames: Any, kept: Any) -> Any:
            count = sum(len(frame) for frame in frames)
            kept.update((count, 0)[: state.count(" ")])
            yield pd.DataFrame({"k": [group[0]], "n": [count]})

        def query(live: Any) -> Any:
            groups = live.withColumn("j", F.upper("k")).groupBy(key)
            return groups.applyInPandasWithState(keep, "k string, n long", state, "update", "NoTimeout")

        made = rk.Job("job")
        task = made.task(made.source("live", world.stream()), uid="kept", output_mode="update")(query)
        made.sink("kept", task, rk.sinks.Foreach(lambda frame, batch: frame.collect()))
        return made

    world.add_live(rows(0, 9))
    handle = grouped("n long, m long").start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    said = grouped("n long, m long").check(spark, storage=world.storage)
    assert said.running == 1 and not said.refused and of(said, "kept").query == ()
    said = grouped("n long, m string").check(spark, storage=world.storage)
    assert code(of(said, "kept")) == "STATE_SCHEMA_INCOMPATIBLE"
    (named,) = of(grouped("n long, m long", "j").check(spark, storage=world.storage), "kept").query
    assert (named.what, named.before, named.now) == ("the keys of groups with state of their own", "k", "j")
    (named,) = of(grouped("n long, o long").check(spark, storage=world.storage), "kept").query
    assert (named.before, named.now) == ("n bigint, m bigint", "n bigint, o bigint")
    said = grouped("m long, n long").check(spark, storage=world.storage)
    assert code(of(said, "kept")) == "STATE_AGGREGATES_CHANGED"
    handle.stop()
    result = handle.wait()
    assert result is not None and result.state == "STOPPED"
