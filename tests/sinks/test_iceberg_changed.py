"""A table of Iceberg that others change between the writing of rows and their commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyiceberg.types import LongType
from pyspark.sql import SparkSession

from rekindle.errors import SinkError
from rekindle.testing.sink_contract import batch_of, permit
from tests.sinks.test_iceberg import files_of, opened, put, rows_of, table_of


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("column", r"no columns \['v'\] any more"),
        ("type", "column 'v' is string, in the table long"),
        ("table", "was prepared, but now it is neither there nor in the target"),
    ],
)
def test_rows_are_not_added_to_a_table_that_has_got_other_columns_since_they_were_written(
    spark: SparkSession, tmp_path: Path, change: str, reason: str
) -> None:
    target = tmp_path / "table"
    sink = opened(target)
    put(sink, spark.sql("SELECT 0L AS id, 'a' AS v"), 1)
    files = files_of(target)
    made = sink.prepare(spark.sql("SELECT 1L AS id, 'b' AS v"), batch_of(2))
    if change == "table":
        assert sink._catalog is not None and not isinstance(sink._catalog, str)
        sink._catalog.drop_table("db.bids")
        files = ""
    else:
        with table_of(target).update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("v")
    if change == "type":
        with table_of(target).update_schema() as update:
            update.add_column("v", LongType())
    with pytest.raises(SinkError, match=reason) as error:
        sink.commit(made, permit(2))
    assert error.value.permanent
    assert files_of(target) == files


def partition(table: Path, before: Sequence[str], after: Sequence[str]) -> None:
    with table_of(table).update_spec() as update:
        for name in before:
            update.remove_field(name)
        for name in after:
            update.add_identity(name)


def found(table: Path, row_filter: str) -> tuple[list[int], list[int]]:
    """The rows of a filter, and the partition specs of the files that may have some."""
    scan = table_of(table).scan(row_filter)
    return sorted(scan.to_arrow()["id"].to_pylist()), sorted(task.file.spec_id for task in scan.plan_files())


TWO = "SELECT * FROM VALUES (2L, 'b', 'x'), (3L, 'c', 'y') AS two (id, v, w)"


@pytest.mark.parametrize("driver", ["same", "next"])
@pytest.mark.parametrize(("before", "after"), [([], ["v"]), (["v"], ["w"]), (["v"], [])])
def test_rows_are_added_under_the_partition_spec_that_they_were_written_for(
    spark: SparkSession, tmp_path: Path, before: list[str], after: list[str], driver: str
) -> None:
    target = tmp_path / "table"
    sink = opened(target, partition_by=before)
    put(sink, spark.sql("SELECT 1L AS id, 'a' AS v, 'x' AS w"), 1)
    made = sink.prepare(spark.sql(TWO).coalesce(1), batch_of(2))
    old = table_of(target).metadata.default_spec_id
    partition(target, before, after)
    new = table_of(target).metadata.default_spec_id
    assert new != old
    if driver == "next":
        sink = opened(target)
    sink.commit(made, permit(2))
    opened(target).commit(made, permit(2))
    assert table_of(target).metadata.default_spec_id == new
    assert found(target, "v = 'c'") == ([3], [old])
    assert set(found(target, "id > 0")[1]) == {old}
    put(sink, spark.sql("SELECT 4L AS id, 'd' AS v, 'x' AS w"), 3)
    assert found(target, "id > 3") == ([4], [new]), "the next batch is written for the table's spec of now"
    assert sorted(row["id"] for row in rows_of(target)) == [1, 2, 3, 4]


@pytest.mark.parametrize("merged", [False, True], ids=["", "manifests are merged"])
def test_a_checkpoint_with_rows_of_two_partition_specs_is_one_change_and_is_taken_back_as_one(
    spark: SparkSession, tmp_path: Path, merged: bool
) -> None:
    target = tmp_path / "table"
    sink = opened(target)
    put(sink, spark.sql("SELECT 1L AS id, 'a' AS v"), 1)
    if merged:
        with table_of(target).transaction() as change:
            change.set_properties({"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
    made = sink.prepare(spark.sql("SELECT 2L AS id, 'b' AS v UNION ALL SELECT 3L, 'c'").coalesce(1), batch_of(2))
    partition(target, [], ["v"])
    made += opened(target).prepare(spark.sql("SELECT 4L AS id, 'd' AS v"), batch_of(3))
    changes = len(table_of(target).metadata.metadata_log)
    sink.commit(made, permit(2))
    assert len(table_of(target).metadata.metadata_log) == changes + 1
    assert found(target, "id > 1") == ([2, 3, 4], [0, 1])
    opened(target).rewind(1, {2: made})
    assert files_of(target).count(".parquet") == 1
    assert [row["id"] for row in rows_of(target)] == [1]


@pytest.mark.parametrize("spec", [None, 99], ids=["of an older version", "of a spec that is gone"])
def test_rows_without_a_known_partition_spec_are_added_under_the_default_of_the_table(
    spark: SparkSession, tmp_path: Path, spec: int | None
) -> None:
    target = tmp_path / "table"
    sink = opened(target, partition_by=["v"])
    [made] = sink.prepare(spark.sql("SELECT 1L AS id, 'a' AS v"), batch_of(1))
    del made["spec"]
    sink.commit([made if spec is None else {**made, "spec": spec}], permit(1))
    assert found(target, "v = 'a'") == ([1], [table_of(target).metadata.default_spec_id])


def test_a_batch_after_one_that_lay_elsewhere_is_written_where_the_table_has_its_files_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = tmp_path / "table"
    sink = opened(target)
    put(sink, spark.sql("SELECT 1L AS id"), 1)
    made = sink.prepare(spark.sql("SELECT 2L AS id"), batch_of(2))
    with table_of(target).transaction() as change:
        change.set_properties({"write.data.path": f"file://{tmp_path}/elsewhere"})
    with pytest.raises(SinkError) as error:
        sink.commit(made, permit(2))
    assert error.value.code == "SINK_STAGING_LOST"
    put(sink, spark.sql("SELECT 3L AS id"), 3)
    assert sorted(row["id"] for row in rows_of(target)) == [1, 3]
    assert f"{tmp_path}/elsewhere/rekindle/job-1234/out/" in files_of(target)


def test_a_batch_after_one_that_did_not_fit_is_compared_with_the_table_of_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = tmp_path / "table"
    sink = opened(target)
    put(sink, spark.sql("SELECT 0L AS id, 'a' AS v"), 1)
    made = sink.prepare(spark.sql("SELECT 1L AS id, 'b' AS v"), batch_of(2))
    with table_of(target).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("v")
    with pytest.raises(SinkError, match=r"no columns \['v'\] any more"):
        sink.commit(made, permit(2))
    with pytest.raises(SinkError, match=r"the table has no columns \['v'\]"):
        sink.prepare(spark.sql("SELECT 2L AS id, 'c' AS v"), batch_of(3))
