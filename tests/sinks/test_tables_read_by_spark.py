"""Tables of the Delta and the Iceberg sink as Spark itself reads them, with the formats' own connectors.

It is another Spark, in a process of its own. The connectors are made for one version of Spark each, so these tests run
in `make matrix`, on the versions that have some.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.sinks import Delta, Iceberg
from rekindle.testing.sink_contract import batch_of, permit
from tests.servers.kafka import jars
from tests.sinks.test_iceberg import properties, table_of

WITHOUT = "no connectors of Delta and Iceberg for this Spark: `make matrix` tries others"
pytestmark = [pytest.mark.spark, pytest.mark.skipif(not jars("spark-tables"), reason=WITHOUT)]

COLUMNS = (
    "id",
    "date_from_unix_date(CAST(id % 3 AS INT)) AS day",
    "timestamp_micros(id) AS ts",
    "CAST(id / 4 AS DECIMAL(9, 2)) AS price",
    "if(id % 7 = 0, NULL, concat('ä ', id)) AS text",
    "array(id, NULL) AS list",
    "struct(id AS a) AS nested",
)
OF_ONE_DAY = "day = DATE'1970-01-02' AND id > 50"

OTHER_SPARK = """
import json, sys
from pyspark.sql import SparkSession

format, path, filter, more, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
for name, value in {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
table = spark.read.format(format).load(path)
rows = [row[0] for row in table.selectExpr("to_json(struct(*))").collect()]
filtered = table.where(filter).count()
if more:
    table.limit(int(more)).write.format(format).mode("append").save(path)
print(json.dumps([rows, filtered, spark.read.format(format).load(path).count()]))
spark.stop()
"""


def read(form: str, path: str, more: int = 0) -> Any:
    """Its rows as JSON, how many a filter leaves, and how many there are when `more` have been added."""
    connectors = ",".join(map(str, jars("spark-tables")))
    command = [sys.executable, "-c", OTHER_SPARK, form, path, OF_ONE_DAY, str(more or ""), connectors]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3_000:]
    return json.loads(run.stdout.splitlines()[-1])


def as_json(frame: DataFrame) -> list[str]:
    return [row[0] for row in frame.selectExpr("to_json(struct(*))").collect()]


@pytest.mark.parametrize("partitions", [[], ["day"]], ids=["plain", "partitioned"])
def test_spark_reads_a_delta_table_and_writes_beside_the_sink(
    spark: SparkSession, tmp_path: Path, partitions: list[str]
) -> None:
    target, frame = tmp_path / "bids ä", spark.range(100).selectExpr(*COLUMNS)
    sink = Delta(target, partition_by=partitions)
    sink.open("job-1", "out")
    for number in (1, 2):
        sink.commit(sink.prepare(frame, batch_of(number)), permit(number))

    rows, filtered, grown = read("delta", str(target), more=3)

    assert sorted(rows) == sorted(2 * as_json(frame))
    assert filtered == 2 * frame.where(OF_ONE_DAY).count() > 0
    assert grown == 203
    sink.commit(sink.prepare(frame, batch_of(3)), permit(3))
    assert read("delta", str(target))[2] == 303


@pytest.mark.parametrize("partitions", [[], ["day"]], ids=["plain", "partitioned"])
def test_spark_reads_an_iceberg_table(spark: SparkSession, tmp_path: Path, partitions: list[str]) -> None:
    target, frame = tmp_path / "warehouse", spark.range(100).selectExpr(*COLUMNS)
    sink = Iceberg("local", "db.bids", properties=properties(target), partition_by=partitions)
    sink.open("job-1", "out")
    for number in (1, 2):
        sink.commit(sink.prepare(frame, batch_of(number)), permit(number))

    rows, filtered, _ = read("iceberg", table_of(target).metadata_location)

    assert sorted(rows) == sorted(2 * as_json(frame))
    assert filtered == 2 * frame.where(OF_ONE_DAY).count() > 0
