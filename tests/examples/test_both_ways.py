"""The example jobs over what has an end, as streams and with ``mode="batch"``: the same rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import flights_data
import nexmark
import orders
import rekindle as rk
from rekindle.cli import jobfile
from rekindle.errors import DefinitionError
from tests.examples.test_flights import ROOT, SHARED
from tests.jobs.kit import committed


@pytest.fixture
def all_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An example's stream of files is read as it lies there, by the same function."""
    source = rk.Job.source

    def bounded(job: rk.Job, uid: str, spec: Any, **options: Any) -> Any:
        if not isinstance(spec, rk.Stream):
            return source(job, uid, spec, **options)
        read = rk.Batch(lambda spark: spec.read(SimpleNamespace(readStream=spark.read)))
        return source(job, uid, read, event_time=options["event_time"])

    monkeypatch.setattr(rk.Job, "source", bounded)


def rows_of(job: rk.Job, out: list[Path], spark: SparkSession, storage: Path, **options: Any) -> list[Counter[str]]:
    """What a run of the job writes, by sink; its folders are empty again behind it."""
    result = job.start(spark, storage=str(storage), **options).wait()
    assert (result.state, result.error) == ("FINISHED", None)
    found = [Counter(json.dumps(row, sort_keys=True, default=str) for row in committed(folder)) for folder in out]
    for folder in out:
        folder.rename(storage / f"written-{folder.name}")
    return found


def flights(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    if not SHARED.is_file():
        pytest.skip("../shared/data/flights-20k.json is not beside this checkout")
    flights_data.split(SHARED, root)
    monkeypatch.setenv("FLIGHTS_DATA", str(root))
    return [root / "delays"]


def hot_bids(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    nexmark.write_history(root / "history", 20_000, 3)
    nexmark.write_live(root / "live", 20_000, 5_000, 4, every_s=0)
    monkeypatch.setenv("HOT_BIDS_DATA", str(root))
    return [root / "hot_bids"]


@pytest.mark.parametrize("example", [flights, hot_bids])
@pytest.mark.usefixtures("all_bounded")
def test_an_example_job_writes_the_same_rows_as_a_stream_and_as_a_batch(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    example: Callable[[Path, pytest.MonkeyPatch], list[Path]],
) -> None:
    out = example(tmp_path / "data", monkeypatch)

    def load() -> rk.Job:
        return jobfile.load(str(ROOT / "examples" / f"{example.__name__}.py"))

    streamed = rows_of(load(), out, spark, tmp_path / "streamed")
    batched = rows_of(load(), out, spark, tmp_path / "batched", mode="batch")

    assert batched == streamed
    assert all(streamed)


def session_windows(found: DataFrame) -> DataFrame:
    """The sessions of `orders.sessions_of` without timers, which Spark lets no batch have."""
    gap = f"{orders.SESSION_GAP_MS // 1000} seconds"
    return (
        found.groupBy(F.session_window("ts", gap), "user")
        .agg(F.count("*").alias("orders"), F.sum("revenue").alias("revenue"))
        .select("user", "session_window.start", "orders", "revenue")
    )


@pytest.mark.since("4.0")  # transformWithState
@pytest.mark.usefixtures("all_bounded")
def test_the_pipeline_of_orders_does_too_but_for_its_timers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write_history(tmp_path / "history", 900, 4)
    orders.write_live(tmp_path / "live", 900, 300, 2)
    out = [tmp_path / "out" / task for task in ("revenue", "sessions", "archive")]
    with pytest.raises(DefinitionError, match="timers never fire") as refused:
        orders.define(tmp_path, tmp_path / "out").start(spark, storage=str(tmp_path / "refused"), mode="batch").wait()
    assert refused.value.code == "BATCH_UNSUPPORTED"

    monkeypatch.setattr(orders, "sessions_of", session_windows)
    streamed = rows_of(orders.define(tmp_path, tmp_path / "out"), out, spark, tmp_path / "streamed")
    batched = rows_of(orders.define(tmp_path, tmp_path / "out"), out, spark, tmp_path / "batched", mode="batch")

    assert batched == streamed
    assert all(streamed)
