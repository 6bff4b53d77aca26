"""`make bench-pipeline`, recovery: from kill -9 to the first new batch record.

A driver in a process of its own runs two tasks over Spark's `rate` source: a count per key, whose state is loaded
anew, and a task that reads it. Some seconds after its first checkpoint the driver and its JVM are killed, and started
again at once. Measured is the time from the kill to

- the new run, which is claimed when Spark has been started;
- the first record that the new run writes of each task.

    python bench/recovery.py --driver FOLDER        is that driver
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk
from measuring import SETTINGS, arguments, middle, publish, settled, where
from rekindle.session.session import make_session

ROWS_A_SECOND, KEYS = 1_000, 100_000
RUN_S = 10
"""The time that a driver runs after its first batches, before it is killed."""
TASKS = ("count", "archive")


def define(work: Path) -> rk.Job:
    """Count, and keep what was counted."""
    job = rk.Job("recovery")
    ticks = rk.Stream(lambda spark: spark.readStream.format("rate").option("rowsPerSecond", ROWS_A_SECOND).load())

    @job.task(job.source("ticks", ticks, event_time="timestamp", watermark="1 second"))
    def count(ticks: DataFrame) -> DataFrame:
        keyed = ticks.withColumn("key", F.col("value") % KEYS).groupBy(F.window("timestamp", "1 second"), "key")
        return keyed.agg(F.count("*").alias("ticks")).select("key", "ticks")

    @job.task(count)
    def archive(counts: DataFrame) -> DataFrame:
        return counts

    job.sink("out", archive, rk.sinks.Parquet(work / "out"))
    return job


def drive(work: Path) -> None:
    """Run it until it is killed."""
    define(work).run(storage=str(work / "state"), spark_config=SETTINGS, config={"checkpoint.interval": "2 seconds"})


def start(work: Path) -> subprocess.Popen[bytes]:
    """Start a driver in a process of its own."""
    with (work / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, __file__, "--driver", str(work)], stdout=log, stderr=log, start_new_session=True
        )


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Driver and JVM, at once."""
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def first_record(work: Path, task: str, run: int) -> float | None:
    """Return the time of a task's first record in that run, seconds; None: no record yet."""
    times = []
    for path in work.glob(f"state/recovery/tasks/{task}/0/*/batches/*.json"):
        with suppress(FileNotFoundError):  # an old one, which no checkpoint needs any more
            if json.loads(path.read_text())["run"] == run:
                times.append(path.stat().st_mtime)
    return min(times, default=None)


def has_run(work: Path, run: int, driver: subprocess.Popen[bytes]) -> dict[str, float]:
    """Wait for the first record of each task in that run; when they were written."""
    found: dict[str, float] = {}
    while len(found) < len(TASKS):
        if driver.poll() is not None:
            sys.exit(f"bench: the driver ended\n{(work / 'log').read_text()}")
        for task in TASKS:
            at = first_record(work, task, run)
            if at is not None:
                found.setdefault(task, at)
        time.sleep(0.05)
    return found


def main() -> None:
    given = arguments("kill -9 to the first new batch record.").parse_args()
    load_before = settled()
    taken: dict[str, list[float]] = {"a new run is claimed": [], **{f"first record of `{task}`": [] for task in TASKS}}
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        driver = start(work)
        has_run(work, 1, driver)
        for number in range(1, given.runs + 1):
            time.sleep(RUN_S)
            killed = time.time()
            kill(driver)
            driver = start(work)
            records = has_run(work, number + 1, driver)
            claimed = (work / "state" / "recovery" / "runs" / f"{number + 1:06d}.json").stat().st_mtime
            for name, at in zip(taken, (claimed, *(records[task] for task in TASKS)), strict=True):
                taken[name].append(at - killed)
            print(
                f"kill {number}: {', '.join(f'{name} {times[-1]:.2f} s' for name, times in taken.items())}", flush=True
            )
        kill(driver)
    rows = [f"| {name} | {middle(times):.2f} | {min(times):.2f} to {max(times):.2f} |" for name, times in taken.items()]
    spark = make_session("rekindle-bench", SETTINGS)
    text = f"""\
| from kill -9 until | median s | s |
| --- | ---: | ---: |
{chr(10).join(rows)}

- {given.runs} kills; {ROWS_A_SECOND:,} rows a second, {KEYS:,} keys
{where(spark, load_before)}"""
    spark.stop()
    publish("recovery", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--driver"]:
        drive(Path(sys.argv[2]))
    else:
        main()
