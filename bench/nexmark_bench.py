"""`make bench-nexmark`: Nexmark's queries as jobs, as plain streaming queries and as batch jobs, over the same files.

All run in one Spark session, with their state in RocksDB. A plain query runs twice: as Spark has RocksDB by itself, and
with the settings that Rekindle chooses. They take turns, the order changing from round to round, after one round that
does not count. Each job's rows are compared with DuckDB's, one by one, and the benchmark
fails where any is missing or too many; how many a plain query leaves behind is a column.

Writes docs/benchmarks.md only with all queries.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import SETTINGS, arguments, cpu_seconds, middle, publish, settled, where
from nexmark_queries import QUERIES, Query
from nexmark_runs import differences, run_job, run_plain, write_streams
from rekindle.session.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, FILES, RUNS = 2_000_000, 8, 3
COUNTED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
"""The one setting of RocksDB that a session of Rekindle has, and Spark by itself has not, that changes its speed."""

Run = Callable[[Query, "SparkSession", Path, Path], object]


def plain_with_spark_s_settings(query: Query, spark: SparkSession, data: Path, work: Path) -> None:
    """Run a plain query as RocksDB is used without Rekindle."""
    chosen = spark.conf.get(COUNTED)
    spark.conf.set(COUNTED, "true")
    try:
        run_plain(query, spark, data, work)
    finally:
        spark.conf.set(COUNTED, str(chosen))


WAYS: dict[str, Run] = {
    "plain": plain_with_spark_s_settings,
    "plain, settings of Rekindle": run_plain,
    "Rekindle": run_job,
    "Rekindle, batch": partial(run_job, mode="batch"),
}
"""Column → how it is run."""


@dataclass
class Runs:
    """Figures of one way with one query: one of each run."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    #: rows that there should be and are not
    missing: int = 0


def measure(
    query: Query, way: str, spark: SparkSession, data: Path, scratch: Path
) -> tuple[float, float, dict[str, int]]:
    """Run a query one way in a fresh folder: seconds, CPU seconds, and how its rows differ from DuckDB's."""
    work = scratch / "run"
    began, cpu_began = time.perf_counter(), cpu_seconds()
    WAYS[way](query, spark, data, work)
    took, used = time.perf_counter() - began, cpu_seconds() - cpu_began
    found = differences(query, data, work / "out")
    shutil.rmtree(work)
    if found["too many"] or (found["missing"] and way.startswith("Rekindle")):
        sys.exit(f"bench: {query.name}, {way}: {found}")
    return took, used, found


def compare(spark: SparkSession, names: list[str], data: Path, scratch: Path, runs: int) -> dict[str, dict[str, Runs]]:
    """Run one round to warm up, then `runs` that count; return query → way → figures."""
    found = {name: {way: Runs() for way in WAYS} for name in names}
    for name in names:
        for number in range(runs + 1):
            for way in list(WAYS) if number % 2 else list(reversed(WAYS)):
                took, used, rows = measure(QUERIES[name], way, spark, data, scratch)
                print(f"{name} {way:28} {took:6.2f} s, {used:6.2f} s of CPU, {rows}", flush=True)
                if number:
                    run = found[name][way]
                    run.seconds.append(took)
                    run.cpu_seconds.append(used)
                    run.missing = rows["missing"]
    return found


def section(spark: SparkSession, found: dict[str, dict[str, Runs]], given: tuple[int, int], load_before: float) -> str:
    """Return the figures as Markdown."""
    events, runs = given
    lines = []
    for name, ways in found.items():
        plain, chosen, ours, batch = (middle(ways[way].seconds) for way in WAYS)
        lines.append(
            f"| {name} | {QUERIES[name].asks} | {plain:.2f} | {chosen:.2f} | {ours:.2f} | **{plain / ours:.2f}** "
            f"| {chosen / ours:.2f} | {batch:.2f} | {ways['plain'].missing:,} |"
        )
    return f"""\
| query | what it asks | plain, s | plain with our settings, s | Rekindle, s | against plain | against the second \
| batch, s | rows that plain leaves |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

- {events:,} events (persons, auctions and bids, 2 : 6 : 92) in {FILES} Parquet files a stream; medians of {runs} runs
  in turn, after one more; one Spark session on `{spark.sparkContext.master}`. The rows of each job are DuckDB's.
{where(spark, load_before)}"""


def main() -> None:
    parser = arguments("Nexmark, beside plain Structured Streaming.", runs=RUNS)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    parser.add_argument("--queries", nargs="+", default=list(QUERIES), choices=list(QUERIES), metavar="NAME")
    given = parser.parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        data = Path(folder) / "streams"
        write_streams(data, given.events, FILES)
        found = compare(spark, given.queries, data, Path(folder), given.runs)
        text = section(spark, found, (given.events, given.runs), load_before)
    spark.stop()
    whole = given.queries == list(QUERIES)
    publish("nexmark", text, load_before=load_before, page=whole and not given.no_page)
    if not whole and not given.no_page:
        print("bench: docs/benchmarks.md was left alone: it takes all queries", file=sys.stderr)


if __name__ == "__main__":
    main()
