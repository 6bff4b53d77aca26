"""The job that the crash tests break, and how it is brought to its end again.

Every input there is (a history of files, a batch source, a live stream), event times, a window, and two sinks that are
written from one evaluation and committed by one checkpoint.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import rekindle as rk
from tests.jobs.kit import World, at, committed, rows, write

LAST_LIVE_BATCH = 2
"""All of the live stream has been read when this batch is recorded: each takes one file while there are any."""

CONFIG = {
    "checkpoint.interval": "300 ms",
    "checkpoint.retained": "1",
    "checkpoint.tolerable_failures": "100",
    "restart.delay": "10 ms",
    "restart.attempts": "100",
}
"""Faults come thick: the job is to live through all of them."""


class CrashWorld(World):
    """A small world with a table for the batch source and two outputs."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.table = root / "table"
        self.second = root / "second"

    def fill(self) -> CrashWorld:
        """Write what the job reads."""
        self.add_history(rows(10, 90), rows(0, 90))
        self._add(self.table, rows(20, 70))
        self.add_live(*(rows(30 + 3 * number, 60) for number in range(LAST_LIVE_BATCH + 1)))
        return self

    def job(self, *, live: bool) -> rk.Job:
        """Rows per hour and key of history and table, and of the live stream where it is to have one."""
        from pyspark.sql import functions as F

        job = rk.Job("crash")
        table = str(self.table)
        inputs = [
            job.source("history", rk.Files(str(self.history)), event_time="ts"),
            job.source("table", rk.Batch(lambda spark: spark.read.parquet(table)), event_time="ts"),
        ]
        if live:
            inputs.append(job.source("live", self.stream(), event_time="ts", watermark="4 seconds"))

        @job.task(*inputs, uid="count")
        def count(first: Any, *others: Any) -> Any:
            for frame in others:
                first = first.unionByName(frame)
            return first.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

        job.sink("out", count, rk.sinks.Parquet(self.out))
        job.sink("second", count, rk.sinks.Parquet(self.second))
        return job

    def check(self, *, live: bool) -> None:
        """Nothing lost, nothing twice, in either sink."""
        data = self.data if live else [row for row in self.data if row[0] < at(30)]
        expected: Counter[tuple[Any, ...]] = Counter()
        for ts, key, value in data:
            expected[(ts.replace(minute=0), key)] += value
        rows_expected = Counter((hour.replace(tzinfo=None), key, total) for (hour, key), total in expected.items())
        for folder in (self.out, self.second):
            found = Counter((row["window"]["start"].replace(tzinfo=None), row["k"], row["v"]) for row in committed(folder))
            assert found == rows_expected, f"{folder.name}: lost {rows_expected - found}, twice {found - rows_expected}"


__all__ = ["CONFIG", "LAST_LIVE_BATCH", "CrashWorld", "write"]
