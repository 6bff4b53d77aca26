"""A table of Iceberg that somebody changes between the writing of rows and their commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import LongType
from pyspark.sql import SparkSession

from rekindle.errors import SinkError
from rekindle.testing.sink_contract import batch_of, permit
from tests.sinks.test_iceberg import files_of, opened, put, table_of


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
