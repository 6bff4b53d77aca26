"""Prepare the flights for `flights.py`: a shuffled history and a last week in order; and what pandas makes of them.

The input is a JSON array of objects with ``date`` ("2001/01/31 22:47"), ``delay`` (minutes), ``distance`` (miles),
``origin`` and ``destination``, such as the flights files of the vega-datasets project.

    python examples/flights_data.py FLIGHTS.json demo-data/flights
"""

from __future__ import annotations

import json
import random
import sys
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

DATE_FORMAT = "%Y/%m/%d %H:%M"


def split(source: str | Path, directory: str | Path, *, files: int = 12, seed: int = 7) -> tuple[int, int]:
    """Write ``history/`` (`files` files, rows shuffled over all of them) and ``live/`` (the last seven days, one each).

    Both are JSON lines. Returns the rows of each.
    """
    flights: list[dict[str, Any]] = sorted(json.loads(Path(source).read_text()), key=lambda flight: flight["date"])
    last_day = datetime.strptime(flights[-1]["date"][:10], "%Y/%m/%d")  # noqa: DTZ007 (dates of the data, no zone)
    first_live = (last_day - timedelta(days=6)).strftime(DATE_FORMAT)
    history = [flight for flight in flights if flight["date"] < first_live]
    live = flights[len(history) :]
    random.Random(seed).shuffle(history)  # noqa: S311 (no secret)
    for number in range(files):
        _write(Path(directory, "history", f"part-{number:02d}.json"), history[number::files])
    for day, rows in groupby(live, key=lambda flight: flight["date"][:10]):
        _write(Path(directory, "live", f"{day.replace('/', '-')}.json"), list(rows))
    return len(history), len(live)


def expected(source: str | Path) -> pd.DataFrame:
    """Compute by pandas the columns day, origin, departures and mean_delay, sorted by the first two."""
    flights = pd.read_json(source, convert_dates=False)
    flights["day"] = pd.to_datetime(flights["date"].str[:10], format="%Y/%m/%d").dt.date
    by_day = flights.groupby(["day", "origin"], as_index=False)
    return by_day.agg(departures=("delay", "size"), mean_delay=("delay", "mean"))


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print("{:,} flights as history, {:,} as live stream".format(*split(sys.argv[1], sys.argv[2])))
