"""Inputs of a task as streaming DataFrames (docs/architecture.md#event-time).

An input with an event time is ``transform(data) ∪ its marker inbox`` under one watermark::

    data ──► transform ──► guard ──┐
                                   ├─ union ─► withWatermark ─► drop the markers ─► the user's function
    marker inbox ──────────────────┘

A row is a marker by its own column, never by its value. The filter that drops the markers holds a non-deterministic
conjunct, which keeps Spark from pushing predicates, the user's or a join's, below the watermark, where they would drop
the markers too and freeze the query. The guard fails a batch that holds a time before 1970, which Spark would drop
silently as late (its watermarks begin at 1970, that very instant included), or a time after the year 9999, which would
move the watermark beyond all other rows.

Spark plans each batch by what it holds, and a batch may hold nothing but markers: nothing about them is foldable
(docs/decisions/0028-a-batch-is-not-planned-by-its-data.md).
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.channels.marks import MARK_COLUMN
from rekindle.errors import ConfigError, DefinitionError
from rekindle.session.failures import AFTER_9999, BEFORE_EPOCH, brief

MARKER = "__rekindle_marker"
"""Column that tells a watermark row from data, below the user's function; longer where the data has one like it."""

ABSENT = "_absent"
"""Column that no file of watermark rows has."""

WATERMARKED = "spark.watermarkDelayMs"
"""The key of a column's metadata under which Spark keeps the delay of its watermark, ms."""

_EPOCH = "timestamp_seconds(0)"

_AFTER_9999 = "timestamp_seconds(253402473600)"
"""Two days into the year 10000 in UTC: in every zone the year 9999 is over."""


def check_event_time(data: DataFrame, uid: str, column: str) -> None:
    """Check that a source has the column of its event time, and that this is a timestamp.

    Raises:
        DefinitionError: ``EVENT_TIME_MISSING``, ``EVENT_TIME_TYPE``.
    """
    if column not in data.columns:
        raise DefinitionError("EVENT_TIME_MISSING", source=uid, column=column, columns=", ".join(data.columns))
    kind = data.schema[column].dataType
    if not isinstance(kind, T.TimestampType):
        raise DefinitionError("EVENT_TIME_TYPE", source=uid, column=column, type=kind.simpleString())


def without_unusable_times(data: DataFrame, column: str) -> DataFrame:
    """Return the rows that ``late="drop"`` leaves: those later than the beginning of 1970, or without a time.

    Rows after the year 9999 are not among them.
    """
    time = quoted(column)
    return data.filter(f"{time} IS NULL OR ({time} > {_EPOCH} AND {time} < {_AFTER_9999})")


def timely(data: DataFrame, uid: str, column: str, *, late: str) -> DataFrame:
    """Return a source without times before 1970 or after 9999, or one that fails a batch where it meets one."""
    if late == "drop":
        return without_unusable_times(data, column)
    return data.withColumn(column, _guarded(uid, column))


def watermarked(
    spark: SparkSession,
    data: DataFrame,
    uid: str,
    column: str,
    *,
    delay: str,
    late: str,
    observed: bool,
    marks: str,
) -> DataFrame:
    check_event_time(data, uid, column)
    if any(WATERMARKED in (field.metadata or {}) for field in data.schema):
        raise DefinitionError("WATERMARK_IN_SOURCE", source=uid)
    marker = MARKER
    while marker.lower() in (name.lower() for name in data.columns):
        marker += "_"
    markers = _markers(spark, data, column, marker, marks)
    columns = {marker: F.lit(False)}
    if late == "drop":
        data = without_unusable_times(data, column)
    else:
        columns[column] = _guarded(uid, column)
    data = data.withColumns(columns)
    if observed:
        us = f"unix_micros({quoted(column)})"
        data = data.observe(observation(uid), F.expr("count(1)"), F.expr(f"min({us})"), F.expr(f"max({us})"))
    both = data.union(markers)
    try:
        timed = both.withWatermark(quoted(column), delay)
    except PySparkException as error:
        key = f"watermark of source {uid}"
        raise ConfigError("VALUE_INVALID", key=key, value=delay, reason=brief(error), example="'10 minutes'") from error
    return timed.filter(f"NOT {marker} OR spark_partition_id() < 0").drop(marker)


def _guarded(uid: str, column: str) -> Column:
    """Return a column of times that fails where one is before 1970 or after 9999.

    As SQL, which is one call to the JVM for all of it; the names have letters of the user's, so they come as bytes.
    """
    time = quoted(column)

    def failed(what: str) -> str:
        said = f"{what}:{uid}:{column}".encode().hex()
        return f"CAST(raise_error(decode(X'{said}', 'UTF-8')) AS timestamp_ltz)"

    early, late = (
        f"{time} <= {_EPOCH} THEN {failed(BEFORE_EPOCH)}",
        f"{time} >= {_AFTER_9999} THEN {failed(AFTER_9999)}",
    )
    return F.expr(f"CASE WHEN {early} WHEN {late} ELSE {time} END")


def _markers(spark: SparkSession, data: DataFrame, column: str, marker: str, marks: str) -> DataFrame:
    """Return the watermark rows with the columns of `data`, by position: all are null except the event time.

    In a batch without data Spark plans these rows alone, so its optimizer must learn nothing from them that is not true
    of data. A literal null would tell it that the column is always null, and of that it makes a filter for the other
    side of a join. So the nulls are computed: they are the fields of a row that is null, which hangs on a column that
    Spark believes to be in the file. One row for all of them, since each column made by itself is a dozen calls to the
    JVM. What `timestamp` alone means, a setting of the session decides.
    """
    rows = spark.readStream.schema(f"{MARK_COLUMN} timestamp_ltz, {ABSENT} int")
    read = rows.option("recursiveFileLookup", "true").parquet(marks)
    nothing = _computed_null(data._jdf.schema(), F.col(ABSENT))
    empty = read.withColumn(ABSENT, nothing).selectExpr(f"{ABSENT}.*", f"{MARK_COLUMN} AS {marker}")
    return empty.withColumns({column: F.col(marker), marker: F.lit(True)})


def _computed_null(kind: Any, absent: Column) -> Column:
    """Return a null that Spark cannot fold, since it depends on what a file holds.

    Args:
        kind: Spark's own type, not Python's, which loses the collation of a string.
        absent: a column that the file does not have.
    """
    null: Any = F.lit(None)
    return F.get(F.array(Column(null._jc.cast(kind))), absent)


def delay_of(data: DataFrame, column: str) -> int:
    """Return the delay of a column's watermark as Spark has understood it, ms."""
    return int(data.schema[column].metadata[WATERMARKED])


def observation(uid: str) -> str:
    """Return the name under which a batch reports how many rows an input had, and their event times."""
    return f"rekindle:{uid}"


def quoted(column: str) -> str:
    """Quote a column's name, so that Spark reads it whatever letters are in it."""
    return "`" + column.replace("`", "``") + "`"
