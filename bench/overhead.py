"""`make bench`: what Rekindle costs beside plain Structured Streaming, on one plan, in one Spark session.

5 M bids in Parquet, counted per auction in windows of 10 seconds, written as Parquet: once as a plain query with
``availableNow`` and Spark's file sink, once as a Rekindle job over the same files. Both run in turn, the order changing
from pair to pair, after two pairs to warm up that do not count. Plain Structured Streaming does a little less: it
leaves the last windows in state, where Rekindle's job ends with a flush and a final checkpoint, and must have the rows
of a batch query. Then each runs once more in a process of its own, for the memory of its Python driver.

Prints the figures and writes them between the markers in docs/benchmarks.md.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from contenders import CONTENDERS, windows
from measuring import MB, ROOT, SETTINGS, Agreement, agree, arguments, cpu_seconds, publish, settled, where
from rekindle.session.session import make_session

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, FILES = 5_434_783, 32
WARM_UP = 2


@dataclass
class Runs:
    """Figures of one contender: one of each run."""

    seconds: list[float] = field(default_factory=list)
    #: of the Python driver and its JVM together; other work on the machine hardly changes it
    cpu_seconds: list[float] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)


def measure(name: str, spark: SparkSession, data: Path, scratch: Path, runs: Runs) -> None:
    """Run a contender in a fresh folder."""
    work = scratch / name
    began, cpu_began = time.perf_counter(), cpu_seconds()
    CONTENDERS[name](spark, data, work)
    runs.seconds.append(time.perf_counter() - began)
    runs.cpu_seconds.append(cpu_seconds() - cpu_began)
    runs.rows.add(sum(pq.read_metadata(path).num_rows for path in (work / "out").rglob("*.parquet")))
    shutil.rmtree(work)


def compare(spark: SparkSession, data: Path, scratch: Path, pairs: int) -> tuple[dict[str, Runs], Agreement]:
    """Run two pairs to warm up, then `pairs` that count, and those that disagree again."""
    runs = {name: Runs() for name in CONTENDERS}

    def one(pair: int) -> None:
        for name in sorted(CONTENDERS, reverse=pair % 2 == 1):
            run = runs[name] if pair > 0 else Runs()
            measure(name, spark, data, scratch, run)
            times = f"{run.seconds[-1]:6.2f} s, {run.cpu_seconds[-1]:6.2f} s of CPU"
            print(f"pair {pair if pair > 0 else 'to warm up'}: {name:9} {times}", flush=True)

    for pair in range(1 - WARM_UP, pairs + 1):
        one(pair)
    return runs, agree(runs, one)


def driver_bytes(name: str, data: Path, scratch: Path) -> int:
    """Return the most memory of a contender's Python driver, in a process of its own, in bytes."""
    work = scratch / f"{name}-alone"
    command = [sys.executable, str(ROOT / "bench" / "contenders.py"), name, str(data), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: {name} alone failed\n{done.stderr}")
    shutil.rmtree(work)
    return int(done.stdout.split()[-1])


def section(spark: SparkSession, runs: dict[str, Runs], bids: int, memory: dict[str, int], said: str) -> str:
    """Return the figures as Markdown."""
    plain, ours = runs["plain"], runs["rekindle"]
    ratios = [a / b for a, b in zip(plain.seconds, ours.seconds, strict=True)]
    by_medians = statistics.median(plain.seconds) / statistics.median(ours.seconds)
    by_cpu = statistics.median(plain.cpu_seconds) / statistics.median(ours.cpu_seconds)
    beyond = memory["rekindle"] - memory["plain"]
    rows = [
        f"| {name} | {statistics.median(run.seconds):.2f} | {min(run.seconds):.2f} to {max(run.seconds):.2f} "
        f"| {bids / statistics.median(run.seconds):,.0f} | {statistics.median(run.cpu_seconds):.2f} "
        f"| {' or '.join(f'{count:,}' for count in sorted(run.rows))} | {memory[name] / MB:.0f} |"
        for name, run in runs.items()
    ]
    return f"""\
{bids:,} bids in {FILES} Parquet files, 10-second windows per auction, Parquet out; {len(ratios)} pairs in turn, one
Spark session on `{spark.sparkContext.master}`.

| | median s | s | bids/s | median CPU s | rows out | Python driver, MB |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

- Throughput of Rekindle against plain, by the medians: **{by_medians:.3f}** (pair by pair {min(ratios):.3f} to
  {max(ratios):.3f}, median {statistics.median(ratios):.3f}). By CPU time: **{by_cpu:.3f}**.
- Memory of the Python driver beyond plain's: **{beyond / MB:.0f} MB**.
{said}"""


def main() -> None:
    parser = arguments("Rekindle against plain Structured Streaming.")
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    given = parser.parse_args()
    load_before = settled()
    # The session that Rekindle makes, for both: the same state store with the same settings.
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        scratch = Path(folder)
        data = scratch / "bids"
        bids = nexmark.write_history(data, given.events, FILES)
        runs, agreed = compare(spark, data, scratch, given.runs)
        expected = windows(spark.read.parquet(str(data))).count()
        if runs["rekindle"].rows != {expected}:
            sys.exit(f"bench: Rekindle wrote {runs['rekindle'].rows} rows, a batch query has {expected}")
        memory = {name: driver_bytes(name, data, scratch) for name in CONTENDERS}
        text = section(spark, runs, bids, memory, f"{agreed.said}{where(spark, load_before)}")
    spark.stop()
    publish("overhead", text, load_before=load_before, page=not given.no_page, disagreeing=agreed.disagreeing)


if __name__ == "__main__":
    main()
