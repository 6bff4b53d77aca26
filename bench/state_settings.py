"""`make bench-settings`: what each of Spark's settings of state does to the speed of queries that keep some.

Plain streaming queries of Nexmark, each with the settings that Rekindle chooses and with one of them changed, in turn
in one Spark session. A ratio is the time of the chosen settings by the time with the change: above 1, the change is
faster.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import SETTINGS, arguments, cpu_seconds, middle, publish, settled, where
from nexmark_queries import QUERIES
from nexmark_runs import run_plain, write_streams
from rekindle.session.session import make_session
from rekindle.spark.query.optimizer import changed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, FILES, RUNS = 500_000, 8, 3
NAMES = ("q5", "q7", "q18", "q20")
"""Queries with windows, keys and joins in their state."""

_STATE = "spark.sql.streaming.stateStore."
_ROCKSDB = f"{_STATE}rocksdb."

CHANGES: dict[str, Mapping[str, str]] = {
    "as chosen": {},
    "rows of state counted (Spark's default)": {f"{_ROCKSDB}trackTotalNumberOfRows": "true"},
    "changelogs between snapshots": {f"{_ROCKSDB}changelogCheckpointing.enabled": "true"},
    "one memory for all partitions": {f"{_ROCKSDB}boundedMemoryUsage": "true"},
    "write buffers of 64 MB": {f"{_ROCKSDB}writeBufferSizeMB": "64"},
    "blocks of 16 KB": {f"{_ROCKSDB}blockSizeKB": "16"},
    "a block cache of 64 MB": {f"{_ROCKSDB}blockCacheSizeMB": "64"},
    "no compression": {f"{_ROCKSDB}compression": "none"},
    "no checksums of checkpoint files": {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"},
    "no checksums of shuffled rows": {"spark.sql.shuffle.orderIndependentChecksum.enabled": "false"},
    "state of joins in version 3": {"spark.sql.streaming.join.stateFormatVersion": "3"},
    "state in the heap": {
        f"{_STATE}providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    },
}
"""Change → its settings."""


def took(name: str, spark: SparkSession, data: Path, work: Path, change: Mapping[str, str]) -> tuple[float, float]:
    """Run a query with a change; return its seconds and CPU seconds."""
    with changed(spark, change):
        began, cpu_began = time.perf_counter(), cpu_seconds()
        try:
            run_plain(QUERIES[name], spark, data, work)
            return time.perf_counter() - began, cpu_seconds() - cpu_began
        finally:
            shutil.rmtree(work)


def compare(
    spark: SparkSession, names: list[str], data: Path, scratch: Path, runs: int
) -> dict[str, dict[str, list[float]]]:
    """Run one round to warm up, then `runs` that count; return change → query → seconds."""
    found: dict[str, dict[str, list[float]]] = {change: {name: [] for name in names} for change in CHANGES}
    for name in names:
        for number in range(runs + 1):
            for change in list(CHANGES) if number % 2 else list(reversed(CHANGES)):
                try:
                    seconds, cpu = took(name, spark, data, scratch / "run", CHANGES[change])
                except Exception as error:
                    print(f"{name} {change:40} refused: {str(error)[:200]}", flush=True)
                    continue
                print(f"{name} {change:40} {seconds:6.2f} s, {cpu:6.2f} s of CPU", flush=True)
                if number:
                    found[change][name].append(seconds)
    return found


def section(
    spark: SparkSession, found: dict[str, dict[str, list[float]]], given: tuple[int, int], load_before: float
) -> str:
    """Return the figures as Markdown."""
    events, runs = given
    chosen = {name: middle(seconds) for name, seconds in found["as chosen"].items()}
    lines = [
        f"| {change} | {' | '.join(f'{chosen[name] / middle(s):.2f}' if s else '' for name, s in times.items())} |"
        for change, times in found.items()
        if change != "as chosen"
    ]
    return f"""\
| | {" | ".join(chosen)} |
| --- |{" ---: |" * len(chosen)}
| **as chosen, s** | {" | ".join(f"{seconds:.2f}" for seconds in chosen.values())} |
{chr(10).join(lines)}

- {events:,} events in {FILES} Parquet files a stream; plain queries; medians of {runs} runs in turn, after one more;
  one Spark session on `{spark.sparkContext.master}`, with as many partitions of state
{where(spark, load_before)}"""


def main() -> None:
    """Measure, and write the part of docs/benchmarks.md."""
    parser = arguments("Spark's settings of state, one by one.", runs=RUNS)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    parser.add_argument("--queries", nargs="+", default=list(NAMES), choices=list(QUERIES), metavar="NAME")
    given = parser.parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data = Path(folder) / "streams"
        write_streams(data, given.events, FILES)
        found = compare(spark, given.queries, data, Path(folder), given.runs)
        text = section(spark, found, (given.events, given.runs), load_before)
    spark.stop()
    publish("settings", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
