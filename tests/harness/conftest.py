"""The harness runs in the session of all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rekindle.testing.harness.fixtures import job_harness  # noqa: F401 - your conftest.py names the module instead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def rekindle_spark(spark: SparkSession) -> SparkSession:
    return spark
