"""Run Nexmark's queries: as a job and as a plain query over files, and in DuckDB for the rows that there must be."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlparse

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import rekindle as rk
from measuring import ROOT
from nexmark_queries import DELAY, SCHEMAS, Query

sys.path.insert(0, str(ROOT / "examples"))

import nexmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def write_streams(folder: Path, events: int, files: int) -> None:
    """Write persons, auctions and bids among the first `events` events, each stream in a folder with so many files.

    Their times are whole milliseconds, since Flink's event time knows no parts of one.
    """
    cuts = [events * number // files for number in range(files + 1)]
    for stream, rows in {"bids": nexmark.bids, "auctions": nexmark.auctions, "persons": nexmark.persons}.items():
        (folder / stream).mkdir(parents=True)
        for first, last in itertools.pairwise(cuts):
            pq.write_table(_in_milliseconds(rows(first, last)), folder / stream / f"{first:012d}.parquet")


def _in_milliseconds(rows: pa.Table) -> pa.Table:
    for number, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(number, field, pc.floor_temporal(rows.column(number), unit="millisecond"))
    return rows


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
    start_plain(query, spark, data, work, availableNow=True).awaitTermination()


def start_plain(query: Query, spark: SparkSession, data: Path, work: Path, **trigger: Any) -> StreamingQuery:
    """Start it as a plain streaming query over the files that are there and, without a `trigger`, those that come."""

    def read(stream: str) -> DataFrame:
        files = spark.readStream.schema(SCHEMAS[stream]).parquet(str(data / stream))
        return files.withWatermark("ts", DELAY)

    answer = query.task(*map(read, query.reads))
    writer = answer.writeStream.format("parquet").outputMode("append")
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.option("checkpointLocation", str(work / "progress")).start(str(work / "out"))


def written(out: Path) -> list[Path]:
    """Return the committed files in `out`, by the log of Spark's file sink where there is one."""
    if not out.exists():
        return []
    log = out / "_spark_metadata"
    if log.is_dir():
        lines = itertools.chain.from_iterable(path.read_text().splitlines() for path in log.glob("[0-9]*"))
        named = {Path(unquote(urlparse(json.loads(line)["path"]).path)) for line in lines if line.startswith("{")}
        return sorted(named)
    return sorted(out.glob("part-*"))


def differences(query: Query, data: Path, out: Path) -> dict[str, int]:
    """Compare the rows in `out` with DuckDB's: how many there are, are missing, and should not be there."""
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        for stream in query.reads:
            engine.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{data / stream}/*.parquet')")
        engine.execute(f"CREATE TABLE expected AS {query.sql}")
        # A plain query with few rows may have kept them all.
        files = [str(path) for path in written(out)]
        found = f"(FROM read_parquet({files}, hive_partitioning = false))" if files else "(FROM expected LIMIT 0)"
        counts = {
            "rows": "FROM expected",
            "missing": f"FROM (FROM expected EXCEPT ALL {found})",
            "too many": f"FROM ({found} EXCEPT ALL FROM expected)",
        }
        return {name: engine.execute(f"SELECT count(*) {of}").fetchall()[0][0] for name, of in counts.items()}
