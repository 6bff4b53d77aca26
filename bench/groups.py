"""`make bench-backlog`, groups: what a prelude would gain for an aggregate by key, whose groups all stay in state.

Nexmark's bids, counted by auction, with their highest price, in three ways: a job that streams its history, the same
job as a batch run, and what a prelude would have to do beyond a batch run. That is a plain query that takes the groups
of the batch run, a row each, into the state of the same aggregate, and writes nothing. They take turns in one session.

Prints the figures, and writes them between the markers in docs/benchmarks.md. It takes some 2 minutes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import rekindle as rk
from measuring import ROOT, SETTINGS, arguments, cpu_seconds, load, middle, publish, settled, where
from nexmark_queries import SCHEMAS
from rekindle.session.session import make_session

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from typing import Literal

    from pyspark.sql import DataFrame, SparkSession

EVENTS, FILES = 16_000_000, 16
GROUPS = "auction long, bids long, price long"


def by_auction(bids: DataFrame) -> DataFrame:
    """Return each auction with its number of bids and its highest price."""
    return bids.groupBy("auction").agg(F.count("*").alias("bids"), F.max("price").alias("price"))


def run_job(spark: SparkSession, data: Path, work: Path, mode: Literal["streaming", "batch"]) -> Path:
    """Run the job over the history; return the folder that it has written."""
    job, out = rk.Job("groups"), work / "out"
    bids = job.source("bids", rk.Files(str(data), schema=SCHEMAS["bids"]), event_time="ts")
    job.sink("out", job.task(bids, output_mode="update")(by_auction), rk.sinks.Foreach(partial(_write, out)))
    result = job.run(spark, storage=str(work / "state"), mode=mode)
    if result.state != "FINISHED":
        sys.exit(f"bench: the job ended {result.state}: {result.error}")
    return out


def _write(out: Path, rows: DataFrame, batch: rk.sinks.SinkBatch) -> None:
    rows.write.mode("overwrite").parquet(str(out / batch.name))


def put(spark: SparkSession, groups: Path, work: Path) -> None:
    """Take groups into the state of the aggregate."""
    rows = spark.readStream.schema(GROUPS).parquet(str(groups))
    state = rows.groupBy("auction").agg(F.sum("bids"), F.max("price"))
    writer = state.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "progress")).start().awaitTermination()


def measure(way: Callable[[], object], work: Path) -> tuple[float, float]:
    """Run one way; return its seconds and CPU seconds."""
    began, cpu_began = time.perf_counter(), cpu_seconds()
    way()
    took = time.perf_counter() - began, cpu_seconds() - cpu_began
    shutil.rmtree(work)
    return took


def main() -> None:
    """Measure, and write the part of docs/benchmarks.md."""
    parser = arguments("An aggregate by key over a history.", runs=3)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    given = parser.parse_args()
    load_before = settled() if not given.no_page else load()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data, groups, work = (Path(folder, name) for name in ("bids", "groups", "work"))
        rows = nexmark.write_history(data, given.events, FILES)
        (written,) = run_job(spark, data, work, "batch").iterdir()
        shutil.copytree(written, groups)
        shutil.rmtree(work)
        count = spark.read.parquet(str(groups)).count()
        ways: dict[str, Callable[[], object]] = {
            "streamed": lambda: run_job(spark, data, work, "streaming"),
            "a batch run": lambda: run_job(spark, data, work, "batch"),
            "its groups into state": lambda: put(spark, groups, work),
        }
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for run in range(given.runs + 1):
            for name in list(ways) if run % 2 else list(reversed(ways)):
                found = measure(ways[name], work)
                print(f"run {run or 'to warm up'}: {name:22} {found[0]:.2f} s, {found[1]:.2f} s of CPU", flush=True)
                if run:
                    figures[name].append(found)
        lines = [
            f"| {name} | {middle([one[0] for one in found]):.2f} | {middle([one[1] for one in found]):.2f} |"
            for name, found in figures.items()
        ]
        text = f"""\
| | median s | median CPU s |
| --- | ---: | ---: |
{chr(10).join(lines)}

- {rows:,} bids in {FILES} files, {count:,} auctions; medians of {given.runs} runs in turn, after one more
{where(spark, load_before)}"""
    spark.stop()
    publish("groups", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
