"""An example job, run for a day's worth of batches at full speed, measured as `soak` is.

``python -m tests.soak.day FOLDER EXAMPLE`` runs ``examples/EXAMPLE.py``: `hot_bids`, `orders` or `flights`. A file of
its live stream has arrived each minute for a day: event time goes on by a minute from one of the 1,440 files to the
next, and each file is a batch, since it is there only when the one before was read. The history is there before. At
the end the job is drained, and its rows are compared with those of a batch query over every file. It exits with 1
where they differ, or a figure has grown. `make soak` runs it as a test.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

import rekindle as rk
from tests.jobs.kit import committed
from tests.soak.long_run import LongRun, Pace, Pipeline, arguments, settings
from tests.soak.soak import files_read

A_DAY = 24 * 60
"""Files."""

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


class Example:
    """What the examples have in common: a module with a `job`, whose task `reader` reads the stream."""

    name: str
    reader: str

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.live = self.data / "live"
        self.outputs: list[Path] = []

    def load(self) -> ModuleType:
        """Import the example, which finds its data by the environment."""
        os.environ[f"{self.name.upper()}_DATA"] = str(self.data)
        return importlib.import_module(self.name)

    def files_read(self, status: rk.JobStatus) -> int:
        """How many files of the stream are read."""
        return files_read(status, self.reader)

    def done(self, status: rk.JobStatus) -> int:
        """The target is counted in files."""
        return self.files_read(status)


class HotBids(Example):
    """The flagship job; a file has the bids of the first second of its minute."""

    name, reader = "hot_bids", "per_auction"
    events, history_minutes = 1_000, 10

    def define(self) -> rk.Job:
        """Return the job; its history is the same seconds of ten minutes before."""
        self.outputs = [self.data / "hot_bids"]
        self.example = self.load()
        (self.data / "history").mkdir(parents=True)
        for minute in range(self.history_minutes):
            # The times of a file's rows lie up to 4 s before those of their events.
            self._bids(minute, self.data / "history" / f"{minute}.parquet")
        job: rk.Job = self.example.job
        return job

    def write(self, number: int, path: Path) -> None:
        """Write the bids of one minute."""
        self._bids(self.history_minutes + number, path)

    def _bids(self, minute: int, path: Path) -> None:
        import nexmark

        first = minute * 60_000
        pq.write_table(nexmark.bids(first, first + self.events), path)

    def wrong(self, spark: Any, status: rk.JobStatus) -> str:
        """Compare with the task's own function, over batches."""
        live = self.example.live_bids(SimpleNamespace(readStream=spark.read))
        return different(
            self.example.per_auction(spark.read.parquet(str(self.data / "history")), live), self.outputs[0]
        )


class Orders(Example):
    """The pipeline of four tasks, at its own five orders a minute."""

    name, reader = "orders", "enrich"
    history = 300
    a_minute = 5

    def define(self) -> rk.Job:
        """Return the job; its history is the hour before."""
        self.out = self.data / "out"
        os.environ["ORDERS_OUT"] = str(self.out)
        self.outputs = [self.out / task for task in ("revenue", "sessions", "archive")]
        self.example = self.load()
        self.example.write_history(self.data / "history", self.history, 4)
        job: rk.Job = self.example.job
        return job

    def write(self, number: int, path: Path) -> None:
        """Write the orders of one minute."""
        first = self.history + number * self.a_minute
        pq.write_table(self.example.orders(first, first + self.a_minute), path)

    def wrong(self, spark: Any, status: rk.JobStatus) -> str:
        """Compare with pandas: Spark lets no batch have timers."""
        from tests.examples.orders_by_pandas import expected, same

        everything = expected(self.history + self.files_read(status) * self.a_minute)
        keys = [["hour", "category"], ["user", "begin"], ["order"]]
        try:
            for folder, wanted, key in zip(self.outputs, everything, keys, strict=True):
                same(pq.read_table(folder).to_pandas(), wanted, key)
        except AssertionError as error:
            return f"It is not what pandas computes: {error}"
        return ""


class Flights(Example):
    """Departures by day, from noon to noon, over two days of history; made here, so that a minute has some."""

    name, reader = "flights", "by_day"
    begin = dt.datetime(2001, 3, 25, 12, 0)  # noqa: DTZ001 (times of the data, no zone)
    a_minute = 4
    airports = ("ATL", "BOS", "DEN", "JFK", "LAX", "ORD", "SFO")

    def define(self) -> rk.Job:
        """Return the job; its history is shuffled."""
        self.outputs = [self.data / "delays"]
        self.example = self.load()
        before = [flight for minute in range(-2 * A_DAY, 0, 10) for flight in self._flights(minute)]
        random.Random(0).shuffle(before)
        (self.data / "history").mkdir(parents=True)
        for number in range(4):
            _write_json(self.data / "history" / f"{number}.json", before[number::4])
        job: rk.Job = self.example.job
        return job

    def write(self, number: int, path: Path) -> None:
        """Write the flights of one minute."""
        _write_json(path, self._flights(number))

    def _flights(self, minute: int) -> list[dict[str, Any]]:
        chance = random.Random(minute)
        date = (self.begin + dt.timedelta(minutes=minute)).strftime("%Y/%m/%d %H:%M")
        return [
            {
                "date": date,
                "delay": chance.randint(-20, 200),
                "distance": chance.randint(80, 2_700),
                "origin": chance.choice(self.airports),
                "destination": chance.choice(self.airports),
            }
            for _ in range(self.a_minute)
        ]

    def wrong(self, spark: Any, status: rk.JobStatus) -> str:
        """Compare with the task's own function, over batches."""
        history = spark.read.schema(self.example.SCHEMA).json(str(self.data / "history"))
        live = self.example.last_week(SimpleNamespace(readStream=spark.read))
        return different(self.example.by_day(self.example.with_departure(history), live), self.outputs[0])


def different(wanted: Any, folder: Path) -> str:
    """What differs between a batch query and the rows of a sink; empty where they are the same."""
    beside = folder.with_name("wanted")
    wanted.write.parquet(str(beside))
    known, rows = _rows(beside), _rows(folder)
    missing, more = known - rows, rows - known
    if known and not missing and not more:
        return ""
    some = [*missing, *more][:4]
    return f"{missing.total()} of {known.total()} rows are missing, {more.total()} are too many: {some}"


def _rows(folder: Path) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in committed(folder))


def _write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


EXAMPLES: dict[str, Callable[[Path], Pipeline]] = {"hot_bids": HotBids, "orders": Orders, "flights": Flights}


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("--files", type=int, default=A_DAY)
    given = parser.parse_args()
    example = EXAMPLES[given.example](given.folder)
    pace = Pace(target=given.files, minutes=given.minutes, files=given.files, settings=settings(given))
    return 0 if LongRun(given.folder, example, pace).run() else 1


if __name__ == "__main__":
    sys.exit(main())
