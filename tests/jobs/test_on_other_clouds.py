"""A job that has its storage, savepoints and the files of its sink on Azure, Google or HDFS."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rekindle.storage.open import open_store
from tests.jobs.kit import World, shown_in
from tests.jobs.stored_elsewhere import documents, live_there
from tests.servers.azurite import ACCOUNT, KEY, AzureServer
from tests.servers.gcs import TOKEN, GoogleServer
from tests.servers.hdfs import HdfsServer
from tests.servers.relay import Relay

pytestmark = pytest.mark.slow


class CloudWorld(World):
    """What is read is a folder, as everywhere; the rest lies in a container or bucket."""

    def __init__(self, root: Path, place: str) -> None:
        super().__init__(root)
        self.place = place
        self.storage = f"{self.place}/state of jobs"
        self.out = f"{self.place}/out/hourly"

    def output(self) -> Counter[tuple[dt.datetime, str, int]]:
        return shown_in(self.out)


@pytest.fixture
def on_azure(tmp_path: Path, azure: AzureServer, spark_on_azure: SparkSession) -> CloudWorld:
    return CloudWorld(tmp_path, f"abfs://{azure.make_container()}@{ACCOUNT}.dfs.core.windows.net")


@pytest.fixture
def on_google(tmp_path: Path, google: GoogleServer, spark_on_google: SparkSession) -> CloudWorld:
    return CloudWorld(tmp_path, f"gs://{google.make_bucket()}")


@pytest.fixture
def on_hdfs(tmp_path: Path, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> CloudWorld:
    monkeypatch.delenv("HADOOP_USER_NAME")  # its JVM runs already, as the user of this process
    return CloudWorld(tmp_path, hdfs.make_folder())


@pytest.mark.parametrize("cloud", ["on_azure", "on_hdfs"])
def test_of_sixteen_renames_onto_one_name_as_spark_s_own_progress_files_are_made_one_wins(
    cloud: str, request: pytest.FixtureRequest, spark: SparkSession
) -> None:
    place = request.getfixturevalue(cloud).place
    jvm: Any = spark._jvm
    store, hadoop = open_store(f"{place}/progress"), jvm.org.apache.hadoop
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    files = hadoop.fs.FileContext.getFileContext(hadoop.fs.Path(place).toUri(), conf)
    plain = spark._sc._gateway.new_array(hadoop.fs.Options.Rename, 0)
    start = threading.Barrier(16)

    def race(number: int) -> list[int]:
        won = []
        for round_ in range(10):
            source = f"{round_}.{number}.tmp"
            store.create(source, b"%d" % number)
            start.wait()
            with suppress(Py4JJavaError):
                paths = (hadoop.fs.Path(store.spark_path(name)) for name in (source, f"{round_}"))
                files.rename(*paths, plain)
                won.append(round_)
        return won

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(race, range(16)))
    for round_ in range(10):
        [winner] = [number for number in range(16) if round_ in found[number]]
        assert store.read(f"{round_}") == b"%d" % winner
    if cloud == "on_azure":
        relay: Relay = request.getfixturevalue("spark_s_way_to_azure")
        assert relay.refused, "all that lost had seen the name before: the server did not decide"


@pytest.mark.parametrize("cloud", ["on_azure", "on_google", "on_hdfs"])
def test_a_job_there_is_stopped_with_a_savepoint_resumed_restored_from_it_and_drained(
    cloud: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    world = request.getfixturevalue(cloud)
    live_there(world, world.place, spark, tmp_path / "local")
    secrets = (KEY.encode(), TOKEN.encode())
    assert not any(secret in document for document in documents(world) for secret in secrets)
