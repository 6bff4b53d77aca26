"""`make bench-pipeline`, shared step: when is a step worth a task of its own?

The example of `examples/orders.py`, on a history alone: hourly revenue, sessions per user and an archive, all of what
`enrich` yields; sessions by Spark's session windows, so that Python takes no part. Three ways to the same output, in
one Spark session:

- three plain Structured Streaming queries with `availableNow`, each of which reads and enriches for itself;
- a job in which `enrich` is a task: computed once, kept in a channel, read by three tasks;
- a job in which `enrich` is a Python function that the three tasks call: each of them reads and enriches for itself.

And two kinds of `enrich`: a dear one, which parses JSON and joins, and a cheap one, which multiplies two columns.

Plain queries do a little less: they leave the last windows and sessions in state. The jobs must have written the rows
that a batch query yields.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import functions as F

import rekindle as rk
from measuring import ROOT, SETTINGS, arguments, cpu_seconds, middle, publish, settled, where
from rekindle.session.session import make_session

sys.path.insert(0, str(ROOT / "examples"))

import orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Step = Callable[[DataFrame], DataFrame]

FILES = 16
EVENT = "order long, user long, product long, pieces long, ts timestamp"
SLACK = "1 hour"
"""Watermark of the plain queries; they read the files in order."""


def dear(events: DataFrame) -> DataFrame:
    """Parse JSON, join."""
    table = events.sparkSession.createDataFrame(orders.products(), "product long, category string, cents long")
    parsed = events.select(F.from_json("json", EVENT).alias("o"), "ts").select(
        "o.order", "o.user", "o.product", "o.pieces", "ts"
    )
    known = parsed.join(F.broadcast(table), "product")
    return known.select("order", "user", "category", (F.col("pieces") * F.col("cents")).alias("revenue"), "ts")


def cheap(events: DataFrame) -> DataFrame:
    """Multiply."""
    category = F.concat(F.lit("category "), F.col("product"))
    return events.select("order", "user", category.alias("category"), (F.col("pieces") * 100).alias("revenue"), "ts")


def revenue(enriched: DataFrame) -> DataFrame:
    """Per hour and category."""
    hourly = enriched.groupBy(F.window("ts", "1 hour"), "category")
    sums = hourly.agg(F.count("*").alias("orders"), F.sum("revenue").alias("revenue"))
    return sums.select(F.col("window.start").alias("hour"), "category", "orders", "revenue")


def sessions(enriched: DataFrame) -> DataFrame:
    """Of each user; by Spark's session windows, since a processor in Python would take most of the time of all ways."""
    found = enriched.groupBy(F.session_window("ts", "15 minutes").alias("session"), "user")
    sums = found.agg(F.count("*").alias("orders"), F.sum("revenue").alias("revenue"))
    return sums.select(
        "user", F.col("session.start").alias("begin"), F.col("session.end").alias("end"), "orders", "revenue"
    )


def archive(enriched: DataFrame) -> DataFrame:
    """Pass every order on."""
    return enriched


READERS: dict[str, Step] = {"revenue": revenue, "sessions": sessions, "archive": archive}


def plain(spark: SparkSession, data: Path, work: Path, enrich: Step) -> None:
    """Run three plain queries."""
    schema = spark.read.parquet(str(data)).schema
    queries = []
    for name, reader in READERS.items():
        events = spark.readStream.schema(schema).parquet(str(data)).withWatermark("ts", SLACK)
        writer = reader(enrich(events)).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
        queries.append(writer.option("checkpointLocation", str(work / "progress" / name)).start(str(work / name)))
    for query in queries:
        query.awaitTermination()


def task(spark: SparkSession, data: Path, work: Path, enrich: Step) -> None:
    """Run a job with a task of its own for the step."""
    job = rk.Job("task")
    events = job.source("events", rk.Files(str(data)), event_time="ts")
    enriched = job.task(events, uid="enrich", event_time="ts")(enrich)
    for name, reader in READERS.items():
        job.sink(f"{name}_out", job.task(enriched, uid=name)(reader), rk.sinks.Parquet(work / name))
    run(job, spark, work)


def function(spark: SparkSession, data: Path, work: Path, enrich: Step) -> None:
    """Run a job whose tasks call the step."""
    job = rk.Job("function")
    events = job.source("events", rk.Files(str(data)), event_time="ts")
    for name, reader in READERS.items():
        job.sink(f"{name}_out", job.task(events, uid=name)(chained(enrich, reader)), rk.sinks.Parquet(work / name))
    run(job, spark, work)


def chained(enrich: Step, reader: Step) -> Step:
    """Return a function of one task that does both."""
    return lambda events: reader(enrich(events))


def run(job: rk.Job, spark: SparkSession, work: Path) -> None:
    """Run a job to its end."""
    result = job.run(spark, storage=str(work / "state"))
    assert result.state == "FINISHED", result


WAYS = {"three plain queries": plain, "a task": task, "a function": function}
STEPS: dict[str, tuple[Step, int]] = {"dear": (dear, 500_000), "cheap": (cheap, 10_000_000)}
"""Kind of step → the step, and how many orders."""


@dataclass
class Runs:
    """Figures of one way: one of each run."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def write(data: Path, kind: str, spark: SparkSession, count: int) -> None:
    """Write orders in Parquet: as JSON for the dear step, in columns for the cheap one."""
    for number in range(FILES):
        orders.drop(
            data / "columns",
            f"{number:03d}.parquet",
            orders.orders(count * number // FILES, count * (number + 1) // FILES),
        )
    if kind == "dear":
        events = spark.read.parquet(str(data / "columns")).repartition(FILES)
        events.select(F.to_json(F.struct("*")).alias("json"), "ts").write.parquet(str(data / "dear"))
    else:
        (data / "columns").rename(data / "cheap")


def rows(folder: Path) -> int:
    """Count the rows that were written below a folder."""
    return sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet") if ".rekindle" not in path.parts)


def compare(spark: SparkSession, scratch: Path, kind: str, runs: int) -> dict[str, Runs]:
    """Run one round to warm up, then `runs` that count, the ways in turn."""
    found = {name: Runs() for name in WAYS}
    step, count = STEPS[kind]
    write(scratch, kind, spark, count)
    for number in range(runs + 1):
        written = {}
        for name in sorted(WAYS, reverse=number % 2 == 1):
            work = scratch / f"{kind}-{number}-{WAYS[name].__name__}"
            began, cpu_began = time.perf_counter(), cpu_seconds()
            WAYS[name](spark, scratch / kind, work, step)
            seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu_began
            written[name] = {reader: rows(work / reader) for reader in READERS}
            print(f"{kind}, run {number or 'to warm up'}: {name}: {seconds:.2f} s, {cpu:.2f} s of CPU", flush=True)
            if number:
                found[name].seconds.append(seconds)
                found[name].cpu_seconds.append(cpu)
            shutil.rmtree(work)
        if written["a task"] != written["a function"] or written["a task"]["archive"] != count:
            sys.exit(f"bench: the ways differ in what they wrote: {written}")
        print(f"rows: {written}")
    return found


def section(ways: dict[str, Runs]) -> str:
    """Return the figures as Markdown."""
    lines = []
    base = ways["three plain queries"]
    for name, runs in ways.items():
        seconds, cpu = middle(runs.seconds), middle(runs.cpu_seconds)
        lines.append(
            f"| {name} | {seconds:.2f} | {min(runs.seconds):.2f} to {max(runs.seconds):.2f} | {cpu:.2f} "
            f"| {seconds / middle(base.seconds):.2f} | {cpu / middle(base.cpu_seconds):.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = arguments("A shared step as a task, as a function, and in plain queries.")
    parser.add_argument("--only", choices=tuple(STEPS), help="one kind of step")
    given = parser.parse_args()
    spark = make_session("rekindle-bench", SETTINGS)
    for kind in [given.only] if given.only else STEPS:
        load_before = settled()
        with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
            found = compare(spark, Path(folder), kind, given.runs)
        text = f"""\
| a {kind} `enrich` in | median s | s | median CPU s | time, of plain | CPU, of plain |
| --- | ---: | ---: | ---: | ---: | ---: |
{section(found)}

- {STEPS[kind][1]:,} orders in {FILES} files; medians of {given.runs} runs in turn, after one to warm up
{where(spark, load_before)}"""
        publish(f"shared-step-{kind}", text, load_before=load_before, page=not given.no_page)
    spark.stop()


if __name__ == "__main__":
    main()
