"""The ways in which the Nexmark benchmark runs a query to its end: on Spark, and in Flink where it is installed."""

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

from measuring import cpu_seconds
from nexmark_queries import QUERIES, Query
from nexmark_runs import differences, run_job, run_plain
from rekindle.spark.query.optimizer import changed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nexmark_flink import Flink

COUNTED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
"""The one setting of RocksDB that a session of Rekindle has, and Spark by itself has not, that changes its speed."""

PLAIN, CHOSEN, REKINDLE, BATCH = "plain", "plain, settings of Rekindle", "Rekindle", "Rekindle, batch"
HEAP, ROCKSDB = "Flink, heap", "Flink, RocksDB"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a query over all the files."""

    #: returns how many seconds of it were its start, which is no part of the job
    run: Callable[[Query, Path, Path], float]
    #: what its processes have used so far
    cpu_seconds: Callable[[], float]
    #: how its rows may differ from DuckDB's: "missing", "too many"; else the benchmark ends
    may: tuple[str, ...] = ()


@dataclass
class Runs:
    """Figures of one way with one query, one for each run."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    #: before, to plan the query and start a cluster, where that is no part of the job
    start_s: list[float] = field(default_factory=list)
    #: rows that there must be
    rows: int = 0
    #: rows that there should be and are not, in the last run
    missing: int = 0


Found = dict[str, dict[str, Runs]]
"""Query → way → figures."""


def ways(spark: SparkSession, flink: Flink | None) -> dict[str, Way]:
    """Return name → way, in the order of the table."""
    beside = flink.pids() if flink else []

    def used() -> float:
        return cpu_seconds(without=beside)

    def on_spark(run: Callable[[Query, SparkSession, Path, Path], object]) -> Callable[[Query, Path, Path], float]:
        def without_start(query: Query, data: Path, work: Path) -> float:
            run(query, spark, data, work)
            return 0.0

        return without_start

    found = {
        PLAIN: Way(on_spark(_plain_as_spark_is), used, ("missing",)),
        CHOSEN: Way(on_spark(run_plain), used, ("missing",)),
        REKINDLE: Way(on_spark(run_job), used),
        BATCH: Way(on_spark(partial(run_job, mode="batch")), used),
    }
    if flink:
        for name, state in ((HEAP, "heap"), (ROCKSDB, "RocksDB")):
            # A window that a late row does not reach comes out with a smaller number.
            found[name] = Way(partial(_in_flink, flink, state), flink.cpu_seconds, ("missing", "too many"))
    return found


def _plain_as_spark_is(query: Query, spark: SparkSession, data: Path, work: Path) -> None:
    """Run a plain query as RocksDB is used without Rekindle."""
    with changed(spark, {COUNTED: "true"}):
        run_plain(query, spark, data, work)


def _in_flink(flink: Flink, state: str, query: Query, data: Path, work: Path) -> float:
    start_s: float = flink.run(query.name, state, data, work)["start_s"]
    return start_s


def measure(query: Query, name: str, way: Way, data: Path, figures: Runs) -> None:
    """Run a query one way in a fresh folder, compare its rows with DuckDB's, and add to its figures."""
    work = Path(tempfile.mkdtemp(prefix="run-", dir=data.parent))
    began, cpu_began = time.perf_counter(), way.cpu_seconds()
    start_s = way.run(query, data, work)
    took, used = time.perf_counter() - began, way.cpu_seconds() - cpu_began
    found = differences(query, data, work / "out")
    # Flink deletes its checkpoints at the same time.
    shutil.rmtree(work, ignore_errors=True)
    print(f"{query.name} {name:28} {took:6.2f} s, {used:6.2f} s of CPU, {found}", flush=True)
    if any(found[kind] for kind in ("missing", "too many") if kind not in way.may):
        sys.exit(f"bench: {query.name}, {name}: {found}")
    figures.seconds.append(took - start_s)
    figures.start_s.append(start_s)
    figures.cpu_seconds.append(used)
    figures.rows, figures.missing = found["rows"], found["missing"]


def compare(names: list[str], by: dict[str, Way], data: Path, warming: Path | None, runs: int) -> Found:
    """Run each query each way `runs` times, the order changing from round to round.

    Args:
        data: the streams; its parent is where the runs write.
        warming: a few rows of them, for a round before that does not count.
    """
    found = {name: {way: Runs() for way in by} for name in names}
    for name in names:
        if warming is not None:
            for way, chosen in by.items():
                measure(QUERIES[name], way, chosen, warming, Runs())
        for number in range(runs):
            for way in list(by) if number % 2 else list(reversed(by)):
                measure(QUERIES[name], way, by[way], data, found[name][way])
    return found
