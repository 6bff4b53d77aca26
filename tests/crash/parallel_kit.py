"""A job whose tasks have several subtasks, for its tests and for the crash tests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import rekindle as rk
from rekindle.storage.documents import Manifest
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.crash.pipeline_kit import Gate
from tests.jobs.kit import World, committed, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES = 20


FIRST_HOUR = "ts < '2025-01-01 00:30:00'"
"""Rows of one file alone, so that one subtask at a time meets them."""


class ParallelWorld(World):
    """A history of many files → `clean` → `shape`, which writes rows → `hourly`, which writes sums."""

    def fill(self) -> ParallelWorld:
        """Files that overlap and jump about in time."""
        self.add_history(*(rows((7 * number) % FILES, 90, keys="abz") for number in range(FILES)))
        return self

    def parallel(self, clean: int, shape: int, held: Gate | None = None, where: str = FIRST_HOUR) -> rk.Job:
        """The job; `held` holds `shape` up for the rows that `where` selects."""
        from pyspark.sql import functions as F

        job = rk.Job("parallel")
        history = job.source("history", rk.Files(str(self.history)), event_time="ts")

        @job.task(history, parallelism=clean, event_time="ts", uid="clean")
        def cleaned(frame: DataFrame) -> DataFrame:
            return frame.filter("k <> 'z'")

        @job.task(cleaned, parallelism=shape, event_time="ts", uid="shape")
        def shaped(frame: DataFrame) -> DataFrame:
            frame = frame.withColumn("w", 2 * F.col("v"))
            return frame if held is None else held(frame, where)

        @job.task(shaped)
        def hourly(frame: DataFrame) -> DataFrame:
            return frame.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("w").alias("v"))

        job.sink("rows", shaped, rk.sinks.Parquet(self.root / "rows"))
        job.sink("sums", hourly, rk.sinks.Parquet(self.out))
        return job

    def check(self) -> None:
        """Nothing lost, nothing twice, in either sink."""
        wanted = Counter((ts.replace(tzinfo=None), key) for ts, key, _ in self.data if ts and key != "z")
        assert Counter((row["ts"].replace(tzinfo=None), row["k"]) for row in committed(self.root / "rows")) == wanted
        sums: Counter[tuple[Any, str]] = Counter()
        for ts, key, value in self.data:
            if ts is not None and key != "z":
                sums[(ts.replace(minute=0), key)] += 2 * value
        assert self.output() == Counter((hour, key, total) for (hour, key), total in sums.items())

    def documents(self) -> JobStorage:
        return JobStorage(open_store(self.storage), "parallel")

    def manifest(self) -> Manifest:
        found = self.documents().newest_manifest()
        assert found is not None
        return found
