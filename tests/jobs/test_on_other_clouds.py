"""A job that has its storage, savepoints and the files of its sink on Azure, Google or HDFS."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rekindle.storage.open import open_store
from tests.jobs.stored_elsewhere import CloudWorld, documents, live_there
from tests.servers.azurite import KEY
from tests.servers.gcs import TOKEN
from tests.servers.places import place_for_spark
from tests.servers.relay import Relay

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cloud", ["azure", "hdfs"])
def test_of_sixteen_renames_onto_one_name_as_spark_s_own_progress_files_are_made_one_wins(
    cloud: str, request: pytest.FixtureRequest, spark: SparkSession
) -> None:
    place = place_for_spark(cloud, request)
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
    if cloud == "azure":
        relay: Relay = request.getfixturevalue("spark_s_way_to_azure")
        assert relay.refused, "all that lost had seen the name before: the server did not decide"


@pytest.mark.parametrize("cloud", ["azure", "google", "hdfs"])
def test_a_job_there_is_stopped_with_a_savepoint_resumed_restored_from_it_and_drained(
    cloud: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    world = CloudWorld(tmp_path, place_for_spark(cloud, request))
    live_there(world, world.place, spark, tmp_path / "local")
    secrets = (KEY.encode(), TOKEN.encode())
    assert not any(secret in document for document in documents(world) for secret in secrets)
