"""Keys and values of every type, as random as they come: written as state, they are what the query itself writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.state_rewriting import can_rewrite
from tests.spark.test_state_rewriting import Query

pytestmark = pytest.mark.slow

UTC = dt.timezone.utc


def integers(bits: int) -> Any:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int, scale: int) -> Any:
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    return unscaled.map(lambda number: Decimal(number).scaleb(-scale))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001
SIMPLE: dict[str, tuple[T.DataType, Any]] = {
    "boolean": (T.BooleanType(), st.booleans()),
    "byte": (T.ByteType(), integers(8)),
    "short": (T.ShortType(), integers(16)),
    "int": (T.IntegerType(), integers(32)),
    "long": (T.LongType(), integers(64)),
    "float": (T.FloatType(), st.floats(width=32)),
    "double": (T.DoubleType(), st.floats()),
    "small": (T.DecimalType(9, 2), decimals(9, 2)),
    "large": (T.DecimalType(38, 18), decimals(30, 18)),
    "text": (T.StringType(), TEXTS),
    "binary": (T.BinaryType(), st.binary(max_size=20).map(bytearray)),
    "date": (T.DateType(), st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))),
    "ts": (T.TimestampType(), TIMES.map(lambda time: time.replace(tzinfo=UTC))),
    "ntz": (T.TimestampNTZType(), TIMES),
    "time": (T.DayTimeIntervalType(), integers(60).map(lambda us: dt.timedelta(microseconds=us % 10**15))),
}
PAIR = T.StructType([T.StructField("a", T.LongType()), T.StructField("b", T.StringType())])
PAIRS = st.tuples(st.none() | integers(64), st.none() | TEXTS)
KEYS = {
    **SIMPLE,
    "pair": (PAIR, PAIRS),
    "list": (T.ArrayType(T.DoubleType()), st.lists(st.none() | st.floats(), max_size=4)),
    "pairs": (T.ArrayType(PAIR), st.lists(st.none() | PAIRS, max_size=3)),
}
VALUES = {
    **KEYS,
    "map": (T.MapType(T.StringType(), T.LongType()), st.dictionaries(TEXTS, st.none() | integers(64), max_size=3)),
    "maps": (
        T.MapType(T.LongType(), T.ArrayType(PAIR)),
        st.dictionaries(integers(64), st.none() | st.lists(PAIRS, max_size=2), max_size=2),
    ),
}


def schema(kinds: dict[str, tuple[T.DataType, Any]]) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, (kind, _) in kinds.items()])


def many(kinds: dict[str, tuple[T.DataType, Any]]) -> Any:
    row = st.tuples(*(st.none() | values for _, values in kinds.values()))
    return st.lists(row, min_size=50, max_size=80)


PROPERTY = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
COUNTER = iter(range(1000))


class TypedQuery(Query):
    """A query over rows of these types."""

    def __init__(self, spark: SparkSession, root: Path, kinds: Any, make: Any) -> None:
        super().__init__(spark, root, make, "update")
        self.schema = T.StructType([T.StructField("id", T.LongType()), *schema(kinds)])

    def rows(self, rows: Any) -> DataFrame:
        return self.spark.createDataFrame([(i, *row) for i, row in enumerate(rows)], self.schema)

    def put(self, frame: DataFrame) -> None:
        frame.coalesce(1).write.mode("append").parquet(str(self.root / "in"))

    def run(self) -> list[Any]:
        found: list[Any] = []
        source = self.spark.readStream.schema(self.schema).parquet(str(self.root / "in"))
        writer = self.make(source).writeStream.outputMode(self.mode)
        writer = writer.foreachBatch(lambda frame, _: found.extend(frame.collect()))
        writer.option("checkpointLocation", self.folder).trigger(availableNow=True).start().awaitTermination()
        return found


@pytest.fixture
def where_spark_can(spark: SparkSession) -> None:
    if not can_rewrite(spark):
        pytest.skip("this Spark cannot write state")


@PROPERTY
@given(rows=many(KEYS))
def test_inserted_keys_are_those_that_the_query_looks_for(
    where_spark_can: None, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: Any
) -> None:
    root = tmp_path_factory.mktemp(f"keys{next(COUNTER)}")
    query = TypedQuery(spark, root, KEYS, lambda frame: frame.groupBy("id", *KEYS).agg(F.count("*").alias("n")))
    data = query.rows(rows)
    query.put(data.limit(0))
    query.put(query.rows(rows).where("id = 0"))
    assert [row["n"] for row in query.run()] == [1]
    key, value = F.struct("id", *KEYS).alias("key"), F.struct(F.lit(100).alias("count")).alias("value")
    query.edit(lambda state: data.select(key, value))
    query.put(data)
    assert sorted((row["id"], row["n"]) for row in query.run()) == [(i, 101) for i in range(len(rows))]


@PROPERTY
@given(rows=many(VALUES))
def test_values_are_read_back_as_they_were_written(
    where_spark_can: None, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: Any
) -> None:
    root = tmp_path_factory.mktemp(f"values{next(COUNTER)}")
    query = TypedQuery(spark, root, VALUES, lambda frame: frame.groupBy("id").agg(F.first(F.struct(*VALUES))))
    data = query.rows(rows)
    query.put(data.where("id = 0"))
    query.run()
    kept = F.struct(F.struct(*VALUES).alias("first"), F.lit(True).alias("valueSet")).alias("value")
    query.edit(lambda state: data.select(F.struct("id").alias("key"), kept))
    found = query.state().select("key.id", "value.first.*").orderBy("id").collect()
    assert [repr(row) for row in found] == [repr(row) for row in data.orderBy("id").collect()]
