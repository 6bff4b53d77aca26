"""`make bench-defaults`: stateful queries as jobs, and as plain queries in a session without any setting.

Spark's defaults are 200 partitions, state in the heap, and where it is in RocksDB, a count of its rows. Each plain
way differs from the one before by one of them, up to the settings of a session that Rekindle makes on one machine. So
what the settings do is told apart from what a job does beside them. All ways take turns in one Spark session, and the
rows of each job are compared with DuckDB's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import SETTINGS, arguments, cpu_seconds, middle, publish, settled, where
from nexmark_queries import QUERIES, Query
from nexmark_runs import run_job, run_plain, write_streams
from nexmark_tables import table
from nexmark_ways import COUNTED, Found, Way, compare
from rekindle.session.session import make_session
from rekindle.spark.query.optimizer import changed
from state_settings import CHANGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, FILES, RUNS = 750_000, 8, 1
NAMES = ("q3", "q8", "q20", "q23", "q4", "q6", "q9", "q5", "q7", "q11", "q15", "q16", "q17", "q18", "q19")
"""All queries of Nexmark that keep state."""

_PARTITIONS = {"spark.sql.shuffle.partitions": "200"}
_HEAP = CHANGES["state in the heap"]
_COUNTED = {COUNTED: "true"}

PLAIN: dict[str, Mapping[str, str]] = {
    "Spark's defaults": {**_PARTITIONS, **_HEAP, **_COUNTED},
    "a partition a core": {**_HEAP, **_COUNTED},
    "and RocksDB": _COUNTED,
    "and no count of rows": {},
}
"""Way of a plain query → in what its settings differ from those of the session that Rekindle makes."""

JOB = "Rekindle"


def ways(spark: SparkSession) -> dict[str, Way]:
    """Return name → way, in the order of the table."""

    def plain(settings: Mapping[str, str], query: Query, data: Path, work: Path) -> float:
        with changed(spark, settings):
            run_plain(query, spark, data, work)
        return 0.0

    def job(query: Query, data: Path, work: Path) -> float:
        run_job(query, spark, data, work)
        return 0.0

    found = {name: Way(partial(plain, settings), cpu_seconds, ("missing",)) for name, settings in PLAIN.items()}
    return {**found, JOB: Way(job, cpu_seconds)}


def defaults_table(found: Found) -> str:
    """Return the seconds of each query each way, and how many times as fast a job is as Spark by its defaults."""
    head = ("query", "what it asks", *(f"{way}, s" for way in (*PLAIN, JOB)), "Rekindle, of Spark's defaults", "by CPU")
    rows = []
    for name, runs in found.items():
        base, ours = runs[next(iter(PLAIN))], runs[JOB]
        speed = middle(base.seconds) / middle(ours.seconds)
        by_cpu = middle(base.cpu_seconds) / middle(ours.cpu_seconds)
        seconds = (f"{middle(runs[way].seconds):.2f}" for way in (*PLAIN, JOB))
        rows.append((name, QUERIES[name].asks, *seconds, f"**{speed:.2f}**", f"{by_cpu:.2f}"))
    return table(head, rows, words=2)


def main() -> None:
    """Measure, and write the part of docs/benchmarks.md."""
    parser = arguments("Stateful queries as jobs, beside Spark by its defaults.", runs=RUNS)
    parser.add_argument("--events", type=int, default=EVENTS, help="auction events, 92 %% of them bids")
    parser.add_argument("--queries", nargs="+", default=list(NAMES), choices=NAMES, metavar="NAME")
    given = parser.parse_args()
    load_before = settled()
    spark = make_session("rekindle-bench", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as folder:
        data, few = Path(folder) / "streams", Path(folder) / "few"
        write_streams(data, given.events, FILES)
        write_streams(few, given.events // 10, FILES)
        found = compare(given.queries, ways(spark), data, few, given.runs)
        text = f"""\
{defaults_table(found)}

- {given.events:,} events (persons, auctions and bids, 2 : 6 : 92) in {FILES} Parquet files a stream;
  {"one run" if given.runs == 1 else f"medians of {given.runs} runs"} each way, in turn, after one over a tenth of the
  rows; one Spark session on `{spark.sparkContext.master}`. The rows of each job are DuckDB's.
{where(spark, load_before)}"""
    spark.stop()
    publish("defaults", text, load_before=load_before, page=not given.no_page and given.queries == list(NAMES))


if __name__ == "__main__":
    main()
