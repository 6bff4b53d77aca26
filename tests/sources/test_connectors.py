"""A data source that Spark does not have is named with its package."""

from __future__ import annotations

import pytest

from rekindle.sources.connectors import connector_missing

SAID = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {}. Make sure the provider name is correct"
SAID_BEFORE = "Failed to find data source: {}. Please deploy the application as per the deployment section of ..."


@pytest.mark.parametrize("said", [SAID, SAID_BEFORE])
@pytest.mark.parametrize(
    ("name", "version", "package"),
    [
        ("kafka", "4.3.0", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        ("kafka", "4.2.0", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        ("kafka", "3.5.6", "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.6"),
        ("Delta", "4.3.0", "io.delta:delta-spark_2.13:VERSION"),
        ("iceberg", "4.0.1", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION"),
        ("com.acme.Lake-2", "4.3.0", "GROUP:ARTIFACT:VERSION"),
    ],
)
def test_the_error_names_the_data_source_and_its_package(said: str, name: str, version: str, package: str) -> None:
    found = connector_missing(ValueError(said.format(name)), version)

    assert found is not None and found.code == "CONNECTOR_MISSING"
    assert repr(name) in str(found) and found.next_step.endswith(f"spark.jars.packages={package}")


def test_any_other_error_is_not_taken_for_it() -> None:
    assert connector_missing(ValueError("[PATH_NOT_FOUND] Path does not exist: /data source/kafka"), "4.3.0") is None
