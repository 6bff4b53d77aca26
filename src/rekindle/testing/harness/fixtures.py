"""Fixtures for pytest: ``pytest_plugins = ["rekindle.testing.harness.fixtures"]`` in your ``conftest.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rekindle.job import Job
from rekindle.session.session import CHOSEN
from rekindle.testing.harness.harness import JobHarness

QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the JVM: most of what a test costs is Java that is compiled once more, better, and hardly run then."""

MakeHarness = Callable[..., JobHarness]


SETTINGS = {
    **CHOSEN,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICKLY,
    "spark.sql.shuffle.partitions": "1",
}
"""Settings of the session that tests share."""


@pytest.fixture(scope="session")
def rekindle_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Make one session for all tests, on two cores; define a fixture of this name to use your own."""
    builder = SparkSession.builder.master("local[2]").appName("rekindle-harness")
    for key, value in {**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def job_harness(rekindle_spark: SparkSession, tmp_path: Path) -> Iterator[MakeHarness]:
    """Make harnesses from what `JobHarness` takes except the session; all are closed at the end of the test."""
    with ExitStack() as made:

        def make(job: Job, **options: Any) -> JobHarness:
            folder = tmp_path / f"{job.name}-{len(list(tmp_path.iterdir()))}"
            return made.enter_context(JobHarness(job, rekindle_spark, **{"folder": folder, **options}))

        yield make
