"""State as JSON: what is shown of it, and by what two states are compared."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rekindle.spark.state import difference, summary

ROWS = """
    SELECT struct(1 AS k) AS key, 0 AS partition_id, struct(
        map(X'00', array(map(date'2025-01-01', 1)), X'FF', NULL) AS bytes, map('a', 1, 'b', NULL) AS names
    ) AS value
"""


def test_maps_whose_keys_are_no_names_are_the_same_each_time(spark: SparkSession) -> None:
    found = difference(spark.sql(ROWS), spark.sql(ROWS), 3)
    assert (found.came, found.went, found.changed, found.same) == (0, 0, 0, 1), found.examples
    other = spark.sql(ROWS.replace("X'FF'", "X'FE'"))
    assert difference(spark.sql(ROWS), other, 3).changed == 1


def test_maps_whose_keys_are_no_names_are_shown_as_entries(spark: SparkSession) -> None:
    [(key, value)] = summary(spark.sql(ROWS), 3).sample
    assert key == '{"k":1}'
    inner = '[{"key":"AA==","value":[[{"key":"2025-01-01","value":1}]]},{"key":"/w==","value":null}]'
    assert value == f'{{"bytes":{inner},"names":{{"a":1,"b":null}}}}'
