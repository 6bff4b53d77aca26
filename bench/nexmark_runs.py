"""Run Nexmark's queries: as a job and as a plain query over files, and in DuckDB for the rows that there must be."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import pyarrow.parquet as pq

import rekindle as rk
from measuring import ROOT
from nexmark_queries import DELAY, SCHEMAS, Query

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_streams(folder: Path, events: int, files: int) -> None:
    """Write persons, auctions and bids among the first `events` events, each stream in a folder with so many files."""
    cuts = [events * number // files for number in range(files + 1)]
    for stream, rows in {"bids": nexmark.bids, "auctions": nexmark.auctions, "persons": nexmark.persons}.items():
        (folder / stream).mkdir(parents=True)
        for first, last in itertools.pairwise(cuts):
            pq.write_table(rows(first, last), folder / stream / f"{first:012d}.parquet")


def run_job(
    query: Query, spark: SparkSession, data: Path, work: Path, mode: Literal["streaming", "batch"] = "streaming"
) -> rk.JobResult:
    """Run a query as a job over all the files, which writes Parquet into ``work/out``."""
    job = rk.Job(query.name)
    sources: list[Any] = [
        job.source(stream, rk.Files(str(data / stream), schema=SCHEMAS[stream]), event_time="ts")
        for stream in query.reads
    ]
    job.sink("rows", job.task(*sources, uid="answer")(query.task), rk.sinks.Parquet(str(work / "out")))
    return job.run(spark, storage=str(work / "state"), mode=mode)


def run_plain(query: Query, spark: SparkSession, data: Path, work: Path) -> None:
    """Run it as a plain streaming query over all the files; rows that no later row lets out stay in its state."""

    def read(stream: str) -> DataFrame:
        files = spark.readStream.schema(SCHEMAS[stream]).parquet(str(data / stream))
        return files.withWatermark("ts", DELAY)

    answer = query.task(*map(read, query.reads))
    writer = answer.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "progress")).start(str(work / "out")).awaitTermination()


def differences(query: Query, data: Path, out: Path) -> dict[str, int]:
    """Compare the rows in `out` with DuckDB's: how many there are, are missing, and should not be there."""
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        for stream in query.reads:
            engine.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{data / stream}/*.parquet')")
        engine.execute(f"CREATE TABLE expected AS {query.sql}")
        found = f"(FROM read_parquet('{out}/**/*.parquet', hive_partitioning = false))"
        counts = {
            "rows": "FROM expected",
            "missing": f"FROM (FROM expected EXCEPT ALL {found})",
            "too many": f"FROM ({found} EXCEPT ALL FROM expected)",
        }
        return {name: engine.execute(f"SELECT count(*) {of}").fetchall()[0][0] for name, of in counts.items()}
