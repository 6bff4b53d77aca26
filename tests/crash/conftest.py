from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rekindle.start import decide
from tests.crash.bucket_kit import ARGUMENTS, PLACE, arguments_of
from tests.crash.kit import CrashWorld
from tests.servers.azurite import ACCOUNT, AzureServer
from tests.servers.fixtures import proxy_properties
from tests.servers.gcs import GoogleServer
from tests.servers.hdfs import HdfsServer
from tests.servers.ports import free_ports
from tests.servers.relay import Relay
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def world(tmp_path: Path) -> CrashWorld:
    return CrashWorld(tmp_path).fill()


@pytest.fixture
def thought_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other driver seems to be gone, as one on a machine that is suspended does."""
    monkeypatch.setattr(decide, "is_alive", lambda *_: False)
    monkeypatch.setattr(decide, "is_driven_here", lambda *_: False)


# Where a job writes, for `BucketWorld`.


@pytest.fixture
def on_s3(s3: S3Server, spark_on_s3: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, f"s3://{s3.make_bucket()}")
    monkeypatch.setenv(ARGUMENTS, arguments_of("spark-s3", {}, {}))


@pytest.fixture
def on_azure(
    azure: AzureServer, spark_on_azure: SparkSession, spark_s_way_to_azure: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = proxy_properties(spark_s_way_to_azure.port)
    monkeypatch.setenv(PLACE, f"abfs://{azure.make_container()}@{ACCOUNT}.dfs.core.windows.net")
    monkeypatch.setenv(ARGUMENTS, arguments_of("spark-azure", azure.hadoop_settings, proxy))


@pytest.fixture
def on_google(google: GoogleServer, spark_on_google: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = proxy_properties(free_ports(1)[0])
    monkeypatch.setenv(PLACE, f"gs://{google.make_bucket()}")
    monkeypatch.setenv(ARGUMENTS, arguments_of("spark-gcs", google.hadoop_settings, nowhere))


@pytest.fixture
def on_hdfs(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME")  # Spark's JVM runs already, as the user of this process
    monkeypatch.setenv(PLACE, hdfs.make_folder())
    # What the job reads lies on this machine, and its paths have no scheme.
    monkeypatch.setenv(ARGUMENTS, arguments_of("", {"fs.defaultFS": "file:///"}, {}))
