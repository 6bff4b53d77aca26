"""A query over a stream of small files, as a job or plain, in a process of its own: what `restart` kills.

    python bench/restart_driver.py plain|Rekindle DATA WORK

It notes in the file `notes` of WORK when it reaches each moment for the first time, with its CPU seconds by then.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from contenders import SCHEMA, windows
from measuring import SETTINGS, cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT_S = 10
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

STEPS = {
    "run.create/before": "session",
    "sink.clean/before": "built",
    "sink.prepare/before": "planned",
    "record.create/after": "recorded",
    "sink.commit/after": "visible",
}
"""Durable step of a run → the moment."""


class Notes:
    """The moments of one process, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._noted = set[str]()

    def note(self, moment: str) -> None:
        """Note that it is reached; the first time counts."""
        if moment not in self._noted:
            self._noted.add(moment)
            with self._path.open("a") as file:
                file.write(f"{moment} {time.time()} {cpu_seconds()}\n")

    def hear(self, step: str) -> None:
        """Note the moment of a durable step. What is committed before the first batch is of the run before."""
        moment = STEPS.get(step)
        if moment is not None and (moment != "visible" or "recorded" in self._noted):
            self.note(moment)


def stream(spark: SparkSession, data: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))


def plain(data: Path, work: Path) -> None:
    """Run the plain query until it is killed."""
    from pyspark.sql import SparkSession

    notes = Notes(work / "notes")
    notes.note("imported")
    builder = SparkSession.builder
    for key, value in {**SETTINGS, "spark.sql.streaming.stateStore.providerClass": ROCKSDB}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    notes.note("session")
    counts = windows(stream(spark, data).withWatermark("ts", "4 seconds"))
    commits = work / "progress" / "commits"
    before = set(commits.glob("[0-9]*"))
    notes.note("built")
    writer = counts.writeStream.format("parquet").option("checkpointLocation", str(work / "progress"))
    query = writer.start(str(work / "out"))
    jobs = spark.sparkContext.statusTracker()
    while not set(commits.glob("[0-9]*")) - before:
        if jobs.getActiveJobsIds():
            notes.note("planned")
        time.sleep(0.01)
    notes.note("recorded")
    notes.note("visible")
    query.awaitTermination()


def rekindle(data: Path, work: Path) -> None:
    """Run the job until it is killed."""
    import rekindle as rk
    from rekindle.runtime.steps import heard_by

    notes = Notes(work / "notes")
    notes.note("imported")
    job = rk.Job("restart")
    rows = job.source("bids", rk.Stream(lambda spark: stream(spark, data)), event_time="ts", watermark="4 seconds")
    job.sink("counts", job.task(rows, uid="windows")(windows), rk.sinks.Parquet(str(work / "out")))
    started = heard_by(notes.hear, job.start)
    config = {"checkpoint.interval": f"{CHECKPOINT_S} seconds"}
    started(storage=str(work / "state"), spark_config=SETTINGS, config=config).wait()


DRIVERS = {"plain": plain, "Rekindle": rekindle}
PROGRESS = {"plain": "progress", "Rekindle": "state/restart/tasks/windows/0/000001/spark"}
"""Where Spark keeps the progress of the query, below WORK."""


if __name__ == "__main__":
    DRIVERS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
