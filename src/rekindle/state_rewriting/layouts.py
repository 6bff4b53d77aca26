"""Layouts of state by kind of operator: what a user's function is given, and the rows that its answer becomes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType
from pyspark.sql.window import Window

from rekindle.state_rewriting.encoding import (
    NotAsKept,
    conformed,
    normalized,
    null_where_none_may_be,
    nullable,
)
from rekindle.state_rewriting.stores import DEFAULT, PLACE, StateRows, Stores, struct

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

    def unknown(self) -> str:
        """Say why state lies there in another way than it is written here; empty: nothing shows that it does."""
        return "its keys hold a map, of which Spark sorts the entries" if _holds_map(struct(self.before, "key")) else ""

    def rows(self, after: DataFrame) -> dict[str, StateRows]:
        """Return the rows of each state store that changes.

        Raises:
            NotAsKept: what was returned cannot be this state.
            PySparkException: it cannot be computed.
        """
        value = struct(self.before, "value")
        if self._evolve and "value" in after.columns:
            self.value = evolved(value, struct(after, "value"))
        if "value" not in after.columns and all(isinstance(field.dataType, NullType) for field in value):
            # A deduplication keeps of a key that it was there, and nothing else.
            after = after.withColumn("value", F.struct(*(F.lit(None).alias(name) for name in value.names)))
        return {DEFAULT: self._stores.encoded(DEFAULT, self._edited(after, "key", "value"))}

    def _edited(self, after: DataFrame, *names: str) -> DataFrame:
        """Return these columns of what a user's function has returned, as state has them, and what is wrong in each."""
        kinds = {name: self.before.schema[name].dataType for name in names}
        if self.value is not None:
            kinds[names[-1]] = self.value
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
            _without_last("key", kept).alias("key"),
            _without_last("value", kept).alias("value"),
            # A column of the row may have this name too; Spark's own is the last one.
            F.col("value").getField(struct(kept, "value").names[-1]).alias(_MATCHED),
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


def _holds_map(kind: DataType) -> bool:
    inner = [field.dataType for field in kind] if isinstance(kind, StructType) else []
    inner += [kind.elementType] if isinstance(kind, ArrayType) else []
    return isinstance(kind, MapType) or any(map(_holds_map, inner))


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


def evolved(before: StructType, after: StructType) -> StructType:
    """Return what a value is to consist of: what has not changed can be null where it could, and all else can."""
    known = {field.name: field for field in before}
    fields = []
    for field in after:
        new = StructField(field.name, nullable(field.dataType), True)
        old = known.get(field.name)
        fields.append(old if old is not None and nullable(old.dataType) == new.dataType else new)
    return StructType(fields)


def _without_last(column: str, frame: DataFrame) -> Column:
    """Return a structure without its last field, which Spark has added."""
    *names, _ = struct(frame, column).names
    return F.struct(*(F.col(column).getField(name).alias(name) for name in names))


def _with(column: str, frame: DataFrame, more: str) -> Column:
    """Return a structure with a column of the frame as its last field."""
    return F.struct(*(F.col(column).getField(name).alias(name) for name in struct(frame, column).names), F.col(more))
