"""Make ``checkpoints/spark-<version>.zip``: what the queries of `queries.py` leave behind on one version of Spark.

    python tests/plain/make_checkpoints.py

in a virtual environment with that version of PySpark, pandas, pyarrow and (from Spark 4.0 on) protobuf. For each query
the archive holds its checkpoint directory and ``emitted.json``, the rows that came out before it was stopped.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))

import queries  # type: ignore[import-not-found]

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE = "spark.sql.streaming.stateStore"
STOPPED_AFTER = ("0.json", "1.json")


def session() -> SparkSession:
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.streaming.minBatchesToRetain": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def run(spark: SparkSession, folder: Path, build: Callable[[Any], Any], mode: str = "append") -> None:
    """Run a query to the end of what there is, as it would run anywhere."""
    emitted: list[Any] = []

    def keep(frame: Any, batch: int) -> None:
        emitted.extend(json.loads(row) for row in frame.toJSON().collect())

    queries.put(str(folder), *STOPPED_AFTER)
    rows = queries.stream(spark, str(folder))
    query = (
        build(rows)
        .writeStream.foreachBatch(keep)
        .outputMode(mode)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    (folder / "emitted.json").write_text(json.dumps(emitted))
    shutil.rmtree(folder / "in")


def main() -> None:
    root = Path(tempfile.mkdtemp())
    spark = session()
    for name in ("windows", "sessions", "timed"):
        run(spark, root / f"{name}-hdfs", getattr(queries, name))
    spark.conf.set(f"{STATE}.providerClass", ROCKSDB)
    for name in ("windows", "chained", "joined"):
        run(spark, root / f"{name}-rocksdb", getattr(queries, name))
    if VERSION >= (4, 0):
        run(spark, root / "timers-rocksdb", queries.timers)
    if VERSION >= (4, 2):
        spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
        run(spark, root / "windows-log2", queries.windows)
        spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")
    spark.conf.set(f"{STATE}.checkpointFormatVersion", "2")
    if VERSION >= (4, 0):
        run(spark, root / "windows-state2", queries.windows)
    spark.stop()

    folder = Path(__file__).parent / "checkpoints"
    folder.mkdir(exist_ok=True)
    target = folder / f"spark-{'.'.join(map(str, VERSION))}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.name.endswith(".crc"):
                archive.write(path, path.relative_to(root))
    shutil.rmtree(root)
    print(target, target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
