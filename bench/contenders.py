"""The two contenders of `overhead.py`: one plan, as a plain streaming query and as a Rekindle job.

    python bench/contenders.py plain|rekindle BIDS WORK

runs one of them in a process of its own, on a session as each has it by itself, and prints the most memory that its
Python driver held, in bytes (JVM not included).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from measuring import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "auction long, bidder long, price long, channel string, url string, ts timestamp"


def windows(bids: DataFrame) -> DataFrame:
    """Compute the windows: the plan of both contenders."""
    return (
        bids.groupBy(F.window("ts", "10 seconds"), "auction")
        .agg(F.count("*").alias("bids"), F.max("price").alias("highest"))
        .select(F.col("window.start").alias("start"), "auction", "bids", "highest")
    )


def plain(spark: SparkSession, data: Path, work: Path) -> None:
    """Plain Structured Streaming with its file sink: all that is there, and then the end."""
    bids = spark.readStream.schema(SCHEMA).parquet(str(data)).withWatermark("ts", "4 seconds")
    writer = windows(bids).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "progress")).start(str(work / "out")).awaitTermination()


def plain_with_marks(spark: SparkSession, data: Path, work: Path) -> None:
    """Run the plain query with what a job's input adds: the guard, and the union with the watermark rows."""
    from rekindle.spark.inputs.watermark_rows import watermarked

    marks = work / "marks"
    marks.mkdir(parents=True)
    bids = watermarked(
        spark, spark.readStream.schema(SCHEMA).parquet(str(data)), "bids", "ts",
        delay="4 seconds", late="fail", observed=False, marks=str(marks),
    )  # fmt: skip
    writer = windows(bids).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "progress")).start(str(work / "out")).awaitTermination()


Mode = Literal["streaming", "batch"]


def rekindle(spark: SparkSession | None, data: Path, work: Path, mode: Mode = "streaming") -> None:
    """Run the same plan as a job with one bounded source; without `spark` the job makes its own session."""
    import rekindle as rk  # here, so that the plain driver's memory is without it

    job = rk.Job("overhead")
    bids = job.source("bids", rk.Files(str(data), format="parquet", schema=SCHEMA), event_time="ts")
    counts = job.task(bids, uid="windows")(windows)
    job.sink("counts", counts, rk.sinks.Parquet(str(work / "out")))
    result = job.run(spark, storage=str(work / "state"), mode=mode, spark_config=None if spark else SETTINGS)
    if result.state != "FINISHED":
        sys.exit(f"bench: the job ended {result.state}: {result.error}")


CONTENDERS: dict[str, Callable[[SparkSession, Path, Path], None]] = {"plain": plain, "rekindle": rekindle}


def peak_bytes() -> int:
    """Return the most memory that this process has held so far, in bytes; Linux only."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    name, data, work = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if name == "rekindle":
        rekindle(None, data, work)
    else:
        builder = SparkSession.builder
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        plain(spark, data, work)
        spark.stop()
    print(peak_bytes())


if __name__ == "__main__":
    main()
