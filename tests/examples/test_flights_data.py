"""The split of the flights into history and live stream, and the figures that pandas expects of them."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date
from pathlib import Path

import pytest

import flights_data

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "flights-20k.json"


@pytest.fixture
def flights():
    if not SHARED.is_file():
        pytest.skip("the flights data set is not in ../shared/data beside this checkout")
    return SHARED


def rows_of(folder):
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(folder.iterdir())]


def test_every_flight_is_in_exactly_one_file_and_the_last_week_is_the_stream(flights, tmp_path):
    counts = flights_data.split(flights, tmp_path)
    history, live = rows_of(tmp_path / "history"), rows_of(tmp_path / "live")
    rows = [row for file in [*history, *live] for row in file]
    assert sorted(map(str, rows)) == sorted(map(str, json.loads(flights.read_text())))
    assert counts == (sum(map(len, history)), sum(map(len, live)))
    assert len(live) == 7
    assert max(row["date"] for file in history for row in file) < min(row["date"] for file in live for row in file)


def test_history_is_out_of_order_within_and_across_files_while_the_stream_is_in_order(flights, tmp_path):
    flights_data.split(flights, tmp_path)
    history, live = rows_of(tmp_path / "history"), rows_of(tmp_path / "live")
    for file in history:
        dates = [row["date"] for row in file]
        assert dates != sorted(dates)
        assert (min(dates)[:7], max(dates)[:7]) == ("2001/01", "2001/03"), "files overlap from end to end"
    dates = [row["date"] for file in live for row in file]
    assert dates == sorted(dates)


def test_pandas_counts_what_a_loop_counts(flights):
    delays = defaultdict(list)
    for row in json.loads(flights.read_text()):
        delays[date(*map(int, row["date"][:10].split("/"))), row["origin"]].append(row["delay"])
    table = flights_data.expected(flights)
    assert len(table) == len(delays) > 0
    for day, origin, departures, mean_delay in table.itertuples(index=False):
        assert departures == len(delays[day, origin])
        assert mean_delay == sum(delays[day, origin]) / departures
