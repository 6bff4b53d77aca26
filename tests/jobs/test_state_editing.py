"""State that is edited in a savepoint: a job goes on from it, and its rows are those of a batch with these changes."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RestoreError
from rekindle.progress.stored_state import find_state
from rekindle.state_rewriting import can_rewrite
from rekindle.storage import layout
from tests.docs.test_docs import ROOT, blocks
from tests.jobs.kit import QUICK, UTC, World, at, committed, has_read, rows, until

pytestmark = pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="Spark reads state since 4.0")

A = 1
"""The auction that rows with the key a belong to; it is named on the page."""


def job_of(world: World, name: str = "edited") -> rk.Job:
    """Bids of each hour and auction, none counted twice; no window closes before the end."""
    job = rk.Job(name)
    live = job.source("live", world.stream(), event_time="ts", watermark="100 days")

    @job.task(live, uid="hourly")
    def hourly(frame: Any) -> Any:
        rows = frame.dropDuplicates(["ts", "k"]).withColumn("auction", (F.ascii("k") + A - ord("a")).cast("long"))
        found = rows.groupBy(F.window("ts", "1 hour"), "auction").agg(
            F.count("*").alias("bids"), F.sum("v"), F.avg("v")
        )
        return found.toDF("window", "auction", "bids", "sum", "mean")

    job.sink("out", hourly, rk.sinks.Parquet(world.out))
    return job


def bids(data: Any) -> Counter[tuple[dt.datetime, int]]:
    """What a batch counts of each hour and auction."""
    return Counter(
        (ts.replace(minute=0, second=0, microsecond=0), ord(key) - ord("a") + A) for ts, key in dict.fromkeys(data)
    )


def operator_of(path: str, name: str) -> int:
    return next(one.number for one in find_state(path).task("hourly").operators() if one.name == name)


def refusal(path: Any, task: str | None, world: World, spark: SparkSession, fn: Any = None, operator: int = 0) -> str:
    with pytest.raises(RestoreError) as refused:
        rk.rewrite_state(
            path, task, fn or (lambda state: state), spark=spark, target=world.root / "no", operator=operator
        )
    return refused.value.code


def test_a_job_goes_on_from_edited_state_and_its_rows_are_those_of_a_batch(spark: SparkSession, world: World) -> None:
    world.add_live(rows(0, 90))
    handle = job_of(world).start(spark, storage=world.storage, config=QUICK)
    until(lambda: has_read(handle, 1))
    handle.stop(savepoint=str(world.root / "saves"))
    result = handle.wait()
    saved = result.savepoint
    assert saved is not None and result.checkpoint is not None
    operator = operator_of(saved, "stateStoreSave")

    checkpoint = f"{world.storage}/{layout.checkpoint('edited', result.checkpoint)}"
    assert refusal(checkpoint, "hourly", world, spark) == "SAVEPOINT_NEEDED"
    assert refusal(Path(saved, "tasks/hourly/0/spark"), None, world, spark) == "SAVEPOINT_NEEDED", "it is of no job"
    assert refusal(saved, "nothing", world, spark) == "STATE_TASK_UNKNOWN"
    assert refusal(saved, "hourly", world, spark, operator=9) == "STATE_OPERATOR_UNKNOWN"
    if not can_rewrite(spark):
        assert refusal(saved, "hourly", world, spark) == "STATE_REWRITE_UNSUPPORTED"
        pytest.skip("this Spark cannot write state")
    assert refusal(saved, "hourly", world, spark, lambda state: None) == "STATE_REWRITE_REFUSED"
    with pytest.raises(ZeroDivisionError):
        rk.rewrite_state(saved, "hourly", lambda state: 1 // 0, spark=spark, target=world.root / "no")  # type: ignore[arg-type,return-value]
    assert not (world.root / "no").exists()

    page = next(code for code in blocks(ROOT / "docs/state.md", "python") if "def edit" in code)
    names: dict[str, Any] = {}
    exec(page, names)

    edited = {"operator": operator, "target": world.root / "edited", "spark": spark}
    made = rk.rewrite_state(saved, "hourly", names["edit"], **edited)
    expected = bids(one[:2] for one in rows(0, 90))
    for hour in (at(0), at(1)):
        del expected[hour, 3]
        expected[hour, 2] += 10
        expected[hour, 26] = expected[hour, 1]
    state = rk.state(made, "hourly", operator=operator, spark=spark)
    found = state.select("key.window.start", "key.auction", "value.count").collect()
    assert {(row[0].replace(tzinfo=UTC), row[1]): row[2] for row in found} == expected
    assert state.select("value.*").columns == ["count", "sum", "sum_2", "count_2"]
    before = rk.state(saved, "hourly", operator=operator, spark=spark)
    assert before.where("key.auction = 3").count() == 2, "the savepoint is as it was"
    other = operator_of(saved, "dedupe")
    assert rk.state(made, operator=other, spark=spark).count() == 90, "the other operator knows what it knew"

    later = rows(1, 120, "abz")
    world.add_live(later)
    handle = job_of(world).start(spark, storage=world.storage, config=QUICK, restore=made)
    until(lambda: has_read(handle, 2))
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"
    seen = {one[:2] for one in rows(0, 90)}
    expected += bids(row[:2] for row in later if row[:2] not in seen)
    output = committed(world.out)
    assert {(row["window"]["start"].replace(tzinfo=UTC), row["auction"]): row["bids"] for row in output} == expected
    assert len(output) == len(expected)
