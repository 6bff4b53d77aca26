"""DataFrames that are a list of rows, and what stands in for Spark where a sink lets it write them."""

# ruff: noqa: N802, N815 -- names are Spark's

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rekindle.sinks.postgres.columns import PART
from rekindle.sinks.writing import Counts
from rekindle.testing.sink_rivals import Row

SCHEMA = StructType([StructField("n", IntegerType()), StructField("text", StringType())])

EFFECTS = ("tests.sinks.plain_frames.write_file", "tests.sinks.plain_frames.run_task")
"""What executors do."""


class PlainFrame:
    """Rows ``(n, text)``, each in a partition of its own."""

    schema = SCHEMA
    columns = SCHEMA.names
    #: its settings are whatever is asked for
    sparkSession = MagicMock()

    def __init__(self, rows: Sequence[Row], selected: Sequence[str] = ()) -> None:
        self.rows, self.selected = rows, selected

    def selectExpr(self, *expressions: str) -> PlainFrame:
        """Take note of them."""
        return PlainFrame(self.rows, [*self.selected, *expressions])

    def mapInArrow(self, act: Callable[[Iterator[Any]], Iterator[Any]], _: str) -> SimpleNamespace:
        """As the PostgreSQL sink writes: the columns, and the number of the partition."""

        def collect() -> list[SimpleNamespace]:
            return [
                SimpleNamespace(**result)
                for partition, (n, text) in enumerate(self.rows)
                for batch in run_task(act, _arrow({"n": [n], "text": [text], PART: [partition]}))
                for result in batch.to_pylist()
            ]

        return SimpleNamespace(collect=collect)


def _arrow(columns: Mapping[str, list[Any]]) -> pa.RecordBatch:
    types = {"n": pa.int32(), "text": pa.string(), PART: pa.int32()}
    return pa.record_batch({name: pa.array(values, types[name]) for name, values in columns.items()})


def run_task(act: Callable[[Iterator[Any]], Iterator[Any]], batch: pa.RecordBatch) -> list[Any]:
    """Run a task on an executor."""
    return list(act(iter([batch])))


def run_write(frame: PlainFrame, path: str, partition_by: Sequence[str], _: Mapping[str, Any]) -> Counts:
    """Write a file for each partition, as `rekindle.sinks.writing.run_write` does."""
    folder = Path(path.removeprefix("file://"))
    assert not folder.exists(), "an attempt has a folder of its own"
    for number, (n, text) in enumerate(frame.rows):
        columns, below = {"n": pa.array([n], pa.int32()), "text": pa.array([text], pa.string())}, folder
        if partition_by:  # as Kafka's lanes are
            producers = int(re.findall(r", (\d+)\)", frame.selected[0])[0])
            below = folder / f"{partition_by[0]}={n % producers}"
            message = json.dumps({"n": n, "text": text})
            columns = {"k": pa.array([str(n).encode()]), "v": pa.array([message.encode()])}
            columns["s"] = pa.array([len(message) + 50])
        write_file(pa.table(columns), below / f"part-{number:05d}.parquet")
    return Counts(len(frame.rows), len(frame.rows))


def write_file(table: pa.Table, path: Path) -> None:
    """Write a file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
