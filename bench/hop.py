"""`make bench-pipeline`, hop: what it costs to send rows through a channel.

The same rows through one task, and through two: the second reads the first and passes everything on. The sink throws
its rows away, so the difference is the hop. Throughput is that of a job of three columns of numbers, from files that
Spark reads at full speed. Latency is that of one row at a time through two tasks that are idle otherwise: from the
batch record of the first to that of the second.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import rekindle as rk
from idle import WARM_UP_ROWS, define, send_through
from measuring import SETTINGS, arguments, cpu_seconds, middle, publish, settled, where
from rekindle.session.session import make_session
from rekindle.sinks import SinkBatch, TwoPhaseSink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rekindle.protocol.commit import CommitPermit
    from rekindle.sinks.two_phase import Committable

ROWS, FILES = 40_000_000, 16


class Nowhere(TwoPhaseSink):
    """Evaluates what it is given, and keeps nothing."""

    kind = "Nowhere"
    output_modes = ("append", "update")

    def prepare(self, df: DataFrame, batch: SinkBatch) -> list[Committable]:
        """Evaluate it."""
        df.write.format("noop").mode("overwrite").save()
        return []

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Nothing to commit."""

    def abort(self, committables: Sequence[Committable]) -> None:
        """Nothing to abort."""


@dataclass
class Runs:
    """Figures of the jobs with one number of tasks: one of each run."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def _same(rows: DataFrame) -> DataFrame:
    return rows


def through(spark: SparkSession, data: Path, work: Path, tasks: int) -> None:
    """Run a job that passes all rows through so many tasks."""
    job = rk.Job("hop")
    handle = job.task(job.source("rows", rk.Files(str(data))), uid="task0")(_same)
    for number in range(1, tasks):
        handle = job.task(handle, uid=f"task{number}")(_same)
    job.sink("out", handle, Nowhere())
    result = job.run(spark, storage=str(work / "state"))
    assert result.state == "FINISHED", result


def throughput(spark: SparkSession, scratch: Path, runs: int) -> dict[int, Runs]:
    """Run one round to warm up, then `runs` that count, in turn."""
    data = scratch / "rows"
    columns = [F.col("id"), (F.col("id") * 7919 % 10_007).alias("key"), F.hash("id").alias("value")]
    spark.range(0, ROWS, numPartitions=FILES).select(*columns).write.parquet(str(data))
    found = {1: Runs(), 2: Runs()}
    for number in range(runs + 1):
        for tasks in sorted(found, reverse=number % 2 == 1):
            work = scratch / f"{number}-{tasks}"
            began, cpu_began = time.perf_counter(), cpu_seconds()
            through(spark, data, work, tasks)
            seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu_began
            print(f"run {number or 'to warm up'}: {tasks} tasks: {seconds:.2f} s, {cpu:.2f} s of CPU", flush=True)
            if number:
                found[tasks].seconds.append(seconds)
                found[tasks].cpu_seconds.append(cpu)
            shutil.rmtree(work)
    return found


def latencies(spark: SparkSession, scratch: Path, runs: int) -> list[float]:
    """Measure single rows' time from the first task to the second: seconds, sorted."""
    data, state = scratch / "drops", scratch / "state"
    data.mkdir()
    handle = define(data, scratch / "out", 2).start(spark, storage=str(state))
    hops = []
    for number in range(WARM_UP_ROWS + runs):
        hops += send_through(data, state, number, 2)
        time.sleep(1)
    handle.stop()
    handle.wait()
    return sorted(hops[WARM_UP_ROWS:])


def main() -> None:
    given = arguments("Throughput and latency of a hop.").parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        found = throughput(spark, Path(folder), given.runs)
        hops = latencies(spark, Path(folder), 4 * given.runs)
    lines = [
        f"| {tasks} | {middle(runs.seconds):.2f} | {min(runs.seconds):.2f} to {max(runs.seconds):.2f} "
        f"| {middle(runs.cpu_seconds):.2f} | {ROWS / middle(runs.seconds):,.0f} |"
        for tasks, runs in found.items()
    ]
    one, two = found[1], found[2]
    apart = (middle(two.seconds) - middle(one.seconds)) / ROWS * 1e6
    cpu_apart = (middle(two.cpu_seconds) - middle(one.cpu_seconds)) / ROWS * 1e6
    text = f"""\
| tasks | median s | s | median CPU s | rows/s |
| ---: | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

- A hop costs **{apart:.2f} µs** a row, and **{cpu_apart:.2f} µs** of CPU time, of three numbers. {ROWS:,} rows in
  {FILES} files; medians of {given.runs} runs in turn, after one to warm up.
- One row, from record to record: median **{middle(hops):.2f} s**, {hops[0]:.2f} to {hops[-1]:.2f} s ({len(hops)} rows).
{where(spark, load_before)}"""
    spark.stop()
    publish("hop", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
