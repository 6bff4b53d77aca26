"""Places in storages of the cloud and in HDFS, each on a server of the tests, and each nobody else's."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.servers.azurite import ACCOUNT, AzureServer
from tests.servers.gcs import GoogleServer
from tests.servers.hdfs import HdfsServer
from tests.servers.s3 import S3Server

ELSEWHERE = ("s3", "azure", "google", "hdfs")
"""What the names of the fixtures end with."""


def place_on(cloud: str, request: pytest.FixtureRequest) -> str:
    """Return the address of a new place."""
    place: str = request.getfixturevalue(f"place_on_{cloud}")
    return place


def place_for_spark(cloud: str, request: pytest.FixtureRequest) -> str:
    """Return the address of a new place, which the session can reach too."""
    request.getfixturevalue(f"spark_on_{cloud}")
    return place_on(cloud, request)


@pytest.fixture
def place_on_s3(s3: S3Server) -> str:
    return f"s3://{s3.make_bucket()}"


@pytest.fixture
def place_on_azure(azure: AzureServer) -> str:
    return f"abfs://{azure.make_container()}@{ACCOUNT}.dfs.core.windows.net"


@pytest.fixture
def place_on_google(google: GoogleServer) -> str:
    return f"gs://{google.make_bucket()}"


@pytest.fixture
def place_on_hdfs(hdfs: HdfsServer) -> str:
    return hdfs.make_folder()


@pytest.fixture
def spark_on_hdfs(spark: SparkSession, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session. Its JVM runs already, as the user of this process, and so do we then."""
    monkeypatch.delenv("HADOOP_USER_NAME")
    return spark
