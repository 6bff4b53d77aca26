"""Real data through the job of `examples/flights.py`: history in shuffled files, the last week live; pandas agrees."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import flights_data
from rekindle.cli import jobfile
from tests.jobs.kit import QUICK, until

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "flights-20k.json"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not SHARED.is_file(), reason="../shared/data/flights-20k.json is not beside this checkout"),
]


def watermark_ms(handle):
    return max((task.watermark or 0 for task in handle.status().tasks), default=0)


def test_delays_of_real_flights_are_those_of_pandas_over_a_history_a_live_week_and_a_stop(spark, tmp_path, monkeypatch):
    flights_data.split(SHARED, tmp_path / "split")
    days = sorted((tmp_path / "split" / "live").iterdir())
    (tmp_path / "split" / "history").rename(tmp_path / "history")
    live = tmp_path / "live"
    live.mkdir()
    monkeypatch.setenv("FLIGHTS_DATA", str(tmp_path))

    def run(arriving):
        """Start the job, let days arrive, wait until all are read."""
        handle = jobfile.load(str(ROOT / "examples" / "flights.py")).start(
            spark, storage=str(tmp_path / "state"), config=QUICK
        )
        for day in arriving:
            day.rename(live / day.name)
        midnight_ms = pd.Timestamp(arriving[-1].stem).value // 10**6
        until(lambda: watermark_ms(handle) > midnight_ms, seconds=120)
        return handle

    handle = run(days[:3])
    handle.stop()
    assert handle.wait().state == "STOPPED"
    handle = run(days[3:])
    handle.stop(drain=True)
    assert handle.wait().state == "DRAINED"

    expected = flights_data.expected(SHARED)
    found = pq.read_table(tmp_path / "delays").to_pandas()
    found = found[expected.columns.tolist()].sort_values(["day", "origin"], ignore_index=True)
    pd.testing.assert_frame_equal(found, expected, check_exact=True, check_dtype=False)
