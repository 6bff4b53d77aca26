"""`make bench-pipeline`, idle CPU: what a job of ten tasks uses while nothing comes, and how long a row takes a hop.

A `Stream` feeds a chain of ten tasks with event time, all in one driver, all settings as they are by default. Rows are
sent through to warm up; then the job is left alone, and the CPU time that the Python driver and its JVM use is taken,
periodic checkpoints included. Then single rows are sent, one after the other. A hop's latency is the time between the
batch record of a task and that of the task that reads it, by the times of the files: nine hops for each row.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from measuring import SETTINGS, arguments, middle, publish, settled, share_of_a_core, where
from rekindle.session.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TASKS = 10
WARM_UP_ROWS = 10
SETTLE_S = 20
"""Between the last row and the measurement: Java compiles what the rows have used."""


def define(data: Path, out: Path, tasks: int) -> rk.Job:
    """Define a chain of tasks that pass rows on."""
    job = rk.Job("idle")
    read = rk.Stream(lambda spark: spark.readStream.schema("number long, ts timestamp").parquet(str(data)))
    source = job.source("rows", read, event_time="ts", watermark="1 second")
    handle = job.task(source, uid="task0", event_time="ts")(_same)
    for number in range(1, tasks):
        handle = job.task(handle, uid=f"task{number}", event_time="ts")(_same)
    job.sink("out", handle, rk.sinks.Parquet(out))
    return job


def _same(rows: DataFrame) -> DataFrame:
    return rows


def send(data: Path, number: int) -> None:
    """Drop a file with one row."""
    table = pa.table({"number": [number], "ts": pa.array([time.time_ns() // 1000], pa.timestamp("us", "UTC"))})
    pq.write_table(table, data / f".{number}")
    (data / f".{number}").rename(data / f"{number}.parquet")


def newest(state: Path, task: int) -> tuple[int, float]:
    """Return the newest batch of a task that put out a row (-1: none), and its record's time, seconds."""
    for path in sorted(state.glob(f"idle/tasks/task{task}/0/*/batches/*.json"), reverse=True):
        with suppress(FileNotFoundError):  # an old one, which no checkpoint needs any more
            if json.loads(path.read_text())["rows_out"] == 1:
                return int(path.stem), path.stat().st_mtime
    return -1, 0.0


def send_through(data: Path, state: Path, number: int, tasks: int) -> list[float]:
    """Send a row and wait until the last task has recorded it; how long each hop took, seconds."""
    before, _ = newest(state, tasks - 1)
    send(data, number)
    while newest(state, tasks - 1)[0] <= before:  # less: the record before may be deleted meanwhile
        time.sleep(0.05)
    times = [newest(state, task)[1] for task in range(tasks)]
    return [after - before for before, after in pairwise(times) if before and after]


def main() -> None:
    parser = arguments("Idle CPU of ten tasks, and the latency of a hop.", runs=10)
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure the idle job")
    given = parser.parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data, state = Path(folder) / "rows", Path(folder) / "state"
        data.mkdir()
        handle = define(data, Path(folder) / "out", TASKS).start(spark, storage=str(state))
        for number in range(WARM_UP_ROWS):
            send_through(data, state, number, TASKS)
        time.sleep(SETTLE_S)
        share = share_of_a_core(given.seconds)
        print(f"idle: {share:.1%} of one core", flush=True)
        hops = []
        for number in range(WARM_UP_ROWS, WARM_UP_ROWS + given.runs):
            hops += send_through(data, state, number, TASKS)
            time.sleep(1)
        handle.stop()
        result = handle.wait()
        assert result is not None, "it has ended"
        assert result.state == "STOPPED", result
        hops.sort()
        text = f"""\
| {TASKS} tasks in a chain | |
| --- | ---: |
| idle, CPU of the driver and its JVM, share of one core | **{share:.1%}** |
| latency of a hop, one row, median | **{middle(hops):.2f} s** |
| 95 % within | {hops[len(hops) * 95 // 100]:.2f} s |
| most | {hops[-1]:.2f} s |

- {given.seconds:.0f} seconds without a row; then {given.runs} rows, {len(hops)} hops
{where(spark, load_before)}"""
    spark.stop()
    publish("idle", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
