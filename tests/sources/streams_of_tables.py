"""The lives of one job that reads a table of Delta or Iceberg: `test_streams_of_tables` says what happens.

Its last line is a list: for each run the ids in its sink, and the code of the error that it ended with, or null.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rekindle as rk
from tests.waiting import until

FORM, FOLDER, CONNECTORS, STEPS = sys.argv[1:]
EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
SETTINGS = {
    "spark.jars": CONNECTORS,
    "spark.sql.extensions": ",".join(EXTENSIONS),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.local.type": "hadoop",
    "spark.sql.catalog.local.warehouse": f"{FOLDER}/warehouse",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
CONFIG = {"checkpoint.interval": "1 s", "restart.attempts": 3, "restart.delay": "100 ms"}
EVERY_SNAPSHOT = "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1"

OUT, STORAGE = Path(FOLDER, "out"), Path(FOLDER, "storage")
NAME = f"delta.`{FOLDER}/table`" if FORM == "delta" else "local.db.t"
WHERE = f"{FOLDER}/table" if FORM == "delta" else NAME


class Lives:
    """The table, the job and its runs."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.found: list[Any] = []
        self.handle: rk.JobHandle | None = None
        #: those that were added
        self.rows = 0
        self._create()

    def _create(self) -> None:
        self.spark.sql(f"CREATE TABLE {NAME} (id bigint) USING {FORM}")

    def _job(self, options: dict[str, str]) -> rk.Job:
        job = rk.Job("reads-a-table")
        read = rk.Stream(lambda spark: spark.readStream.format(FORM).options(**options).load(WHERE))
        rows = job.task(job.source("table", read), uid="ids")(lambda df: df.select("id"))
        job.sink("out", rows, rk.sinks.Parquet(str(OUT)))
        return job

    def _end(self, end: Callable[[], Any]) -> None:
        try:
            error = end().error
            code = error and error["code"]
        except rk.RekindleError as raised:
            code = raised.code
        self.found.append([self._ids(), code])

    def _ids(self) -> list[int]:
        if not any(OUT.glob("*.parquet")):
            return []
        return sorted(row.id for row in self.spark.read.schema("id bigint").parquet(str(OUT)).collect())

    def add(self, first: int, end: int) -> None:
        """Append the rows from `first` to before `end`."""
        values = ", ".join("id" if column == "id" else "NULL" for column in self.spark.table(NAME).columns)
        self.spark.sql(f"INSERT INTO {NAME} SELECT {values} FROM range({first}, {end})")
        self.rows += end - first

    def sql(self, statement: str) -> None:
        """Do something to the table."""
        self.spark.sql(statement.format(table=NAME))

    def drop(self) -> None:
        """Make the table again, under the same name."""
        if FORM == "delta":
            shutil.rmtree(WHERE)
        else:
            self.spark.sql(f"DROP TABLE {NAME}")
        self._create()

    def expire(self) -> None:
        """Delete what leads from the last run's version to those after it."""
        if FORM == "delta":
            self.sql("ALTER TABLE {table} SET TBLPROPERTIES (delta.checkpointInterval = 2)")
            self.add(30, 31)
            self.add(31, 32)
            log = Path(WHERE, "_delta_log")
            kept = json.loads(log.joinpath("_last_checkpoint").read_text())["version"]
            for path in log.glob("0*"):
                if int(path.name.partition(".")[0]) < kept:
                    path.unlink()
            self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        else:
            self.spark.sql(f"CALL local.system.expire_snapshots(table => 'db.t', {EVERY_SNAPSHOT})").collect()

    def run(self, options: dict[str, str] | None = None) -> None:
        """Read what is there, and stop."""
        job = self._job(options or {})
        self._end(lambda: job.run(self.spark, storage=str(STORAGE), config=CONFIG, available_now=True))

    def start(self) -> None:
        """Begin to read, and wait for the first rows."""
        self.handle = self._job({}).start(self.spark, storage=str(STORAGE), config=CONFIG)
        until(lambda: len(self._ids()) == self.rows, pause_s=0.3)

    def wait(self) -> None:
        """Wait until the job has failed, or has read what was added; then stop it."""
        assert self.handle is not None
        handle = self.handle
        until(lambda: handle.status().state == "FAILED" or len(self._ids()) == self.rows, pause_s=0.3)
        self._end(handle.wait if handle.status().state == "FAILED" else handle.stop)


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    lives = Lives(builder.getOrCreate())
    lives.spark.sparkContext.setLogLevel("ERROR")
    for verb, *arguments in json.loads(STEPS):
        getattr(lives, verb)(*arguments)
    print(json.dumps(lives.found))
    lives.spark.stop()
