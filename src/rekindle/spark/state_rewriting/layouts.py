"""Layouts of state by kind of operator: what a user's function is given, and the rows that its answer becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType, StructField, StructType
from pyspark.sql.window import Window

from rekindle.progress.stored_state import JOIN
from rekindle.spark.state import state_frame
from rekindle.spark.state_rewriting.encoding import (
    NotAsKept,
    conformed,
    normalized,
    null_where_none_may_be,
    nullable,
)
from rekindle.spark.state_rewriting.stores import DEFAULT, PLACE, StateRows, Stores, as_bytes, checked, struct

_STREAMING = "spark.sql.streaming."
_WINDOW = ["start", "end"]
_MATCHED = "matched"


class StateTable:
    """One value for each key.

    Args:
        evolve: the value may have other columns.
    """

    #: True if Spark has one zero and one NaN in its keys
    normalized = True

    def __init__(self, stores: Stores, part: str | None, *, evolve: bool = False) -> None:
        self._stores = stores
        self._part = part
        self._evolve = evolve
        #: the type of the value, where that has changed
        self.value: StructType | None = None
        #: the DataFrame that the user's function is given
        self.before = self._before()

    def _before(self) -> DataFrame:
        return self._stores.read(DEFAULT)

    def rows(self, after: DataFrame) -> dict[str, StateRows]:
        """Return the rows of each state store that changes.

        Raises:
            NotAsKept: what was returned cannot be this state.
            PySparkException: it cannot be computed.
        """
        value = struct(self.before, "value")
        if self._evolve and "value" in after.columns:
            self.value = _evolved(value, struct(after, "value"))
        if "value" not in after.columns and all(isinstance(field.dataType, NullType) for field in value):
            # A deduplication keeps of a key that it was there, and nothing else.
            after = after.withColumn("value", F.struct(*(F.lit(None).alias(name) for name in value.names)))
        return {DEFAULT: self._stores.encoded(DEFAULT, self._edited(after, "key", "value"))}

    def _edited(self, after: DataFrame, *names: str) -> DataFrame:
        """Return these columns of what a user's function has returned, as state has them, and what is wrong in each."""
        kinds = {name: self.before.schema[name].dataType for name in names}
        if self.value is not None:
            kinds["value"] = self.value
        fields = [StructField(name, kind) for name, kind in kinds.items()]
        frame = conformed(after.drop(PLACE), StructType(fields))
        if self.normalized:
            frame = frame.select(normalized(frame, "key"), *names[1:])
        return frame.withColumn("fault", F.coalesce(*(_null(name, kind) for name, kind in kinds.items())))


class Groups(StateTable):
    """One value for each key, as it came."""

    normalized = False


class Sessions(StateTable):
    """One value for each session, which holds its key and its start once more."""

    def _edited(self, after: DataFrame, *names: str) -> DataFrame:
        edited = super()._edited(after, *names)
        return edited.withColumn("fault", F.coalesce("fault", _not_of_its_session(self.before)))


class JoinSide(StateTable):
    """Several values for each key: in one store how many, in another these under their numbers from 0."""

    def _before(self) -> DataFrame:
        """Return the rows of a side, with what Spark knows of each beside it: whether it was matched."""
        kept = self._stores.read(self._values())
        return kept.select(
            _without_last("key", kept, "index").alias("key"),
            _without_last("value", kept, _MATCHED).alias("value"),
            F.col("value").getField(_MATCHED).alias(_MATCHED),
            PLACE,
        )

    def _values(self) -> str:
        return f"{self._part}-keyWithIndexToValue"

    def rows(self, after: DataFrame) -> dict[str, StateRows]:
        """Return the rows of both stores."""
        edited = self._edited(after, "key", "value", _MATCHED).withColumn("place", F.monotonically_increasing_id())
        index = F.row_number().over(Window.partitionBy("key").orderBy("place")) - 1
        # Two stores are made of it, and it has to be the same for both.
        numbered = edited.withColumn("index", index.cast("long")).localCheckpoint()
        values = numbered.select(
            _with("key", self.before, "index").alias("key"),
            _with("value", self.before, _MATCHED).alias("value"),
            "fault",
        )
        number = F.struct(F.count("*").alias("value")).alias("value")
        counts = numbered.groupBy("key").agg(number, F.min("fault").alias("fault"))
        made = {self._values(): values, f"{self._part}-keyToNumValues": counts}
        return {store: self._stores.encoded(store, frame) for store, frame in made.items()}


class Variable(StateTable):
    """A state variable of transformWithState, which lies in one store with all others and with the timers."""

    normalized = False

    def _before(self) -> DataFrame:
        return state_frame(self._stores.spark, self._stores.state, self._stores.operator, self._part)

    def rows(self, after: DataFrame) -> dict[str, StateRows]:
        """Return the rows of the store: those of this variable edited, all others as they are."""
        assert self._part is not None
        kind = self._stores.operator.variables[self._part].kind
        edited = self._edited(after, "key", *_COLUMNS[kind]).withColumn("place", F.monotonically_increasing_id())
        key = F.struct("key", F.col("user_map_key").alias("userKey")) if kind == "MapState" else F.col("key")
        families = {self._part: self._family(edited, key, F.col(_COLUMNS[kind][-1]))}
        if kind == "ListState":
            number = F.struct(F.count("*").alias("count")).alias("count")
            counts = edited.groupBy("key").agg(number, F.min("fault").alias("fault"), F.min("place").alias("place"))
            families[f"$rowCounter_{self._part}"] = self._family(counts, F.col("key"), F.col("count"))
        return self._gathered(families, many=kind == "ListState")

    def _family(self, edited: DataFrame, key: Column, value: Column) -> DataFrame:
        """Return the rows of a column family, with what they are partitioned by."""
        group = F.col("key").cast(self._stores.raw(DEFAULT).schema["partition_key"].dataType)
        columns = {"partition_key": group, "key": key, "value": value, "fault": F.col("fault"), "place": F.col("place")}
        return edited.select(*(column.alias(name) for name, column in columns.items()))

    def _gathered(self, families: Mapping[str, DataFrame], *, many: bool = False) -> dict[str, StateRows]:
        """Return the rows of the store with these column families in the place of theirs.

        Raises:
            NotAsKept: a row has a fault, or a key comes twice and may not have `many` values.
        """
        raw = self._stores.raw(DEFAULT)
        by = [F.col("partition_key").getField(name) for name in struct(raw, "partition_key").names]
        rows = raw.where(~F.col("column_family_name").isin([*families]))
        rows = rows.withColumn("place", F.monotonically_increasing_id())
        for family, frame in families.items():
            moved = self._stores.moved(frame, by)
            checked(moved, many=many)
            rows = rows.unionByName(moved.select("partition_key", *as_bytes(moved, family), "place"))
        return {DEFAULT: self._stores.gathered(DEFAULT, rows)}


class Timers(Variable):
    """The timers of transformWithState, which lie there twice: by key, and by time."""

    def rows(self, after: DataFrame) -> dict[str, StateRows]:
        """Return the rows of the store: timers edited, all variables as they are."""
        edited = self._edited(after, "key", _EXPIRES).withColumn("place", F.monotonically_increasing_id())
        nothing = F.struct(F.lit(None).alias("__dummy__"))
        time = F.col(_EXPIRES).alias("expiryTimestampMs")
        begin = self._stores.operator.timers
        return self._gathered(
            {
                f"{begin}_keyToTimestamp": self._family(edited, F.struct("key", time), nothing),
                f"{begin}_timestampToKey": self._family(edited, F.struct(time, "key"), nothing),
            }
        )


_EXPIRES = "expiration_timestamp_ms"
_COLUMNS = {
    "ValueState": ("value",),
    "ListState": ("list_element",),
    "MapState": ("user_map_key", "user_map_value"),
}
"""The columns of each kind of variable beside the key."""


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """The layout of an operator's state, and what may be done to it."""

    layout: type[StateTable]
    #: setting of the version of its state → the version that is known here
    version: tuple[str, str] | None = None
    #: True if its value may have other columns
    evolves: bool = False


KINDS: Mapping[str, OperatorKind] = {
    "stateStoreSave": OperatorKind(StateTable, (f"{_STREAMING}aggregation.stateFormatVersion", "2"), evolves=True),
    "dedupe": OperatorKind(Groups),
    "dedupeWithinWatermark": OperatorKind(Groups),
    "sessionWindowStateStoreSaveExec": OperatorKind(Sessions),
    "applyInPandasWithState": OperatorKind(Groups, evolves=True),
    JOIN: OperatorKind(JoinSide, (f"{_STREAMING}join.stateFormatVersion", "2")),
    "transformWithStateInPandasExec": OperatorKind(Variable),
    "transformWithStateInPySparkExec": OperatorKind(Variable),
}
"""Spark's name of an operator → its kind; each is tested."""


def _null(name: str, kind: DataType) -> Column:
    column = F.col(name)
    inner = null_where_none_may_be(column, kind)
    fault = F.when(column.isNull(), F.lit(f"{name} is null"))
    return fault if inner is None else fault.when(inner, F.lit(f"{name} holds a null where none may be"))


def _not_of_its_session(before: DataFrame) -> Column:
    """Say what is wrong with a session whose key does not stand in it.

    Raises:
        NotAsKept: which of its columns is the session cannot be seen.
    """
    value = struct(before, "value")
    *keys, start = struct(before, "key").names
    sessions = [one.name for one in value if one.name not in keys and getattr(one.dataType, "names", None) == _WINDOW]
    if len(sessions) != 1 or not {*keys} <= {*value.names}:
        raise NotAsKept("which of its columns are the session and its keys cannot be seen")
    pairs = [(F.col("key").getField(name), F.col("value").getField(name)) for name in keys]
    pairs.append((F.col("key").getField(start), F.col("value").getField(sessions[0]).getField("start")))
    same = F.lit(True)
    for first, second in pairs:
        same &= first.eqNullSafe(second)
    return F.when(~same, F.lit("the value holds another key, or another start of its session"))


def _evolved(before: StructType, after: StructType) -> StructType:
    """Return what a value is to consist of: what has not changed can be null where it could, and all else can."""
    known = {field.name: field for field in before}
    fields = []
    for field in after:
        new = StructField(field.name, nullable(field.dataType), True)
        old = known.get(field.name)
        fields.append(old if old is not None and nullable(old.dataType) == new.dataType else new)
    return StructType(fields)


def _without_last(column: str, frame: DataFrame, wanted: str) -> Column:
    """Return a structure without its last field, which has this name."""
    *names, last = struct(frame, column).names
    assert last == wanted
    return F.struct(*(F.col(column).getField(name).alias(name) for name in names))


def _with(column: str, frame: DataFrame, more: str) -> Column:
    """Return a structure with a column of the frame as its last field."""
    return F.struct(*(F.col(column).getField(name).alias(name) for name in struct(frame, column).names), F.col(more))
