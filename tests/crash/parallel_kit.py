"""A job whose tasks have several subtasks, for its tests and for the crash tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rekindle as rk
from rekindle.storage.documents.checkpoint import Manifest
from tests.crash.kit import BrokenWorld, Rows, result_rows
from tests.crash.pipeline_kit import FILE_BY_FILE, Gate
from tests.jobs.kit import committed, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES = 20


FIRST_HOUR = "ts < '2025-01-01 00:30:00'"
"""Rows of one file alone, so that one subtask at a time meets them."""


class ParallelWorld(BrokenWorld):
    """A history of many files → `clean` → `shape`, which writes rows → `hourly`, which writes sums."""

    name = "parallel"
    job_file = Path(__file__).with_name("parallel_job_file.py")
    arguments = FILE_BY_FILE

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.outs = {"rows": root / "rows", "sums": self.out}

    def fill(self, files: int = FILES) -> ParallelWorld:
        """Files that overlap and jump about in time."""
        self.add_history(*(rows((7 * number) % files, 90, keys="abz") for number in range(files)))
        return self

    def job(self, *, live: bool = False) -> rk.Job:
        """With three subtasks and two."""
        assert not live, "it has no live stream"
        return self.parallel(3, 2)

    def parallel(self, clean: int, shape: int, held: Gate | None = None, where: str = FIRST_HOUR) -> rk.Job:
        """The job; `held` holds `shape` up for the rows that `where` selects."""
        from pyspark.sql import functions as F

        job = rk.Job(self.name)
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

        for uid, task in (("rows", shaped), ("sums", hourly)):
            job.sink(uid, task, rk.sinks.Parquet(self.outs[uid]))
        return job

    def expected_of(self, *, live: bool = False) -> dict[str, Rows]:
        """Rows and sums."""
        kept = [(ts.replace(tzinfo=None), key, value) for ts, key, value in self.data if ts and key != "z"]
        sums: Counter[tuple[Any, ...]] = Counter()
        for ts, key, value in kept:
            sums[(ts.replace(minute=0), key)] += 2 * value
        return {
            "rows": Counter((ts, key) for ts, key, _ in kept),
            "sums": Counter((hour, key, total) for (hour, key), total in sums.items()),
        }

    def outputs(self) -> dict[str, Rows]:
        """What is committed."""
        return {
            "rows": Counter((row["ts"].replace(tzinfo=None), row["k"]) for row in committed(self.outs["rows"])),
            "sums": result_rows(self.outs["sums"]),
        }

    def manifest(self) -> Manifest:
        found = self.documents().newest_manifest()
        assert found is not None
        return found
