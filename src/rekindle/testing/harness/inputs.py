"""Sources that stand in for a job's own: folders into which the test puts rows, a Parquet file at a time.

Files outlast a driver, and can be read again from any checkpoint. A file of an unbounded source is a batch. The hidden
column of an unbounded source marks a row that has nothing but an event time: it moves the watermark, and is dropped
before the user's function sees it, above the watermark and not below (see `watermark_rows`).
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from rekindle.runtime.definition import SourceSpec
from rekindle.sources import Files, Source, SplitSource, Stream

Schema = str | T.StructType

_HIDDEN = "__rekindle_time_only"
_FIRST_S = 1_600_000_000
_WRITTEN = itertools.count(_FIRST_S)
"""The times of files, in seconds: Spark reads a stream's files in their order, and each is after the one before."""


class GivenSource:
    """The rows of one source of one test.

    Args:
        schema: its columns; None: those that the job's `Files` or `SplitSource` says, or as the first rows have them.
    """

    def __init__(self, spark: SparkSession, spec: SourceSpec, folder: Path, schema: Schema | None) -> None:
        self._spark = spark
        self.uid = spec.source.uid
        self._folder = folder
        self._files = 0
        self._event_time = spec.source.event_time
        given = schema or (spec.spec.schema if isinstance(spec.spec, Files | SplitSource) else None)
        self._schema = None if given is None or callable(given) else _parsed(spark, given)
        folder.mkdir(parents=True)
        self.bounded = spec.spec.bounded
        #: rows of it may have nothing but a time
        self.timed = not self.bounded and self._event_time is not None

    def spec(self, own: Source) -> Source:
        """Return what the job reads in the place of its own source.

        Raises:
            ValueError: no one has said which columns it has.
        """
        if self._schema is None:
            raise ValueError(f"which columns has source {self.uid!r}? Say schemas={{{self.uid!r}: ...}}, or add rows")
        schema, path = self._stored(self._schema), str(self._folder)
        if not self.bounded:
            return Stream(
                lambda spark: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path),
            )
        if not self._files:
            self._write([])
        if isinstance(own, Files):
            return Files(path, schema=schema, transform=own.transform, ordered=own.ordered)
        return Files(path, schema=schema)

    def add(self, rows: Sequence[Any] | DataFrame) -> None:
        """Add a file of rows."""
        if isinstance(rows, DataFrame):
            if self._schema is None:
                self._schema = rows.schema
            rows = rows.collect()
        plain = [row.asDict() if isinstance(row, T.Row) else dict(row) for row in rows]
        if self._schema is None:
            self._schema = self._inferred(plain)
        times = [field.name for field in self._schema if isinstance(field.dataType, T.TimestampType)]
        known = set(self._schema.names)
        for row in plain:
            if unknown := row.keys() - known:
                raise ValueError(f"source {self.uid!r} has no column {min(unknown)!r}, but {sorted(known)}")
            row.update((name, _instant(row[name])) for name in times if name in row)
        self._write(plain)

    def add_time(self, to: datetime | str) -> None:
        """Add a row of that time which no one sees."""
        if not self.timed or self._schema is None:
            raise ValueError(f"the event time of source {self.uid!r} cannot be moved: it is bounded, or has none")
        self._write([{self._event_time: _instant(to), _HIDDEN: True}])

    def _inferred(self, rows: Sequence[Mapping[str, Any]]) -> T.StructType:
        typed = [
            {name: _instant(value) if name == self._event_time else value for name, value in row.items()}
            for row in rows
        ]
        return self._spark.createDataFrame(typed).schema

    def _stored(self, schema: T.StructType) -> T.StructType:
        hidden = [T.StructField(_HIDDEN, T.BooleanType())] if self.timed else []
        return T.StructType([*(T.StructField(one.name, one.dataType) for one in schema), *hidden])

    def _write(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        assert self._schema is not None, "its columns are known by now"
        schema = _in_arrow(self._stored(self._schema))
        name, written = f"{self._files:06d}.parquet", next(_WRITTEN)
        self._files += 1
        hidden = self._folder / f".{name}"
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), hidden)
        os.utime(hidden, (written, written))
        os.rename(hidden, self._folder / name)


def without_times(function: Callable[..., DataFrame], inputs: Sequence[GivenSource | None]) -> Callable[..., DataFrame]:
    """Return a task's function, called without the rows that have nothing but a time.

    Args:
        inputs: what stands in for each of its inputs; None for another task, or a source of the job's own.
    """

    def called(*frames: DataFrame) -> DataFrame:
        return function(*[_seen(frame, given) for frame, given in zip(frames, inputs, strict=True)])

    return called


def _seen(frame: DataFrame, given: GivenSource | None) -> DataFrame:
    if given is None or not given.timed:
        return frame
    # Not deterministic, so that Spark does not drop them before they have moved the watermark.
    return frame.filter(F.col(_HIDDEN).isNull() | (F.spark_partition_id() < 0)).drop(_HIDDEN)


def _parsed(spark: SparkSession, schema: Schema) -> T.StructType:
    if isinstance(schema, T.StructType):
        return schema
    return spark.createDataFrame([], schema).schema


def _in_arrow(schema: T.StructType) -> pa.Schema:
    # Since Spark 4.3 it wants the zone, which had been UTC.
    wanted = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    convert: Any = to_arrow_schema
    return convert(schema, **wanted)


def _instant(value: datetime | str | None) -> datetime | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    return value.replace(tzinfo=timezone.utc) if value is not None and value.tzinfo is None else value
