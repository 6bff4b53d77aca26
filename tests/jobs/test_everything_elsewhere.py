"""All that a job can write into its storage, where that is a bucket, a container or HDFS.

These are the rows of a Batch source, the reads of a custom one, the channels between tasks of several subtasks, the
state of RocksDB, and the messages that a Kafka sink has staged.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from tests.jobs.kit import DDL, QUICK, at, orphans, rows, shown_in, until
from tests.jobs.stored_elsewhere import CloudWorld
from tests.servers.kafka import KafkaServer
from tests.servers.places import ELSEWHERE, place_for_spark

pytestmark = [pytest.mark.slow, pytest.mark.spark]

STATE = "org.apache.spark.sql.execution.streaming.state"

OF_SPARK = re.compile(r".*/spark/.*/\.[^/]+\.tmp")
"""A file that Spark has not given its name yet, when the stop met it there."""

Row = tuple[dt.datetime | None, str, int]


class Minutes(rk.SplitSource):
    """Two splits without an end, each with a row a minute as far as is said."""

    schema = DDL
    bounded = False
    poll_every = "200 ms"

    def __init__(self, upto: int) -> None:
        self.upto = upto

    def splits(self) -> list[str]:
        return ["left", "right"]

    def read(self, spark: SparkSession, split: str, position: Any) -> tuple[DataFrame | None, Any, bool]:
        first = position or 0
        found = [(at(minute / 60), split, 1) for minute in range(first, min(first + 20, self.upto))]
        return (spark.createDataFrame(found, DDL) if found else None), first + len(found), False

    def data(self, begun: int = 0) -> list[Row]:
        """The rows from a position on."""
        return [(at(minute / 60), split, 1) for split in self.splits() for minute in range(begun, self.upto)]


def hourly(data: list[Row]) -> Counter[tuple[dt.datetime, str, int]]:
    """What the job counts of these rows."""
    sums = Counter((ts.replace(minute=0), key) for ts, key, _ in data if ts is not None)
    return Counter((hour, key, count) for (hour, key), count in sums.items())


def of(data: list[Row]) -> Counter[tuple[str, str]]:
    """The messages of these rows, by their key and the hour of their time."""
    return Counter((key, ts.isoformat()[:13]) for ts, key, _ in data if ts is not None)


class Everything:
    """A job with each kind of source, and its targets."""

    def __init__(self, world: CloudWorld, kafka: KafkaServer, number: int = 1) -> None:
        self.world, self.kafka, self.topic = world, kafka, f"{world.root.name}-{number}"
        self.out = f"{world.place}/out/{number}"
        kafka.make_topic(self.topic)

    def job(self, custom: Minutes) -> rk.Job:
        from pyspark.sql import functions as F

        job = rk.Job("everything")
        table = str(self.world.history)
        history = job.source("history", self.world.files(), event_time="ts")
        batch = job.source("batch", rk.Batch(lambda spark: spark.read.parquet(table)), event_time="ts")
        minutes = job.source("minutes", custom, event_time="ts", watermark="4 seconds")
        live = job.source("live", self.world.stream(), event_time="ts", watermark="4 seconds")

        @job.task(history, batch, minutes, parallelism=2, event_time="ts")
        def gathered(history: DataFrame, batch: DataFrame, minutes: DataFrame) -> DataFrame:
            return history.unionByName(batch.withColumn("k", F.lit("batch"))).unionByName(minutes)

        @job.task(live, gathered)
        def hourly(live: DataFrame, gathered: DataFrame) -> DataFrame:
            return live.unionByName(gathered).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

        job.sink("hourly", hourly, rk.sinks.Parquet(self.out))
        job.sink("each", gathered, rk.sinks.Kafka(self.kafka.bootstrap, self.topic, key="k"))
        return job

    def windows(self) -> Counter[tuple[dt.datetime, str, int]]:
        """The rows that the Parquet sink shows."""
        return shown_in(self.out)

    def messages(self) -> Counter[tuple[str, str]]:
        """The messages, by their key and the hour of their time."""
        found = self.kafka.messages(self.topic)
        return Counter((message.key().decode(), json.loads(message.value())["ts"][:13]) for message in found)


def live_read(handle: rk.JobHandle) -> int:
    """How many files of the live stream are in batch records."""
    position = next(task.inputs["live"].position for task in handle.status().tasks if "live" in task.inputs)
    return 0 if position is None else int(position["logOffset"]) + 1


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """Have state in RocksDB, and uploaded as changes."""
    kept = {
        "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    for name, value in kept.items():
        spark.conf.set(name, value)
    yield
    for name in kept:
        spark.conf.unset(name)


@pytest.mark.parametrize("cloud", ELSEWHERE)
def test_all_that_a_job_writes_there_is_found_by_the_next_run_and_by_one_from_a_savepoint(
    cloud: str, request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, rocksdb: None, kafka: KafkaServer
) -> None:
    world = CloudWorld(tmp_path, place_for_spark(cloud, request))
    world.add_history(rows(0, 90), rows(5, 90))
    history = list(world.data)
    finite = history + [(ts, "batch", v) for ts, _, v in history]
    here, there = Everything(world, kafka, 1), Everything(world, kafka, 2)

    def start(targets: Everything, minutes: int, **options: Any) -> tuple[rk.JobHandle, Minutes]:
        """Start it, and wait until it has read what there is."""
        custom = Minutes(minutes)
        handle = targets.job(custom).start(spark, config=QUICK, **{"storage": world.storage, **options})
        wanted = of(custom.data(50)) if "restore" in options else of(finite + custom.data())
        until(lambda: handle.wait(0) is not None or (targets.messages() == wanted and live_read(handle) == files))
        return handle, custom

    world.add_live(rows(100, 60))
    files = 1
    handle, _ = start(here, 50)
    stopped = handle.stop(savepoint=f"{world.place}/saves")
    assert (stopped.state, stopped.error) == ("STOPPED", None)
    saved = here.windows()

    world.add_live(rows(103, 60))
    files = 2
    handle, custom = start(here, 90)
    assert handle.stop(drain=True).state == "DRAINED"
    every = finite + custom.data() + world.data[len(history) :]
    assert here.windows() == hourly(every)
    assert here.messages() == of(finite + custom.data())
    assert [path for path in orphans(world.storage) if not OF_SPARK.fullmatch(path)] == []

    handle, _ = start(there, 90, restore=stopped.savepoint, storage=f"{world.place}/restored")
    assert handle.stop(drain=True).state == "DRAINED"
    assert there.windows() == hourly(every) - saved
