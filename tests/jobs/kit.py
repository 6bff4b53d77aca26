"""A small world for jobs on Spark: keyed rows with an event time, a history, a live stream, and the expected result."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from rekindle.storage.documents.status import Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.upkeep.check import check_storage
from tests import waiting

UTC = dt.timezone.utc
START = dt.datetime(2025, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])
DDL = "ts timestamp, k string, v long"

Row = tuple[dt.datetime | None, str, int]

_WRITTEN = itertools.count(round(time.time()) - 86_400)
"""The times of files, in seconds: each is written a second after the one before."""

QUICK = {"checkpoint.interval": "1 second", "restart.delay": "100 ms", "restart.attempts": "5"}

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a few rows a plan costs less if it is interpreted than if Java is made of it and compiled."""


def until(condition: Callable[[], object], seconds: float = 300) -> None:
    """Wait until `condition` holds. Looks of these tests cost: they read storages, beside Spark."""
    waiting.until(condition, seconds, pause_s=0.05)


FLUSHED = ("waiting_for_final_checkpoint", "closed")
"""A task that has come to its end: a checkpoint may have closed it since, on a machine that is quick enough."""


def at(hours: float) -> dt.datetime:
    """An event time, hours after the start."""
    return START + dt.timedelta(hours=hours)


def rows(first_hour: float, count: int, keys: str = "abc") -> list[Row]:
    """`count` rows, one a minute."""
    return [(at(first_hour + minute / 60), keys[minute % len(keys)], 1) for minute in range(count)]


def write(folder: Path, name: str, data: Iterable[Row]) -> None:
    """Put a Parquet file there at once."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in data], schema=SCHEMA)
    pq.write_table(table, folder / f".{name}")
    # Spark reads files in the order of their times, which are too coarse for files that are written in one go.
    written = next(_WRITTEN)
    os.utime(folder / f".{name}", (written, written))
    os.rename(folder / f".{name}", folder / name)


class World:
    """Folders of one test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.history = root / "history"
        self.live = root / "live"
        self.out = root / "out"
        self.storage = str(root / "storage")
        self.live.mkdir(parents=True, exist_ok=True)
        self._files = 0
        self.data: list[Row] = []

    def add_history(self, *files: list[Row]) -> None:
        """Add files to the history."""
        for data in files:
            self._add(self.history, data)

    def add_live(self, *files: list[Row]) -> None:
        """Drop files into the live stream's folder."""
        for data in files:
            self._add(self.live, data)

    def _add(self, folder: Path, data: list[Row]) -> None:
        self._files += 1
        self.data += data
        write(folder, f"{self._files:04d}.parquet", data)

    def files(self) -> rk.Files:
        """The history."""
        return rk.Files(str(self.history))

    def stream(self) -> rk.Stream:
        """The live stream, one file a batch."""
        folder = str(self.live)
        return rk.Stream(lambda spark: spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(folder))

    def hourly(
        self,
        *,
        history: bool = True,
        live: bool = True,
        more: rk.Files | None = None,
        name: str = "hourly",
        sink: str = "out",
    ) -> rk.Job:
        """Rows per hour and key, over the history, the live stream, or both, and `more` files."""
        from pyspark.sql import functions as F

        job = rk.Job(name)
        sources = []
        if history:
            sources.append(job.source("history", self.files(), event_time="ts"))
        if live:
            sources.append(job.source("live", self.stream(), event_time="ts", watermark="4 seconds"))
        if more is not None:
            sources.append(job.source("more", more, event_time="ts"))

        @job.task(*sources, uid="count")
        def count(*frames: Any) -> Any:
            union = frames[0]
            for frame in frames[1:]:
                union = union.unionByName(frame)
            return union.filter("v > 0").groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

        job.sink(sink, count, rk.sinks.Parquet(self.out))
        return job

    def expected(self) -> Counter[tuple[dt.datetime, str, int]]:
        """What `hourly` yields of everything."""
        sums: Counter[tuple[dt.datetime, str]] = Counter()
        for ts, key, value in self.data:
            if ts is not None and value > 0:
                sums[(ts.replace(minute=0, second=0, microsecond=0), key)] += value
        return Counter((hour, key, total) for (hour, key), total in sums.items())

    def has_hour(self, hour: int) -> bool:
        """Whether the window that begins so many hours after the start is committed."""
        return any(start == at(hour) for start, _, _ in self.output())

    def output(self) -> Counter[tuple[dt.datetime, str, int]]:
        """What is committed, as a multiset: twice is twice."""
        found: Counter[tuple[dt.datetime, str, int]] = Counter()
        for row in committed(self.out):
            # Spark writes times without a zone; the session's is UTC.
            start = row["window"]["start"].replace(tzinfo=UTC)
            found[(start, row["k"], row["v"])] += 1
        return found


def has_read(handle: rk.JobHandle, files: int, source: str = "live") -> bool:
    """Whether so many files of the live stream, counted over the job's life, are in batch records."""
    position = handle.status().tasks[0].inputs[source].position
    return position is not None and position["logOffset"] >= files - 1


def recorded(storage: str, job: str) -> Status | None:
    """The status that a job's driver has written, perhaps in another process; None before the first."""
    return JobStorage(open_store(storage), job).status()


def orphans(storage: str) -> list[str]:
    """What `rekindle storage check` finds that nothing names; all else has to be whole."""
    found = check_storage(open_store(storage))
    assert found.whole, [str(fault) for one in (*found.jobs, *found.savepoints) for fault in one.faults]
    return [one.path for one in found.every_orphan]


def committed(folder: Path) -> list[dict[str, Any]]:
    """All rows that a reader of the folder sees."""
    found: list[dict[str, Any]] = []
    for place, folders, files in os.walk(folder):
        # What is hidden may vanish while one looks.
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            if name.endswith(".parquet") and not name.startswith((".", "_")):
                found += pq.ParquetFile(Path(place, name)).read().to_pylist()
    return found


def failing_at(step: str) -> Callable[[str], None]:
    """Steps of which this one fails, once."""
    left = [step]

    def steps(name: str) -> None:
        if name in left:
            left.remove(name)
            raise RuntimeError(f"injected at {name}")

    return steps


def shown_in(place: str) -> Counter[tuple[dt.datetime, str, int]]:
    """Return the rows of the hourly job that a reader of a place sees."""
    found: Counter[tuple[dt.datetime, str, int]] = Counter()
    store = open_store(place)
    for path in (entry.path for entry in store.walk("")):
        if path.endswith(".parquet") and not path.startswith("."):
            for row in pq.read_table(io.BytesIO(store.read(path))).to_pylist():
                found[(row["window"]["start"].replace(tzinfo=UTC), row["k"], row["v"])] += 1
    return found
