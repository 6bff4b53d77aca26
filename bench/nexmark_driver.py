"""A query of Nexmark over streams that go on, in a process of its own: what `nexmark_live` stops and kills.

    python bench/nexmark_driver.py rekindle|plain QUERY DATA WORK

The first line on its input stops it; it answers with how many seconds that took, and where the savepoint lies.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rekindle as rk
from measuring import SETTINGS
from nexmark_queries import DELAY, QUERIES, SCHEMAS, Query
from nexmark_runs import start_plain

CHECKPOINT_S = 5
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def _stream(data: Path, name: str) -> rk.Stream:
    return rk.Stream(lambda spark: spark.readStream.schema(SCHEMAS[name]).parquet(str(data / name)))


def rekindle(query: Query, data: Path, work: Path) -> None:
    """Run it as a job until it is stopped with a savepoint."""
    job = rk.Job(query.name)
    sources: list[Any] = [
        job.source(name, _stream(data, name), event_time="ts", watermark=DELAY) for name in query.reads
    ]
    job.sink("rows", job.task(*sources, uid="answer")(query.task), rk.sinks.Parquet(str(work / "out")))
    config = {"checkpoint.interval": f"{CHECKPOINT_S} seconds"}
    handle = job.start(storage=str(work / "state"), spark_config=SETTINGS, config=config)
    sys.stdin.readline()
    began = time.perf_counter()
    result = handle.stop(savepoint=str(work / "savepoints"))
    print(json.dumps({"seconds": time.perf_counter() - began, "savepoint": result.savepoint}), flush=True)


def plain(query: Query, data: Path, work: Path) -> None:
    """Run it as a plain streaming query until it is stopped; Spark makes no savepoints."""
    builder = SparkSession.builder
    for key, value in {**SETTINGS, "spark.sql.streaming.stateStore.providerClass": ROCKSDB}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    running = start_plain(query, spark, data, work)
    sys.stdin.readline()
    began = time.perf_counter()
    running.stop()
    print(json.dumps({"seconds": time.perf_counter() - began, "savepoint": None}), flush=True)


ENGINES = {"rekindle": rekindle, "plain": plain}


if __name__ == "__main__":
    ENGINES[sys.argv[1]](QUERIES[sys.argv[2]], Path(sys.argv[3]), Path(sys.argv[4]))
