"""The state of checkpoints and savepoints as tables: what lies in it, and what has changed between two of them."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyspark
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.cli.verbs import rekindle
from rekindle.errors import RestoreError
from tests.jobs.kit import QUICK, Row, World, rows, until

pytestmark = pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="Spark reads state since 4.0")


def job_of(world: World) -> rk.Job:
    """Sums of each hour and key, and pairs of rows; no window closes before the end."""
    job = rk.Job("kept")
    live = job.source("live", world.stream(), event_time="ts", watermark="100 days")

    @job.task(live, uid="hourly")
    def hourly(frame: Any) -> Any:
        return frame.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

    @job.task(live, uid="pairs")
    def pairs(frame: Any) -> Any:
        others = frame.select(F.col("ts").alias("its_ts"), F.col("k").alias("its_k"))
        return frame.join(others, F.expr("k = its_k AND its_ts BETWEEN ts AND ts + INTERVAL 3 MINUTES"))

    job.sink("hourly_out", hourly, rk.sinks.Parquet(world.root / "hourly"))
    job.sink("pairs_out", pairs, rk.sinks.Parquet(world.root / "pairs"))
    return job


def sums(data: Iterable[Row]) -> Counter[tuple[dt.datetime, str]]:
    found: Counter[tuple[dt.datetime, str]] = Counter()
    for ts, key, value in data:
        assert ts is not None
        found[(ts.replace(minute=0, second=0, microsecond=0), key)] += value
    return found


def all_have_read(handle: rk.JobHandle, files: int) -> bool:
    """Whether both tasks have recorded so many files."""
    positions = [task.inputs["live"].position for task in handle.status().tasks]
    return len(positions) == 2 and all(one is not None and one["logOffset"] >= files - 1 for one in positions)


def command(*words: str) -> Any:
    """Run ``rekindle state`` in this session; returns its document."""
    done = CliRunner().invoke(rekindle, ["state", *words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_state_is_a_table_of_each_operator_and_two_savepoints_can_be_compared(
    spark: SparkSession, world: World
) -> None:
    world.add_live(rows(0, 90))
    handle = job_of(world).start(spark, storage=world.storage, config=QUICK)
    until(lambda: all_have_read(handle, 1))
    before = handle.savepoint(str(world.root / "saves")).path
    data_before = sums(world.data)
    world.add_live(rows(1.25, 60, "ad"))
    until(lambda: all_have_read(handle, 2))
    handle.stop(savepoint=str(world.root / "saves"))
    result = handle.wait()
    assert result.state == "STOPPED" and result.savepoint is not None
    after = result.savepoint

    found = rk.state(before, "hourly", spark=spark).select("key.window.start", "key.k", "value.*").collect()
    assert Counter({(row[0].replace(tzinfo=dt.timezone.utc), row[1]): row[2] for row in found}) == data_before
    left = rk.state(before, "pairs", part="left", spark=spark)
    assert left.count() == rk.state(before, "pairs", part="right", spark=spark).count() == 90
    assert left.select("value.ts").distinct().count() == 90, "values are as their schema says, to every function"

    shown = {(one["task"], one["part"]): one for one in command("show", before)["state"]}
    assert {place: (one["keys"], one["rows"]) for place, one in shown.items()} == {
        ("hourly", None): (len(data_before), len(data_before)),
        ("pairs", "left"): (3, 90),
        ("pairs", "right"): (3, 90),
    }
    assert [key["rows"] for key in shown["pairs", "left"]["heaviest"]] == [30, 30, 30]
    assert shown["hourly", None]["operator_bytes"] > 0

    changes = {key: (data_before[key], value) for key, value in sums(world.data).items()}
    (hourly,) = command("diff", before, after, "hourly", "--limit", "100")["state"]
    assert hourly["came"] == sum(old == 0 for old, _ in changes.values())
    assert hourly["changed"] == sum(0 < old != new for old, new in changes.values())
    assert hourly["same"] == sum(old == new for old, new in changes.values())
    assert hourly["went"] == 0
    told = {one["key"]: (one["before"], one["after"]) for one in hourly["examples"]}
    hour = '{"window":{"start":"2025-01-01T01:00:00.000000Z","end":"2025-01-01T02:00:00.000000Z"},"k":"%s"}'
    assert told[hour % "a"] == (['{"sum":10}'], ['{"sum":33}'])
    assert told[hour % "d"] == ([], ['{"sum":22}'])

    for words, code in (
        ([before, "nothing"], "STATE_TASK_UNKNOWN"),
        ([before, "hourly", "--operator", "7"], "STATE_OPERATOR_UNKNOWN"),
        ([before, "hourly", "--part", "left"], "STATE_PART_UNKNOWN"),
    ):
        done = CliRunner().invoke(rekindle, ["state", *words])
        assert done.exit_code == 1 and f"[{code}]" in done.stderr
    with pytest.raises(RestoreError) as refused:
        rk.state(before, "pairs", spark=spark)
    assert refused.value.code == "STATE_PART_NEEDED"
