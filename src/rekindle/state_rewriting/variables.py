"""The variables and timers of transformWithState: in one store, in column families, some of which are indexes.

A variable whose values expire has the time beside each value (``ttlExpirationMs``), and once more in an index by time,
by which Spark finds what to remove. All indexes are made again from what a user's function returns.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from rekindle.spark.state import fields, state_frame
from rekindle.state_rewriting.encoding import unsafe_bytes
from rekindle.state_rewriting.layouts import StateTable, evolved
from rekindle.state_rewriting.stores import (
    DEFAULT,
    StateRows,
    as_bytes,
    checked,
    fingerprint,
    struct,
)

_TIMER = "expiration_timestamp_ms"
_EXPIRY = "ttlExpirationMs"
_COLUMNS = {
    "ValueState": ("value",),
    "ListState": ("list_element",),
    "MapState": ("user_map_key", "user_map_value"),
}
"""The columns of each kind of variable beside the key."""


class Variable(StateTable):
    """A state variable of transformWithState, which lies in one store with all others and with the timers."""

    normalized = False

    def _before(self) -> DataFrame:
        return state_frame(self._stores.spark, self._stores.state, self._stores.operator, self._part)

    def rows(self, after: DataFrame) -> dict[str, StateRows]:
        """Return the rows of the store: those of this variable edited, all others as they are."""
        raw = self._stores.raw(DEFAULT)
        by = fields(raw, "partition_key")
        families = self._families(after)
        rows = raw.where(~F.col("column_family_name").isin([*families]))
        rows = rows.withColumn("place", F.monotonically_increasing_id())
        for family, frame in families.items():
            moved = self._stores.moved(frame, by)
            checked(moved, many=self._kind == "ListState")
            rows = rows.unionByName(moved.select("partition_key", *as_bytes(moved, family), "place"))
        return {DEFAULT: self._stores.gathered(DEFAULT, rows)}

    @property
    def _kind(self) -> str:
        assert self._part is not None
        return self._stores.operator.variables[self._part].kind

    def _families(self, after: DataFrame) -> Mapping[str, DataFrame]:
        """Return the rows of each column family that the variable has."""
        assert self._part is not None
        last = _COLUMNS[self._kind][-1]
        if self._evolve and last in after.columns:
            self.value = self._evolved(struct(self.before, last), struct(after, last))
        edited = self._once(after, *_COLUMNS[self._kind])
        primary = self._family(edited, self._element(), F.col(_COLUMNS[self._kind][-1]))
        return {self._part: primary, **self._indexes(edited)}

    def _evolved(self, before: StructType, after: StructType) -> StructType:
        """Return the type of values that have other columns."""
        return evolved(before, after)

    def _element(self) -> Column:
        """Return what a value is found by: in a map, the key and the one of the user."""
        return F.struct("key", F.col("user_map_key").alias("userKey")) if self._kind == "MapState" else F.col("key")

    def _indexes(self, edited: DataFrame) -> Mapping[str, DataFrame]:
        if self._kind != "ListState":
            return {}
        number = F.struct(F.col("number").alias("count"))
        return {f"$rowCounter_{self._part}": self._family(_by_key(edited), F.col("key"), number)}

    def _once(self, after: DataFrame, *names: str) -> DataFrame:
        """Return these columns beside the key, computed once for all column families that are made of them."""
        edited = self._edited(after, "key", *names).withColumn("place", F.monotonically_increasing_id())
        return self._stores.moved(edited, [F.col("key").getField(name) for name in struct(self.before, "key").names])

    def _family(self, edited: DataFrame, key: Column, value: Column) -> DataFrame:
        """Return the rows of a column family, with what they are partitioned by."""
        group = F.col("key").cast(self._stores.raw(DEFAULT).schema["partition_key"].dataType)
        columns = {"partition_key": group, "key": key, "value": value, "fault": F.col("fault"), "place": F.col("place")}
        return edited.select(*(column.alias(name) for name, column in columns.items()))


class ExpiringVariable(Variable):
    """One whose values expire. A value, also that of a map, has an entry in an index by time; of a list, the key has.

    A list has its first expiry under its key too, and its number of elements in another family than one that stays.
    """

    def unknown(self) -> str:
        """Compare what lies there with what would be written for the same values; say how it differs."""
        if reason := super().unknown():
            return reason
        made = self._families(self.before)
        raw = self._stores.raw(DEFAULT)
        by = fields(raw, "partition_key")
        for family, frame in made.items():
            moved = self._stores.moved(frame, by)
            there = raw.where(F.col("column_family_name") == family)
            if fingerprint(moved.select(*as_bytes(moved, family))) != fingerprint(there):
                return f"the values of {self._part} expire, and when is not kept in the way that is known ({family})"
        return ""

    def _evolved(self, before: StructType, after: StructType) -> StructType:
        old, new = before["value"], after["value"] if "value" in after.names else before["value"]
        if isinstance(old.dataType, StructType) and isinstance(new.dataType, StructType):
            return StructType([StructField("value", evolved(old.dataType, new.dataType)), before[_EXPIRY]])
        return before

    def _edited(self, after: DataFrame, *names: str) -> DataFrame:
        edited, last = super()._edited(after, *names), names[-1]
        time = F.col(last).getField(_EXPIRY)
        fault = F.when(F.col(last).getField("value").isNull(), F.lit(f"{last}.value is null")).when(
            F.coalesce(time < 0, F.lit(True)),
            F.lit(f"{last}.{_EXPIRY} is null or below 0: say when it expires, in milliseconds since 1970"),
        )
        return edited.withColumn("fault", F.coalesce("fault", fault))

    def _indexes(self, edited: DataFrame) -> Mapping[str, DataFrame]:
        many = self._kind == "ListState"
        expiry = F.col(_COLUMNS[self._kind][-1]).getField(_EXPIRY)
        timed = edited.withColumn("expiry", expiry)
        entries = _by_key(timed, F.min("expiry").alias("expiry")) if many else timed
        nothing = F.struct(F.lit(None).alias("__empty__"))
        entry = F.struct(F.col("expiry").alias("expirationMs"), self._element().alias("elementKey"))
        found = {f"$ttl_{self._part}": self._family(entries, entry, nothing)}
        if many:
            first, number = F.struct(F.col("expiry").alias("expirationMs")), F.struct(F.col("number").alias("count"))
            found[f"$min_{self._part}"] = self._family(entries, F.col("key"), first)
            found[f"$count_{self._part}"] = self._family(entries, F.col("key"), number)
        return found


class Timers(Variable):
    """The timers of transformWithState, which lie there twice: by key, and by time."""

    @property
    def _kind(self) -> str:
        return "TimerState"

    def _families(self, after: DataFrame) -> Mapping[str, DataFrame]:
        edited = self._once(after, _TIMER)
        nothing = F.struct(F.lit(None).alias("__dummy__"))
        time = F.col(_TIMER).alias("expiryTimestampMs")
        begin = self._stores.operator.timers
        return {
            f"{begin}_keyToTimestamp": self._family(edited, F.struct("key", time), nothing),
            f"{begin}_timestampToKey": self._family(edited, F.struct(time, "key"), nothing),
        }


def _by_key(edited: DataFrame, *more: Column) -> DataFrame:
    """Return a row for each key, with how many rows it has; keys are compared by their bytes, as Spark does."""
    keyed = edited.withColumn("bytes", unsafe_bytes(edited, "key"))
    return keyed.groupBy("bytes").agg(
        F.first("key").alias("key"),
        F.count("*").alias("number"),
        F.min("fault").alias("fault"),
        F.min("place").alias("place"),
        *more,
    )
