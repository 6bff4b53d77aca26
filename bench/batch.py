"""`make bench`: what a batch run gains over a streaming run of the same bounded job (FLIP-147, figure 1).

5 M bids in Parquet, counted per auction in windows of 10 seconds: once as a streaming run, which keeps every window in
its state store and looks each up as its bids come, once with ``mode="batch"``, which sorts them. Both run in turn, in
one Spark session, after a pair to warm up, and must write the same rows.

Prints the figures and writes them between the markers in docs/benchmarks.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from contenders import Mode, rekindle
from measuring import ROOT, SETTINGS, arguments, cpu_seconds, middle, publish, settled, where
from rekindle.session.session import make_session

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, FILES = 5_434_783, 32
MODES: tuple[Mode, ...] = ("streaming", "batch")


def measure(spark: SparkSession, mode: Mode, data: Path, work: Path) -> tuple[float, float, int, int]:
    """Run the job; return seconds, CPU seconds, rows, and the sum of the bids that they count."""
    began, cpu_began = time.perf_counter(), cpu_seconds()
    rekindle(spark, data, work, mode)
    took = time.perf_counter() - began, cpu_seconds() - cpu_began
    tables = [pq.read_table(path, columns=["bids"]) for path in (work / "out").glob("*.parquet")]
    rows, counted = sum(table.num_rows for table in tables), sum(sum(table["bids"].to_pylist()) for table in tables)
    shutil.rmtree(work)
    return *took, rows, counted


def main() -> None:
    parser = arguments("A batch run against a streaming run.")
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    given = parser.parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    cpu: dict[str, list[float]] = {mode: [] for mode in MODES}
    written = Counter[tuple[int, int]]()
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data = Path(folder, "bids")
        bids = nexmark.write_history(data, given.events, FILES)
        for run in range(given.runs + 1):
            for mode in sorted(MODES, reverse=run % 2 == 1):
                took, cpu_took, rows, counted = measure(spark, mode, data, Path(folder, mode))
                print(f"run {run or 'to warm up'}: {mode:9} {took:6.2f} s, {cpu_took:6.2f} s of CPU", flush=True)
                written[rows, counted] += 1
                if run:
                    seconds[mode].append(took)
                    cpu[mode].append(cpu_took)
        if len(written) != 1 or next(iter(written))[1] != bids:
            sys.exit(f"bench: the runs wrote different rows: {written}")
        lines = [
            f"| {mode} | {middle(seconds[mode]):.2f} | {min(seconds[mode]):.2f} to {max(seconds[mode]):.2f} "
            f"| {middle(cpu[mode]):.2f} | {next(iter(written))[0]:,} |"
            for mode in MODES
        ]
        by_time = middle(seconds["batch"]) / middle(seconds["streaming"])
        by_cpu = middle(cpu["batch"]) / middle(cpu["streaming"])
        text = f"""\
| | median s | s | median CPU s | rows out |
| --- | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

- A batch run takes **{by_time:.2f}** of the time of a streaming run, and **{by_cpu:.2f}** of its CPU time.
- {bids:,} bids in {FILES} files, 10-second windows per auction; medians of {given.runs} runs in turn, after one more
{where(spark, load_before)}"""
    spark.stop()
    publish("batch", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
