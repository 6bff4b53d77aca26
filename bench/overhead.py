"""`make bench`: what Rekindle costs beside plain Structured Streaming, on one plan, in one Spark session.

5 M bids in Parquet, counted per auction in windows of 10 seconds, written as Parquet: once as a plain query with
``availableNow``, once as a Rekindle job over the same files. Both run in turn, the order changing from pair to pair,
after one pair to warm up that does not count. Plain Structured Streaming does a little less: it leaves the last windows
in state, where Rekindle's job ends with a flush and a final checkpoint, and must have the rows of a batch query.

Prints the figures and writes them between the markers in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import nexmark  # noqa: E402 (lies among the examples)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- overhead: begin -->", "<!-- overhead: end -->"
SCHEMA = "auction long, bidder long, price long, channel string, url string, ts timestamp"
EVENTS, FILES = 5_434_783, 32
MB = 1_000_000


@dataclass
class Runs:
    """What one contender did, a figure for each run."""

    seconds: list[float] = field(default_factory=list)
    #: most memory of the Python driver process, JVM not included, in bytes
    memory_bytes: list[int] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)


def windows(bids: DataFrame) -> DataFrame:
    """The plan of both contenders."""
    return (
        bids.groupBy(F.window("ts", "10 seconds"), "auction")
        .agg(F.count("*").alias("bids"), F.max("price").alias("highest"))
        .select(F.col("window.start").alias("start"), "auction", "bids", "highest")
    )


def plain(spark: SparkSession, data: Path, work: Path) -> None:
    """Plain Structured Streaming with its file sink, all that is there and then the end."""
    bids = spark.readStream.schema(SCHEMA).parquet(str(data)).withWatermark("ts", "4 seconds")
    writer = windows(bids).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "progress")).start(str(work / "out")).awaitTermination()


def rekindle(spark: SparkSession, data: Path, work: Path) -> None:
    """The same plan as a Rekindle job with one bounded source."""
    job = rk.Job("overhead")
    bids = job.source("bids", rk.Files(str(data), format="parquet", schema=SCHEMA), event_time="ts")
    counts = job.task(bids, uid="windows")(windows)
    job.sink("counts", counts, rk.sinks.Parquet(str(work / "out")))
    job.run(spark, storage=str(work / "state"))


CONTENDERS: dict[str, Callable[[SparkSession, Path, Path], None]] = {"plain": plain, "rekindle": rekindle}


def measure(name: str, spark: SparkSession, data: Path, scratch: Path) -> tuple[float, int, int]:
    """Run a contender in a fresh folder: seconds, most bytes of the Python driver, rows written."""
    work = scratch / name
    with peak_memory() as peak:
        began = time.perf_counter()
        CONTENDERS[name](spark, data, work)
        seconds = time.perf_counter() - began
    rows = sum(pq.read_metadata(path).num_rows for path in (work / "out").rglob("*.parquet"))
    shutil.rmtree(work)
    return seconds, peak[0], rows


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """A list whose only item grows to the most memory this process held meanwhile, in bytes."""
    process = psutil.Process()
    peak = [process.memory_info().rss]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def compare(spark: SparkSession, data: Path, scratch: Path, pairs: int) -> dict[str, Runs]:
    """A pair to warm up, then `pairs` that count."""
    runs = {name: Runs() for name in CONTENDERS}
    for pair in range(pairs + 1):
        for name in sorted(CONTENDERS, reverse=pair % 2 == 1):
            seconds, memory_bytes, rows = measure(name, spark, data, scratch)
            print(f"pair {pair or 'to warm up'}: {name:9} {seconds:6.2f} s", flush=True)
            if pair:
                runs[name].seconds.append(seconds)
                runs[name].memory_bytes.append(memory_bytes)
                runs[name].rows.add(rows)
    return runs


def section(spark: SparkSession, runs: dict[str, Runs], bids: int) -> str:
    """The figures as Markdown."""
    medians = {name: statistics.median(run.seconds) for name, run in runs.items()}
    ratios = [a / b for a, b in zip(runs["plain"].seconds, runs["rekindle"].seconds, strict=True)]
    memory_bytes = max(runs["rekindle"].memory_bytes) - max(runs["plain"].memory_bytes)
    java = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version')").first()
    memory_gb = psutil.virtual_memory().total / 1e9
    rows = [
        f"| {name} | {medians[name]:.2f} | {min(run.seconds):.2f} | {max(run.seconds):.2f} "
        f"| {bids / medians[name]:,.0f} | {' or '.join(f'{count:,}' for count in sorted(run.rows))} |"
        for name, run in runs.items()
    ]
    return f"""\
{bids:,} bids in {FILES} Parquet files, 10-second windows per auction, Parquet out; {len(ratios)} pairs in turn, one
Spark session on `{spark.sparkContext.master}`.

| | median s | least s | most s | bids/s | rows out |
| --- | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

Throughput of Rekindle against plain: **{medians["plain"] / medians["rekindle"]:.3f}** by the medians; pair by pair
from {min(ratios):.3f} to {max(ratios):.3f}, median {statistics.median(ratios):.3f}. Memory of the Python driver beyond
plain's: {memory_bytes / MB:.0f} MB.

{datetime.now(timezone.utc):%Y-%m-%d}; {cpu()}, {psutil.cpu_count()} CPUs, {memory_gb:.0f} GB;
{platform.system()} {platform.release()}; Python {platform.python_version()}, PySpark {spark.version}, Java
{java[0] if java else "?"}, Rekindle {version("rekindle")}."""


def cpu() -> str:
    """What the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def publish(text: str) -> None:
    """Put `text` between the markers of docs/benchmarks.md."""
    page = PAGE.read_text() if PAGE.is_file() else f"# Benchmarks\n\n## Overhead (`make bench`)\n\n{BEGIN}\n{END}\n"
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Rekindle against plain Structured Streaming.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    parser.add_argument("--no-page", action="store_true", help="leave docs/benchmarks.md alone")
    given = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("rekindle-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.scheduler.mode", "FAIR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.minBatchesToRetain", "1000000")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        scratch = Path(folder)
        bids = nexmark.write_history(scratch / "bids", given.events, FILES)
        runs = compare(spark, scratch / "bids", scratch, given.pairs)
        expected = windows(spark.read.parquet(str(scratch / "bids"))).count()
        if runs["rekindle"].rows != {expected}:
            sys.exit(f"bench: Rekindle wrote {runs['rekindle'].rows} rows, a batch query has {expected}")
        text = section(spark, runs, bids)
    spark.stop()
    print(f"\n{text}")
    if not given.no_page:
        publish(text)


if __name__ == "__main__":
    main()
