"""The part of `make bench-growth` about columns: a job and a plain query that put out so many sums of windows.

They read ten rows, so all that is measured is what the plan costs: the user's function, which makes each column by
calls to the JVM, Rekindle's look at the plan, and Spark's planning.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import rekindle as rk
from measuring import middle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, RUNS = 10, 3


def columns(spark: SparkSession, work: Path, size: int) -> dict[str, float]:
    """Measure a plain query and a job, in turn, from the start to the end."""
    names = [f"c{number}" for number in range(size)]
    schema = ", ".join(("ts timestamp", "k string", *(f"{name} long" for name in names)))

    def sums(rows: DataFrame) -> DataFrame:
        made = rows.select("ts", "k", *((F.col(name) + 1).alias(name) for name in names))
        return made.groupBy(F.window("ts", "1 hour"), "k").agg(*(F.sum(name).alias(name) for name in names))

    times = pa.array([datetime(2025, 1, 1, tzinfo=timezone.utc)] * ROWS, pa.timestamp("us", "UTC"))
    data = {"ts": times, "k": ["a"] * ROWS, **{name: [1] * ROWS for name in names}}
    (work / "rows").mkdir(parents=True)
    pq.write_table(pa.table(data), work / "rows" / "0.parquet")

    def plain(number: int) -> None:
        rows = spark.readStream.schema(schema).parquet(str(work / "rows")).withWatermark("ts", "1 minute")
        writer = sums(rows).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(work / f"progress-{number}"))
        writer.start(str(work / f"plain-{number}")).awaitTermination()

    def job(number: int) -> None:
        made = rk.Job("columns")
        rows = made.source("rows", rk.Files(str(work / "rows"), schema=schema), event_time="ts")
        made.sink("out", made.task(rows, uid="sums")(sums), rk.sinks.Parquet(str(work / f"job-{number}")))
        made.run(spark, storage=str(work / f"state-{number}"))

    took: dict[str, list[float]] = {"plain": [], "job": []}
    for number in range(RUNS):
        for name, act in (("plain", plain), ("job", job)):
            began = time.perf_counter()
            act(number)
            took[name].append(time.perf_counter() - began)
    whole, ours = middle(took["plain"]), middle(took["job"])
    return {"plain, s": whole, "Rekindle, s": ours, "beyond plain, s": ours - whole}
