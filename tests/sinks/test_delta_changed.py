"""A table of Delta that others change between the writing of rows and their commit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from rekindle.errors import SinkError
from rekindle.sinks.staging import NOTES
from rekindle.testing.sink_contract import batch_of, permit
from tests.sinks.test_delta import opened, put, rows_of


def repartition(table: Path, columns: Sequence[str]) -> None:
    rows = DeltaTable(table).to_pyarrow_table()
    write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", partition_by=list(columns))


@pytest.mark.parametrize("driver", ["same", "next"])
@pytest.mark.parametrize("changed", ["before the batch", "before the commit"])
@pytest.mark.parametrize(("before", "after"), [([], ["v"]), (["v"], []), (["v"], ["w"])])
def test_rows_are_not_added_to_a_table_that_others_have_partitioned_otherwise(
    spark: SparkSession, tmp_path: Path, before: list[str], after: list[str], changed: str, driver: str
) -> None:
    sink = opened(tmp_path, partition_by=before)
    put(sink, spark.sql("SELECT 0L AS id, 'a' AS v, 'x' AS w"), 1)
    if changed == "before the batch":
        repartition(tmp_path, after)
    made = sink.prepare(spark.sql("SELECT 1L AS id, 'b' AS v, 'y' AS w"), batch_of(2))
    if changed == "before the commit":
        repartition(tmp_path, after)
    with pytest.raises(SinkError) as error:
        (sink if driver == "same" else opened(tmp_path)).commit(made, permit(2))
    assert error.value.code == "SINK_SCHEMA_MISMATCH"
    assert error.value.permanent
    assert f"partitioned by {after} now, and the files of these rows by {before}" in error.value.message
    assert rows_of(tmp_path) == [{"id": 0, "v": "a", "w": "x"}]


def test_a_batch_after_one_that_did_not_fit_is_written_as_the_table_is_now(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(tmp_path)
    put(sink, spark.sql("SELECT 0L AS id, 'a' AS v"), 1)
    repartition(tmp_path, ["v"])
    made = sink.prepare(spark.sql("SELECT 1L AS id, 'b' AS v"), batch_of(2))
    with pytest.raises(SinkError, match="partitioned by"):
        sink.commit(made, permit(2))
    put(sink, spark.sql("SELECT 2L AS id, 'c' AS v"), 3)
    assert sorted(row["v"] for row in rows_of(tmp_path)) == ["a", "c"]
    repartition(tmp_path, [])
    with pytest.raises(SinkError, match="no columns"):
        sink.prepare(spark.sql("SELECT 3L AS id, 'd' AS v, 1 AS more"), batch_of(4))
    put(sink, spark.sql("SELECT 4L AS id, 'e' AS v"), 5)
    assert sorted(row["v"] for row in rows_of(tmp_path)) == ["a", "c", "e"]


@pytest.mark.parametrize("changed", ["before the batch", "before the commit"])
def test_rows_are_not_added_to_a_table_that_has_got_a_constraint_until_it_is_dropped(
    spark: SparkSession, tmp_path: Path, changed: str
) -> None:
    sink = opened(tmp_path)
    put(sink, spark.sql("SELECT 0L AS id"), 1)
    if changed == "before the batch":
        DeltaTable(tmp_path).alter.add_constraint({"small": "id < 5"})
    made = sink.prepare(spark.sql("SELECT 99L AS id"), batch_of(2))
    if changed == "before the commit":
        DeltaTable(tmp_path).alter.add_constraint({"small": "id < 5"})
    with pytest.raises(SinkError, match=r"the table has delta\.constraints\.small") as error:
        sink.commit(made, permit(2))
    assert error.value.code == "SINK_SCHEMA_MISMATCH"
    assert error.value.permanent
    assert [row["id"] for row in rows_of(tmp_path)] == [0]
    DeltaTable(tmp_path).alter.drop_constraint("small")
    opened(tmp_path).commit(made, permit(2))
    assert sorted(row["id"] for row in rows_of(tmp_path)) == [0, 99]


def test_an_attempt_of_a_table_whose_log_is_gone_is_cleaned(spark: SparkSession, tmp_path: Path) -> None:
    opened(tmp_path).prepare(spark.sql("SELECT 0L AS id"), batch_of(1))
    shutil.rmtree(tmp_path / "_delta_log")
    sink = opened(tmp_path)
    sink.clean([], lambda batch: True)
    assert not list((tmp_path / NOTES).glob("*/*/*"))
    assert not list((tmp_path / "rekindle").glob("*/*/*"))
    put(sink, spark.sql("SELECT 1L AS id"), 1)
    assert rows_of(tmp_path) == [{"id": 1}]
