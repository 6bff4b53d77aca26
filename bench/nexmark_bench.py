"""`make bench-nexmark`: Nexmark's queries as jobs, as plain streaming queries and in Flink, over the same files.

The first part, `queries`, runs each to its end. On Spark all run in one session, with their state in RocksDB; a plain
query runs twice, as Spark has RocksDB by itself, and with the settings that Rekindle chooses. In Flink all run in one
process, with their state on the heap and in RocksDB. They take turns, the order changing from round to round, after a
round over few rows that does not count. Each job's rows are compared with DuckDB's, one by one, and the benchmark fails
where any is missing or too many; how many plain and Flink lose are columns.

The second part, `recovery`, stops and kills queries whose streams go on (`nexmark_live`).

Each part is written into docs/benchmarks.md only with all of its queries. Flink is there after `make flink`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from measuring import SETTINGS, arguments, publish, settled, where
from nexmark_flink import Flink, installed, version
from nexmark_live import EVENTS_A_SECOND, FILES, LIVE, engines, live
from nexmark_queries import QUERIES
from nexmark_runs import write_streams
from nexmark_tables import Lives, lives_table, rows_table, seconds_table
from nexmark_ways import compare, ways
from rekindle.session.session import make_session

EVENTS, STREAM_FILES, RUNS = 750_000, 8, 1
"""A whole run is to stay below 25 minutes on two cores, a third of which is for the second part."""
KILLS, RUN_S = 2, 7
"""Kills of each job, and how long it runs before it is stopped or killed: longer than a checkpoint is away."""
DRY_EVENTS = 20_000
ASKS = {name: query.asks for name, query in QUERIES.items()}
NO_FLINK = "- Left out: Flink, which `make flink` installs"


def queries_part(given: Namespace, folder: Path, load_before: float) -> str:
    """Run every query to its end; the figures as Markdown."""
    data, warming = folder / "streams", None if given.dry else folder / "few"
    write_streams(data, given.events, STREAM_FILES)
    if warming:
        write_streams(warming, given.events // 10, STREAM_FILES)
    began = time.perf_counter()
    spark = make_session("rekindle-bench", SETTINGS)
    spark.sql("SELECT 1").collect()
    started_s = time.perf_counter() - began
    flink = Flink(folder / "flink") if given.flink else None
    try:
        found = compare(given.queries, ways(spark, flink), data, warming, given.runs)
        said = _flink_started(flink) if flink else NO_FLINK
        return f"""\
{seconds_table(found, ASKS)}

{rows_table(found)}

- {given.events:,} events (persons, auctions and bids, 2 : 6 : 92) in {STREAM_FILES} Parquet files a stream;
  {_runs(given)}; one Spark session on
  `{spark.sparkContext.master}`, one process of Flink with two slots and a checkpoint every 5 seconds. The rows of
  each job are DuckDB's.
- Spark's session starts in {started_s:.1f} s, which is in no figure.
{said}
{where(spark, load_before)}"""
    finally:
        if flink:
            flink.kill()
        spark.stop()


def _runs(given: Namespace) -> str:
    counted = "one run each way" if given.runs == 1 else f"medians of {given.runs} runs each way, in turn"
    return counted if given.dry else f"{counted}, after one over a tenth of the rows"


def _flink_started(flink: Flink) -> str:
    return f"""\
- Flink {version()} starts in {flink.start_s:.1f} s, which is in no figure. What stands after the plus it takes to plan
  the query and to start a cluster within the process: it is in the CPU seconds, and not in the ratios."""


def recovery_part(given: Namespace, folder: Path, load_before: float) -> str:
    """Stop and kill some of the queries; the figures as Markdown."""
    spool = folder / "ready"
    write_streams(spool, EVENTS_A_SECOND * FILES, FILES)
    lives: Lives = {}
    for name in given.live:
        for engine, make in engines(flink=given.flink).items():
            life = lives[name, engine] = live(make, name, spool, run_s=given.run_s, kills=given.kills)
            print(f"{name} {engine}: {life}", flush=True)
            if engine == "Rekindle" and life.wrong:
                sys.exit(f"bench: {name}: {life.wrong} rows that should not be there")
    spark = make_session("rekindle-bench", SETTINGS)
    text = f"""\
{lives_table(lives, ASKS)}

- {EVENTS_A_SECOND:,} events a second, a file of each stream a second; a checkpoint every 5 seconds;
  {given.kills} kills of each, {given.run_s} seconds after a new row: median, least and most
{f"- Flink {version()}" if given.flink else NO_FLINK}
{where(spark, load_before)}"""
    spark.stop()
    return text


PARTS = {"queries": ("nexmark", queries_part), "recovery": ("nexmark-recovery", recovery_part)}
"""Part → its place in docs/benchmarks.md, and what measures it."""


def told(words: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = arguments("Nexmark, beside plain Structured Streaming and Flink.", runs=RUNS)
    parser.add_argument("--events", type=int, help=f"auction events, 92 %% of them bids (default {EVENTS:,})")
    parser.add_argument("--only", choices=list(PARTS), help="one of the two parts")
    parser.add_argument("--queries", nargs="+", choices=list(QUERIES), metavar="NAME", help="of both parts")
    parser.add_argument("--kills", type=int, default=KILLS, help="of each job in the second part")
    parser.add_argument("--without-flink", action="store_true")
    parser.add_argument(
        "--dry",
        action="store_true",
        help="few rows, one run of each, one kill: see that the rows are right, write nothing",
    )
    given = parser.parse_args(words)
    given.flink = installed() and not given.without_flink
    given.whole = given.queries is None
    given.live = [name for name in LIVE if given.whole or name in given.queries]
    given.queries = given.queries or list(QUERIES)
    given.events = given.events or (DRY_EVENTS if given.dry else EVENTS)
    given.run_s = RUN_S
    if given.dry:
        given.runs = given.kills = 1
    return given


def main() -> None:
    given = told()
    for part in [given.only] if given.only else list(PARTS):
        place, measured = PARTS[part]
        load_before = 0.0 if given.dry else settled()
        with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as folder:
            text = measured(given, Path(folder), load_before)
        publish(place, text, load_before=load_before, page=given.whole and not (given.dry or given.no_page))
    if not given.whole:
        print("bench: docs/benchmarks.md was left alone: it takes all queries", file=sys.stderr)


if __name__ == "__main__":
    main()
