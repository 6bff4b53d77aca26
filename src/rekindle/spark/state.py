"""The state of a query as DataFrames, by Spark's own reader of state stores, and what can be said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from rekindle.errors import DefinitionError, RestoreError
from rekindle.progress.stored_state import JOIN, StatefulOperator, StoredTaskState
from rekindle.session.failures import brief

_READER_SINCE = "4.0"
_KEPT = ("partition_id", "key")
"""Columns of every part; what else there is belongs to the value."""
_NAMES = (StringType, NumericType, BooleanType)
"""Types of keys of maps that are names in JSON; of all others Spark writes what Java calls the object."""
AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """The rows that a part keeps of one key; the key as JSON."""

    key: str
    rows: int
    #: of the values as JSON
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSummary:
    """A summary of a part of an operator's state: its types, its counts and some of its rows."""

    #: of Spark's simple names, e.g. ``struct<k:string>``
    key_schema: str
    value_schema: str
    rows: int
    keys: int
    #: those with most rows first, then with most bytes
    heaviest: tuple[KeyRows, ...]
    #: key and value as JSON
    sample: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """A key that is not the same in two states; its values as JSON, none where it is not there."""

    key: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """Keys that came, went and changed, and some of them."""

    came: int
    went: int
    changed: int
    same: int
    examples: tuple[KeyChange, ...]


def state_frame(spark: SparkSession, state: StoredTaskState, operator: StatefulOperator, part: str | None) -> DataFrame:
    """Return the state of an operator as Spark's reader gives it.

    Raises:
        RestoreError: ``STATE_PART_NEEDED``, ``STATE_PART_UNKNOWN``, ``STATE_UNREADABLE``.
        DefinitionError: ``PYSPARK_TOO_OLD``: this Spark cannot read state.
    """
    if int(pyspark.__version__.split(".")[0]) < 4:
        reason = "it cannot read state"
        raise DefinitionError("PYSPARK_TOO_OLD", version=pyspark.__version__, reason=reason, wanted=_READER_SINCE)
    frame = read_state(spark, state, operator, **_part_option(operator, part))
    if operator.name == JOIN:
        frame = frame.withColumn("value", _as_its_schema_says(frame))
    return with_distinct_names(frame)


def read_state(
    spark: SparkSession, state: StoredTaskState, operator: StatefulOperator, **more: str | bool
) -> DataFrame:
    """Return what Spark's reader of state gives, with `more` options.

    Raises:
        RestoreError: ``STATE_UNREADABLE``.
    """
    options = {"batchId": state.batch, "operatorId": operator.number, **more}
    path = state.store.spark_path(state.folder)
    with read_by_spark(path):
        return spark.read.format("statestore").options(**options).load(path)


def with_distinct_names(frame: DataFrame) -> DataFrame:
    """Return the state with a number added to names that come twice in the key or the value: sum, sum_2.

    Spark calls what an aggregation keeps by its function, so two sums have one name, by which neither could be had. A
    row that was joined with a table may have two columns of one name.
    """
    for column in ("key", "value"):
        kind = frame.schema[column].dataType if column in frame.columns else None
        if isinstance(kind, StructType) and (names := _distinct(frame, kind)) != kind.names:
            frame = frame.withColumn(column, F.col(column).cast(_renamed(kind, names)))
    return frame


def fields(frame: DataFrame, column: str) -> list[Column]:
    """Return the fields of a structure, of which several may have one name."""
    kind, whole = frame.schema[column].dataType, F.col(column)
    assert isinstance(kind, StructType)
    names = _distinct(frame, kind)
    if names != kind.names:
        whole = whole.cast(_renamed(kind, names))
    return [whole.getField(name) for name in names]


def _distinct(frame: DataFrame, kind: StructType) -> list[str]:
    """Return names of which the session takes no two for one."""
    sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    names: list[str] = []
    taken: set[str] = set()
    own = {name if sensitive else name.lower() for name in kind.names}
    for name in kind.names:
        made, number = name, 1
        while (key := made if sensitive else made.lower()) in taken or (number > 1 and key in own):
            number += 1
            made = f"{name}_{number}"
        names.append(made)
        taken.add(key)
    return names


def _renamed(kind: StructType, names: Sequence[str]) -> StructType:
    made = [StructField(name, one.dataType, one.nullable, one.metadata) for name, one in zip(names, kind, strict=True)]
    return StructType(made)


@contextmanager
def read_by_spark(path: str) -> Iterator[None]:
    """Let Spark read state inside; raise RestoreError ``STATE_UNREADABLE`` where it cannot."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise RestoreError("STATE_UNREADABLE", path=path, reason=brief(error)) from error


def _as_its_schema_says(frame: DataFrame) -> Column:
    """Return a value of a join's state without what Spark hands out beside its columns: whether it was matched."""
    value = frame.schema["value"].dataType
    assert isinstance(value, StructType)
    return F.struct(*(one.alias(name) for one, name in zip(fields(frame, "value"), value.names, strict=True)))


def _part_option(operator: StatefulOperator, part: str | None) -> dict[str, str | bool]:
    known = ", ".join(operator.parts) or "none"
    if part is None:
        if operator.parts:
            raise RestoreError("STATE_PART_NEEDED", operator=operator.number, name=operator.name, known=known)
        return {}
    if part not in operator.parts:
        raise RestoreError("STATE_PART_UNKNOWN", operator=operator.number, name=operator.name, part=part, known=known)
    if operator.schema_files:
        return {"readRegisteredTimers": True} if part == operator.timers_part else {"stateVarName": part}
    return {"joinSide": part}


def summary(frame: DataFrame, shown: int) -> PartSummary:
    """Count a part's state, and show some of it."""
    texts = _texts(frame)
    keys = texts.groupBy("key").agg(F.count("*").alias("rows"), F.sum(F.octet_length("value")).alias("bytes"))
    totals = keys.agg(F.count("*"), F.coalesce(F.sum("rows"), F.lit(0))).first()
    assert totals is not None
    heaviest = keys.orderBy(F.desc("rows"), F.desc("bytes"), "key").limit(shown).collect()
    return PartSummary(
        key_schema=frame.select("key").schema[0].dataType.simpleString(),
        value_schema=frame.select(_value(frame)).schema[0].dataType.simpleString(),
        keys=totals[0],
        rows=totals[1],
        heaviest=tuple(KeyRows(key=one[0], rows=one[1], bytes=one[2]) for one in heaviest),
        sample=tuple((one[0], one[1]) for one in texts.orderBy("key", "value").limit(shown).collect()),
    )


def difference(before: DataFrame, after: DataFrame, shown: int) -> PartDifference:
    """Compare two states of one part, key by key; a key's values count in any order."""
    both = _by_key(before, "before").join(_by_key(after, "after"), "key", "full")
    kind = (
        F.when(F.col("before").isNull(), "came")
        .when(F.col("after").isNull(), "went")
        .when(F.col("before") == F.col("after"), "same")
        .otherwise("changed")
    )
    both = both.withColumn("kind", kind)
    counts = {row["kind"]: row["count"] for row in both.groupBy("kind").count().collect()}
    others = both.where("kind != 'same'").orderBy("kind", "key").limit(shown).collect()
    return PartDifference(
        came=counts.get("came", 0),
        went=counts.get("went", 0),
        changed=counts.get("changed", 0),
        same=counts.get("same", 0),
        examples=tuple(
            KeyChange(key=row["key"], before=tuple(row["before"] or ()), after=tuple(row["after"] or ()))
            for row in others
        ),
    )


def _by_key(frame: DataFrame, name: str) -> DataFrame:
    return _texts(frame).groupBy("key").agg(F.sort_array(F.collect_list("value")).alias(name))


def _texts(frame: DataFrame) -> DataFrame:
    """Return key and value as JSON, in which every type can be compared, nulls too."""
    both = frame.select("key", _value(frame).alias("value"))
    texts = (F.to_json(_with_entries(F.col(one.name), one.dataType), AS_JSON).alias(one.name) for one in both.schema)
    return both.select(*texts)


def _with_entries(value: Column, kind: DataType) -> Column:
    """Return a value with each map as a list of its entries whose keys cannot be names in JSON, such as bytes."""
    if not _has_unnamed(kind):
        return value
    if isinstance(kind, MapType):
        entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
        return F.transform(F.map_entries(value), lambda one: _with_entries(one, entry))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda one: _with_entries(one, element))
    assert isinstance(kind, StructType)
    made = [_with_entries(value.getField(one.name), one.dataType).alias(one.name) for one in kind]
    return F.when(value.isNotNull(), F.struct(*made))


def _has_unnamed(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_unnamed(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _has_unnamed(kind.elementType)
    if isinstance(kind, MapType):
        return not isinstance(kind.keyType, _NAMES) or _has_unnamed(kind.valueType)
    return False


def _value(frame: DataFrame) -> Column:
    """Return all that is kept of a key, as one structure."""
    fields = [field for field in frame.schema.fields if field.name not in _KEPT]
    if len(fields) == 1 and isinstance(fields[0].dataType, StructType):
        return F.col(fields[0].name)
    return F.struct(*(field.name for field in fields))
