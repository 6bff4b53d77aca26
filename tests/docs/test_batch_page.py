"""docs/batch.md: its job file is run both ways, and gives the same."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from rekindle.cli import jobfile
from rekindle.cli.verbs import rekindle
from tests.jobs.kit import committed

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "batch.md").read_text()


def test_the_job_of_the_page_gives_the_same_as_a_batch_and_as_a_stream(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    assert list(found) == ["daily_bids.py"]
    # The JVM of the tests began elsewhere, and takes relative paths from there.
    code = found["daily_bids.py"].replace('"bids/', f'"{tmp_path}/bids/').replace('"out/', f'"{tmp_path}/out/')
    Path("daily_bids.py").write_text(code)
    start = dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc)
    bids = {
        "ts": [start + dt.timedelta(minutes=3 * number) for number in range(200)],
        "auction": [number % 3 for number in range(200)],
        "bidder": [number % 5 for number in range(200)],
        "price": [number % 7 * 100 for number in range(200)],
    }
    os.makedirs("bids/history")
    pq.write_table(pa.table(bids), "bids/history/0.parquet")

    results = {}
    for mode in ("streaming", "batch"):
        handle = jobfile.load("daily_bids.py").start(spark, storage=f"state-{mode}", mode=mode)
        result = handle.wait()
        assert (result.state, result.error) == ("FINISHED", None)
        results[mode] = {
            name: Counter(json.dumps(row, default=str) for row in committed(Path("out", name)))
            for name in ("hourly", "sessions")
        }
        Path("out").rename(f"out-{mode}")

    assert results["batch"] == results["streaming"]
    assert all(results["batch"].values())
    shown = CliRunner().invoke(rekindle, ["status", "daily_bids", "--storage", "state-batch"]).stdout
    assert "daily_bids  FINISHED  run 1  in batch mode" in shown
