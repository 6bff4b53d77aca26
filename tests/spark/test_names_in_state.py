"""State whose columns have names that come twice, or that Spark's own columns have too: read and written again."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.errors import RestoreError
from rekindle.state_rewriting import can_rewrite
from tests.spark.test_state_rewriting import Query

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(int(pyspark.__version__.split(".")[0]) < 4, reason="Spark reads state since 4.0"),
]


@pytest.fixture(autouse=True)
def _where_spark_can(spark: SparkSession) -> None:
    if not can_rewrite(spark):
        pytest.skip("this Spark cannot write state")


def table_of(rows: DataFrame) -> DataFrame:
    return rows.sparkSession.createDataFrame([("a",), ("b",)], "S string")


def test_rows_of_a_join_with_two_columns_of_a_name_and_one_that_spark_adds(spark: SparkSession, tmp_path: Path) -> None:
    def joined(rows: DataFrame) -> DataFrame:
        left, table = rows.where("k < 10"), table_of(rows)
        both = left.join(table, left.s == F.lower(table.S)).withColumn("Matched", F.col("k") > 1)
        right = rows.where("k >= 10").selectExpr("k - 10 AS other", "ts AS its_ts")
        near = "k = other AND its_ts BETWEEN ts AND ts + INTERVAL 10 MINUTES"
        return both.join(right, F.expr(near), "left_outer").toDF("k", "s", "ts", "t", "big", "other", "its_ts")

    query = Query(spark, tmp_path, joined, "append")
    query.add((1, "a", 0), (2, "a", 0), (3, "b", 0), (13, "right", 5))
    query.run()
    left = query.state("left")
    assert left.select("value.*").columns == ["k", "s", "ts", "S_2", "Matched"]
    assert [row[0] for row in left.select("value.Matched").where("value.k = 1").collect()] == [False]

    def fn(state: DataFrame) -> DataFrame:
        assert [row["value"]["k"] for row in state.where("matched").collect()] == [3], "it has found a partner"
        kept = state.where("value.k != 2")
        return kept.withColumn("value", F.col("value").withField("S_2", F.lit("new")))

    query.edit(fn, "left")
    query.edit(lambda state: state, "right")
    query.add((11, "right", 5), (12, "right", 5))
    assert [(row["k"], row["s"], row["t"], row["big"]) for row in query.run()] == [(1, "a", "new", False)]


@pytest.mark.parametrize("grouped", [True, False])
def test_a_key_with_two_columns_of_a_name(spark: SparkSession, tmp_path: Path, grouped: bool) -> None:
    def counted(rows: DataFrame) -> DataFrame:
        table = table_of(rows)
        both = rows.join(table, F.lower(rows.s) == table.S)
        if not grouped:
            return both.dropDuplicates().toDF("k", "s", "ts", "t").withColumn("n", F.lit(1))
        return both.groupBy("k", rows.s, table.S).count().toDF("k", "s", "t", "n")

    query = Query(spark, tmp_path, counted, "update")
    query.add((1, "A", 0), (1, "b", 0), (2, "a", 0))
    query.run()
    assert [name for name in query.state().select("key.*").columns if name != "ts"] == ["k", "s", "S_2"]
    query.edit(lambda state: state.where("key.S_2 != 'b'"))
    query.add((1, "A", 0), (1, "b", 0), (2, "a", 0))
    found = sorted((row["k"], row["s"], row["n"]) for row in query.run())
    assert found == ([(1, "A", 2), (1, "b", 1), (2, "a", 2)] if grouped else [(1, "b", 1)])


def test_keys_that_hold_a_map_are_not_rewritten(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, lambda rows: rows.groupBy(F.create_map("s", "k").alias("m")).count(), "update")
    query.add((1, "a", 0))
    query.run()
    with pytest.raises(RestoreError) as refused:
        query.edit(lambda state: state)
    assert refused.value.code == "STATE_REWRITE_UNSUPPORTED" and "map" in str(refused.value)
