"""The cost of a driver's statistics: the CPU of one job, with them and without them, in turn.

    python bench/statistics_cost.py [--subtasks 1] [--windows 10] [--seconds 20] [--rows-every 1]

A `Stream` feeds one task, and that all others. While the job runs, its statistics are switched off and on again, window
by window: heartbeats with figures, the logs of events, checkpoints and rates, and Spark's reports fetched from the JVM.
What stays is a bare sign of life. The CPU is that of the Python driver, of its JVM and of the workers.

Spark makes a report after each batch whether it is fetched or not: what that takes no window tells. It is the share of
the samples of a flight recording (`jcmd`, `jfr`, of a JDK) that are in it, of all samples with any of Java's code.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from measuring import SETTINGS, load, middle, share_of_a_core, where
from rekindle.errors import ControlError, StorageError
from rekindle.history.rates import RateLog
from rekindle.history.recorder import Recorder
from rekindle.runtime.heartbeat import Heartbeat
from rekindle.session.session import make_session
from rekindle.spark.query.polling import Polling
from rekindle.storage import layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTLE_S = 30
"""Between the last start of a query and the first window."""

REPORTS = ("ProgressReporter", "ProgressContext", "StreamingQueryProgress", "StreamingQueryListener", "SourceProgress")
"""Classes of Spark whose work is a report on a batch."""

AROUND = "reportTimeTaken"
"""The method of theirs that is around what it times: what happens in it is no report."""


class Switch:
    """Statistics, on or off."""

    def __init__(self) -> None:
        self.on = True

    def put_in(self) -> None:
        """Let what makes statistics go by it."""
        for kind, name, instead in (
            (Recorder, "heard", _nothing),
            (Recorder, "ordered", _nothing),
            (Recorder, "completed", _nothing),
            (RateLog, "look", _nothing),
            (Heartbeat, "beat", _bare),
            (Polling, "last_report", _no_report),
        ):
            setattr(kind, name, self._switched(getattr(kind, name), instead))

    def _switched(self, real: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
        def chosen(*args: Any, **named: Any) -> Any:
            return (real if self.on else instead)(*args, **named)

        return chosen


def _nothing(*_: Any) -> None:
    return


def _no_report(_: Polling) -> dict[str, Any]:
    return {}


def _bare(heartbeat: Any) -> None:
    """Write a sign of life without a figure."""
    heartbeat._beat += 1  # noqa: SLF001 # it stands in for a method
    storage, status = heartbeat._storage, heartbeat._status(())  # noqa: SLF001
    try:
        storage.replace(layout.status(storage.job), status)
    except (StorageError, ControlError):
        return


def define(data: Path, out: Path, subtasks: int) -> rk.Job:
    """Define a task that reads a stream, and others that read its output."""
    job = rk.Job("statistics")
    read = rk.Stream(lambda spark: spark.readStream.schema("number long, ts timestamp").parquet(str(data)))
    source = job.source("rows", read, event_time="ts", watermark="1 second")
    head = job.task(source, uid="head", event_time="ts")(_same)
    for number in range(1, subtasks):
        task = job.task(head, uid=f"task{number}")(_same)
        job.sink(f"out{number}", task, rk.sinks.Parquet(out / str(number)))
    if subtasks == 1:
        job.sink("out", head, rk.sinks.Parquet(out / "0"))
    return job


def _same(rows: DataFrame) -> DataFrame:
    return rows


@contextmanager
def at_work(spark: SparkSession, given: argparse.Namespace) -> Iterator[tuple[Path, rk.JobHandle]]:
    """Run the job until its tasks have settled; stop it at the end. Yield a folder, and the job's handle."""
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as name:
        folder = Path(name)
        data = folder / "rows"
        data.mkdir()
        handle = define(data, folder / "out", given.subtasks).start(spark, storage=str(folder / "state"))
        with fed(data, given.rows_every):
            while not all(task.status == "running" for task in handle.status().tasks):
                if not handle.is_running():
                    sys.exit(f"bench: the job ended: {handle.wait()}")
                time.sleep(0.5)
            time.sleep(given.settle)
            yield folder, handle
        handle.stop()
        result = handle.wait()
        assert result is not None, "it has ended"
        assert result.state == "STOPPED", result


@contextmanager
def fed(data: Path, every_s: float) -> Iterator[None]:
    """Give the job a row now and then; 0: never."""
    over = threading.Event()

    def feed() -> None:
        number = 0
        while not over.wait(every_s):
            number += 1
            now_us = time.time_ns() // 1000
            table = pa.table({"number": [number], "ts": pa.array([now_us], pa.timestamp("us", "UTC"))})
            pq.write_table(table, data / f".{number}")
            (data / f".{number}").rename(data / f"{number}.parquet")

    thread = threading.Thread(target=feed, daemon=True)
    if every_s:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if every_s:
            thread.join()


def reports(folder: Path, seconds: float) -> str:
    """Measure the share of the JVM's CPU that Spark's reports take, as a cell of a table."""
    java = next(one.pid for one in psutil.Process().children(recursive=True) if one.name() == "java")
    recording = folder / "recording.jfr"
    try:
        subprocess.run(
            ["jcmd", str(java), "JFR.start", "name=cost", "settings=profile"], check=True, capture_output=True
        )
        time.sleep(seconds)
        dump = ["jcmd", str(java), "JFR.dump", "name=cost", f"filename={recording}"]
        subprocess.run(dump, check=True, capture_output=True)
        subprocess.run(["jcmd", str(java), "JFR.stop", "name=cost"], check=True, capture_output=True)
        show = ["jfr", "print", "--json", "--stack-depth", "256", "--events", "jdk.ExecutionSample", str(recording)]
        shown = json.loads(subprocess.run(show, check=True, capture_output=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"not measured ({type(error).__name__})"
    stacks = [
        [
            frame["method"]["type"]["name"]
            for frame in event["values"]["stackTrace"]["frames"]
            if AROUND not in frame["method"]["name"]
        ]
        for event in shown["recording"]["events"]
    ]
    of_reports = sum(any(name in frame for frame in stack for name in REPORTS) for stack in stacks)
    return f"{of_reports / max(len(stacks), 1):.1%} of {len(stacks):,} samples"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subtasks", type=int, default=1)
    parser.add_argument("--windows", type=int, default=10, help="with statistics, and as many without")
    parser.add_argument("--seconds", type=float, default=20, help="of a window")
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before the first window")
    parser.add_argument("--rows-every", type=float, default=1, help="seconds between two rows; 0: none")
    given = parser.parse_args()
    load_before = load()
    switch = Switch()
    switch.put_in()
    spark = make_session("rekindle-bench", SETTINGS)
    found: dict[bool, list[float]] = {True: [], False: []}
    with at_work(spark, given) as (folder, _):
        for window in range(2 * given.windows):
            # on, off, off, on: what changes with time is the same for both
            switch.on = window % 4 in (0, 3)
            time.sleep(1)
            found[switch.on].append(share_of_a_core(given.seconds))
            print(f"{'with' if switch.on else 'without'}: {found[switch.on][-1]:.2%} of one core", flush=True)
        switch.on = True
        of_reports = reports(folder, given.windows * given.seconds)
    with_, without = middle(found[True]), middle(found[False])
    text = f"""\
| subtasks: {given.subtasks} | |
| --- | ---: |
| CPU of the driver and its JVM with statistics, share of one core, median | {with_:.2%} |
| without | {without:.2%} |
| what they cost, share of one core | **{with_ - without:.2%}** |
| of what the driver uses | {(with_ - without) / max(with_, 1e-9):.1%} |
| Spark's reports on its batches, of the JVM's samples | {of_reports} |

- {given.windows} windows of {given.seconds:g} s each way; a row every {given.rows_every:g} s (0: none)
- with: {", ".join(f"{one:.1%}" for one in found[True])}; without: {", ".join(f"{one:.1%}" for one in found[False])}
{where(spark, load_before)}"""
    spark.stop()
    print(f"\n{text}")


if __name__ == "__main__":
    main()
