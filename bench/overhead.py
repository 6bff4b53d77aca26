"""`make bench`: what Rekindle costs beside plain Structured Streaming, on one plan, in one Spark session.

5 M bids in Parquet, counted per auction in windows of 10 seconds, written as Parquet: once as a plain query with
``availableNow`` and Spark's file sink, once as a Rekindle job over the same files. Both run in turn, the order changing
from pair to pair, after one pair to warm up that does not count. Plain Structured Streaming does a little less: it
leaves the last windows in state, where Rekindle's job ends with a flush and a final checkpoint, and must have the rows
of a batch query. Then each runs once more in a process of its own, for the memory of its Python driver.

Prints the figures and writes them between the markers in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow.parquet as pq

from contenders import CONTENDERS, SETTINGS, windows
from rekindle.spark.session import make_session

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import nexmark  # noqa: E402 (lies among the examples)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- overhead: begin -->", "<!-- overhead: end -->"
EVENTS, FILES = 5_434_783, 32
MB = 1_000_000


@dataclass
class Runs:
    """What one contender did, a figure for each run."""

    seconds: list[float] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)


def measure(name: str, spark: SparkSession, data: Path, scratch: Path) -> tuple[float, int]:
    """Run a contender in a fresh folder: seconds, rows written."""
    work = scratch / name
    began = time.perf_counter()
    CONTENDERS[name](spark, data, work)
    seconds = time.perf_counter() - began
    rows = sum(pq.read_metadata(path).num_rows for path in (work / "out").rglob("*.parquet"))
    shutil.rmtree(work)
    return seconds, rows


def compare(spark: SparkSession, data: Path, scratch: Path, pairs: int) -> dict[str, Runs]:
    """A pair to warm up, then `pairs` that count."""
    runs = {name: Runs() for name in CONTENDERS}
    for pair in range(pairs + 1):
        for name in sorted(CONTENDERS, reverse=pair % 2 == 1):
            seconds, rows = measure(name, spark, data, scratch)
            print(f"pair {pair or 'to warm up'}: {name:9} {seconds:6.2f} s", flush=True)
            if pair:
                runs[name].seconds.append(seconds)
                runs[name].rows.add(rows)
    return runs


def driver_bytes(name: str, data: Path, scratch: Path) -> int:
    """The most memory of a contender's Python driver, in a process of its own."""
    work = scratch / f"{name}-alone"
    command = [sys.executable, str(ROOT / "bench" / "contenders.py"), name, str(data), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: {name} alone failed\n{done.stderr}")
    shutil.rmtree(work)
    return int(done.stdout.split()[-1])


def section(spark: SparkSession, runs: dict[str, Runs], bids: int, memory: dict[str, int], load: float) -> str:
    """The figures as Markdown."""
    medians = {name: statistics.median(run.seconds) for name, run in runs.items()}
    ratios = [a / b for a, b in zip(runs["plain"].seconds, runs["rekindle"].seconds, strict=True)]
    java = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version')").first()
    rows = [
        f"| {name} | {medians[name]:.2f} | {min(run.seconds):.2f} | {max(run.seconds):.2f} "
        f"| {bids / medians[name]:,.0f} | {' or '.join(f'{count:,}' for count in sorted(run.rows))} "
        f"| {memory[name] / MB:.0f} |"
        for name, run in runs.items()
    ]
    return f"""\
{bids:,} bids in {FILES} Parquet files, 10-second windows per auction, Parquet out; {len(ratios)} pairs in turn, one
Spark session on `{spark.sparkContext.master}`.

| | median s | least s | most s | bids/s | rows out | Python driver, MB |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

Throughput of Rekindle against plain: **{medians["plain"] / medians["rekindle"]:.3f}** by the medians; pair by pair
from {min(ratios):.3f} to {max(ratios):.3f}, median {statistics.median(ratios):.3f}. Memory of the Python driver beyond
plain's: **{(memory["rekindle"] - memory["plain"]) / MB:.0f} MB**.

{datetime.now(timezone.utc):%Y-%m-%d}; {cpu()}, {psutil.cpu_count()} CPUs (load {load:.1f} before the run),
{psutil.virtual_memory().total / 1e9:.0f} GB; {platform.system()} {platform.release()}; Python
{platform.python_version()}, PySpark {spark.version}, Java {java[0] if java else "?"}, Rekindle
{version("rekindle")}."""


def cpu() -> str:
    """What the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def publish(text: str) -> None:
    """Put `text` between the markers of docs/benchmarks.md."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Rekindle against plain Structured Streaming.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    parser.add_argument("--no-page", action="store_true", help="leave docs/benchmarks.md alone")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    # The session that Rekindle makes, for both: the same state store with the same settings.
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        scratch = Path(folder)
        data = scratch / "bids"
        bids = nexmark.write_history(data, given.events, FILES)
        runs = compare(spark, data, scratch, given.pairs)
        expected = windows(spark.read.parquet(str(data))).count()
        if runs["rekindle"].rows != {expected}:
            sys.exit(f"bench: Rekindle wrote {runs['rekindle'].rows} rows, a batch query has {expected}")
        memory = {name: driver_bytes(name, data, scratch) for name in CONTENDERS}
        text = section(spark, runs, bids, memory, load)
    spark.stop()
    print(f"\n{text}")
    if not given.no_page:
        publish(text)


if __name__ == "__main__":
    main()
