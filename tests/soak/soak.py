"""A tiny pipeline, left alone for weeks' worth of batches at full speed; what it keeps is measured all along.

``python -m tests.soak.soak FOLDER --batches 20000`` runs it, writes ``FOLDER/samples.jsonl`` and the JVM's class
histograms as it goes, and ``FOLDER/report.md`` at the end. It exits with 1 where a figure has grown, or rows are
missing or there twice. `make soak` runs it as a test.

    live (file stream) ─┬─► count ── hourly sums ────────────────► daily ──► Parquet
                        └─► quiet ── a channel that stays empty ──┘

One file of the stream is one batch of `count` and of `quiet`; its time lies half an hour after the one before. Batches
are counted over all tasks.
"""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from tests.jobs.kit import committed
from tests.soak.long_run import FILE_SPACING_S, LongRun, Pace, arguments, settings

ROWS = 6
START = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


class Soak:
    """The pipeline."""

    def __init__(self, folder: Path) -> None:
        self.live, self.out = folder / "live", folder / "out"
        self.outputs = [self.out]

    def define(self) -> rk.Job:
        """Return the job."""
        from pyspark.sql import functions as F

        schema, folder = "ts timestamp, k string, v long", str(self.live)
        job = rk.Job("soak")
        read = rk.Stream(lambda spark: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder))
        live = job.source("live", read, event_time="ts", watermark="1 minute")

        @job.task(live, event_time="ts", watermark="1 hour")
        def count(rows: Any) -> Any:
            sums = rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))
            return sums.select(F.col("window.start").alias("ts"), "k", "v")

        @job.task(live, event_time="ts")
        def quiet(rows: Any) -> Any:
            return rows.filter("v < 0").select("ts", "k", "v")

        @job.task(count, quiet)
        def daily(sums: Any, nothing: Any) -> Any:
            return sums.unionByName(nothing).groupBy(F.window("ts", "1 day"), "k").agg(F.sum("v").alias("v"))

        job.sink("out", daily, rk.sinks.Parquet(self.out))
        return job

    def write(self, number: int, path: Path) -> None:
        """Write rows of a second each."""
        begin = START + dt.timedelta(seconds=number * FILE_SPACING_S)
        times = [begin + dt.timedelta(seconds=row) for row in range(ROWS)]
        keys = ["abc"[row % 3] for row in range(ROWS)]
        pq.write_table(pa.table({"ts": times, "k": keys, "v": [1] * ROWS}), path)

    def files_read(self, status: rk.JobStatus) -> int:
        """How many files both readers of the stream have read."""
        return min(files_read(status, uid) for uid in ("count", "quiet"))

    def done(self, status: rk.JobStatus) -> int:
        """Batches so far, of all tasks."""
        return sum(task.batch + 1 for task in status.tasks)

    def wrong(self, spark: Any, status: rk.JobStatus) -> str:
        """Whether what was read came out, once."""
        rows, wanted = sum(row["v"] for row in committed(self.out)), ROWS * files_read(status, "count")
        return "" if rows == wanted else f"Rows are missing, or there twice: {rows} came out, {wanted} were read."


def files_read(status: rk.JobStatus, uid: str) -> int:
    """How many files the task has read of the stream, one a batch."""
    position = next(task for task in status.tasks if task.uid == uid).inputs["live"].position
    return int(position["logOffset"]) + 1 if position else 0


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=int, default=20_000)
    given = parser.parse_args()
    pace = Pace(
        target=given.batches,
        minutes=given.minutes,
        ahead=30,
        kept_files=200,
        done_a_request=20,
        settings=settings(given),
    )
    return 0 if LongRun(given.folder, Soak(given.folder), pace).run() else 1


if __name__ == "__main__":
    sys.exit(main())
