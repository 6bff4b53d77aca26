"""What a sink has committed is read back by another instance of it, without being opened: these rows and no others."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.sinks.reading import IN_FOLDERS
from rekindle.sinks.two_phase import TwoPhaseSink
from rekindle.testing.sink_under_test import batch_of, permit

DAY = dt.date(2025, 3, 1)
ODD = ["a b", "50%", "x=y/z", "+1", "ä", "{}", "'q'", None]


def parquet(root: Path) -> TwoPhaseSink:
    return rk.sinks.Parquet(root / "out [1]", partition_by=["k", "day"])


def delta(root: Path) -> TwoPhaseSink:
    return rk.sinks.Delta(root / "out", partition_by=["k", "day"])


def iceberg(root: Path) -> TwoPhaseSink:
    properties = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/warehouse"}
    return rk.sinks.Iceberg("shadow", "space.out", properties=properties, partition_by=["day"])


@pytest.mark.spark
@pytest.mark.parametrize("make", [parquet, delta, iceberg], ids=lambda make: make.__name__)
def test_rows_are_read_back_with_the_columns_that_only_folders_hold(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], TwoPhaseSink]
) -> None:
    sink = make(tmp_path)
    sink.open("job", "out")
    written = []
    for number, keys in enumerate((ODD, ODD[:3], ["never"])):
        frame = spark.createDataFrame([(key, DAY, at) for at, key in enumerate(keys)], "k string, day date, n long")
        written.append(sink.prepare(frame, batch_of(number)))
    sink.commit([*written[0], *written[1]], permit(1))

    frame = make(tmp_path).read_back(spark, [*written[0], *written[1]], job="job", sink="out")
    found = Counter((row["k"], str(row["day"]), row["n"]) for row in frame.select("k", "day", "n").collect())
    assert found == Counter((key, "2025-03-01", at) for keys in (ODD, ODD[:3]) for at, key in enumerate(keys))
    assert set(frame.columns) == {"k", "day", "n"}
    in_folders = [field.name for field in frame.schema.fields if field.metadata.get(IN_FOLDERS)]
    assert in_folders == ([] if make is iceberg else ["k", "day"])
    assert rk.sinks.Foreach(print).cannot_read_back is not None and sink.cannot_read_back is None
