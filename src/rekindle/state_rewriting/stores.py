"""The state stores of one operator in a savepoint, as rows of bytes: what lies in them, and what is to lie in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rekindle.progress.stored_state import StatefulOperator, StoredTaskState
from rekindle.spark.state import fields, read_state, with_distinct_names
from rekindle.state_rewriting.encoding import NotAsKept, unsafe_bytes

DEFAULT = "default"
"""The name of a state store, and of a column family, where an operator has one."""

BYTES = ("key_bytes", "value_bytes", "column_family_name")
PLACE = "partition_id"


class StateRows(NamedTuple):
    """The rows that a state store is to hold, computed, in the partitions that they go to."""

    #: with the columns of `raw`
    frame: DataFrame
    number: int


@dataclass(frozen=True, slots=True)
class Stores:
    """The state stores of one operator."""

    spark: SparkSession
    state: StoredTaskState
    operator: StatefulOperator
    #: in how many partitions it lies
    partitions: int = field(init=False)

    def __post_init__(self) -> None:
        folder = f"{self.state.folder}/state/{self.operator.number}"
        names = self.state.store.names(folder)
        object.__setattr__(self, "partitions", sum(name.isascii() and name.isdigit() for name in names))

    def raw(self, store: str) -> DataFrame:
        """Return the rows of a state store as bytes: partition_key, key_bytes, value_bytes, column_family_name."""
        jvm: Any = self.spark._jvm
        source = jvm.org.apache.spark.sql.execution.datasources.v2.state
        options = getattr(getattr(source, "StateSourceOptions$"), "MODULE$")
        more = {options.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES(): "true", "storeName": store}
        return read_state(self.spark, self.state, self.operator, **more)

    def read(self, store: str) -> DataFrame:
        """Return the rows of a state store as keys and values."""
        return with_distinct_names(read_state(self.spark, self.state, self.operator, storeName=store))

    def encoded(self, store: str, edited: DataFrame) -> StateRows:
        """Return key, value and fault as the bytes of a state store.

        Raises:
            NotAsKept: a row has a fault, or a key comes twice.
        """
        raw = self.raw(store)
        moved = self.moved(edited.select("key", "value", "fault"), partition_key(raw, edited))
        count = checked(moved)
        return StateRows(self._as_raw(raw, moved.select(*as_bytes(moved, DEFAULT)), count), count)

    def gathered(self, store: str, frame: DataFrame) -> StateRows:
        """Return rows of bytes of any column families as those of a state store, each key's in the order of `place`."""
        raw = self.raw(store)
        by = fields(raw, "partition_key")
        moved = self.moved(frame, by, in_order=True)
        count = moved.count()
        return StateRows(self._as_raw(raw, moved.select(*BYTES), count), count)

    def moved(self, frame: DataFrame, by: list[Column], *, in_order: bool = False) -> DataFrame:
        """Return rows in the partitions that they go to, computed.

        What reads them has no plan below it, so a structure among them stays as the shuffle has made it.

        Raises:
            NotAsKept: there is nothing to partition by.
        """
        if not by and self.partitions > 1:
            raise NotAsKept("it has several partitions, and no key to partition by")
        found = self._moved(frame, by, in_order)
        if found._jdf.queryExecution().toRdd().getNumPartitions() != self.partitions:
            # Constant keys are put into one partition by a plan that knows them; what was computed it does not know.
            found = self._moved(found, by, in_order)
        return found

    def _moved(self, frame: DataFrame, by: list[Column], in_order: bool) -> DataFrame:
        found = frame.repartition(self.partitions, *by)
        return (found.sortWithinPartitions("place") if in_order else found).localCheckpoint()

    def _as_raw(self, raw: DataFrame, rows: DataFrame, count: int) -> DataFrame:
        # What a row is partitioned by is not looked at any more.
        key = F.lit(None).cast(raw.schema["partition_key"].dataType).alias("partition_key")
        rows = rows.select(key, *BYTES)
        if count == 0:
            # A plan without rows is cut short, its partitions with it.
            rows = self.spark.createDataFrame(self.spark.sparkContext.parallelize([], self.partitions), rows.schema)
        return rows


def as_bytes(moved: DataFrame, family: str) -> list[Column]:
    """Return key and value of moved rows as the bytes of a column family."""
    return [
        unsafe_bytes(moved, "key").alias("key_bytes"),
        unsafe_bytes(moved, "value").alias("value_bytes"),
        # Not merely the name: Spark compares the schema, and that of a literal cannot be null.
        F.when(F.col("key").isNotNull(), F.lit(family)).alias("column_family_name"),
    ]


def checked(moved: DataFrame, *, many: bool = False) -> int:
    """Return how many rows there are, of which none has a fault and no two have one key, unless it may have `many`.

    Raises:
        NotAsKept: it is not so.
    """
    found = moved.agg(F.count("*"), F.min("fault")).first()
    assert found is not None
    if found[1] is not None:
        raise NotAsKept(f"{found[1]}, for example of the key {_example(moved.where(F.col('fault') == found[1]))}")
    if not many:
        keys = moved.select("key", unsafe_bytes(moved, "key").alias("bytes"))
        alike = keys.groupBy("bytes").agg(F.count("*").alias("rows"), F.first("key").alias("key")).where("rows > 1")
        # As a rule there are none, and few bytes are moved to see that.
        some = not keys.groupBy(F.xxhash64("bytes")).count().where("count > 1").isEmpty()
        if some and not alike.isEmpty():
            raise NotAsKept(f"a key comes twice, for example {_example(alike)}")
    return int(found[0])


def fingerprint(rows: DataFrame, place: Column | None = None) -> tuple[Any, ...]:
    """Return what rows of bytes have in common with the same rows in any order, and with others only by a wild chance.

    It takes one pass, where a comparison row by row takes two shuffles.

    Args:
        place: the partition of each row; those that lie in another one are counted too.
    """
    hashed, here = F.xxhash64(*BYTES).alias("hash"), F.spark_partition_id()
    astray = F.lit(False) if place is None else place != here
    counted = F.count("*"), F.sum(F.col("hash").cast("decimal(20,0)")), F.bit_xor("hash"), F.count_if("astray")
    found = rows.select(hashed, astray.alias("astray")).agg(*counted).first()
    assert found is not None
    return tuple(found)


def _example(frame: DataFrame) -> Any:
    found = frame.select(F.to_json("key", {"ignoreNullFields": "false"})).first()
    return found[0] if found is not None else None


def partition_key(raw: DataFrame, frame: DataFrame) -> list[Column]:
    """Return the columns of a state's key that Spark partitions by: its first ones, or all.

    Raises:
        NotAsKept: they are others.
    """
    wanted = struct(raw, "partition_key")
    first = struct(frame, "key").fields[: len(wanted)]
    if [one.dataType.simpleString() for one in first] != [one.dataType.simpleString() for one in wanted]:
        raise NotAsKept("what its keys are partitioned by is not known")
    return [F.col("key").getField(one.name) for one in first]


def struct(frame: DataFrame, column: str) -> StructType:
    """Return the type of a column that is a structure.

    Raises:
        NotAsKept: it is none.
    """
    kind = frame.schema[column].dataType
    if not isinstance(kind, StructType):
        raise NotAsKept(f"{column} is {kind.simpleString()}, and no structure")
    return kind
