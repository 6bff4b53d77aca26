"""A job on Azure, Google or HDFS lives through kills, and a driver that was replaced there does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.testing.crash import Moment
from tests.crash.bucket_kit import ARGUMENTS, PLACE, BucketWorld, arguments_of
from tests.crash.lives import kill_at, overtake
from tests.crash.test_on_s3 import TELLING
from tests.servers.azurite import ACCOUNT, AzureServer
from tests.servers.fixtures import proxy_properties
from tests.servers.gcs import GoogleServer
from tests.servers.hdfs import HdfsServer
from tests.servers.ports import free_ports
from tests.servers.relay import Relay

pytestmark = pytest.mark.crash


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


@pytest.fixture(params=["on_azure", "on_google", "on_hdfs"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> BucketWorld:
    request.getfixturevalue(request.param)
    made = BucketWorld(tmp_path)
    made.fill()
    return made


@pytest.mark.parametrize("text", TELLING)
def test_a_driver_killed_at_a_telling_step_is_resumed_without_loss(
    spark: SparkSession, world: BucketWorld, text: str
) -> None:
    kill_at(spark, world, Moment.parse(text), live=False)


@pytest.mark.parametrize("moment", ["manifest.create/before", "sink.commit/before"])
@pytest.mark.usefixtures("thought_dead")
def test_an_old_driver_paused_in_a_checkpoint_changes_nothing_and_says_that_it_was_fenced(
    spark: SparkSession, world: BucketWorld, moment: str
) -> None:
    overtake(spark, world, moment)
