"""A history before topics of Kafka, computed as a batch: it gives the rows of the streaming run."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.errors import InputError
from rekindle.runtime.steps import heard_by
from tests.jobs.backlog_kit import (
    DUPLICATES,
    JOINS,
    OF_WINDOWS,
    PIPELINES,
    SESSIONS,
    Generator,
    Pipeline,
    compare,
    make,
    sessions,
    tumbling,
)
from tests.jobs.kit import QUICK, Row, World, rows, until
from tests.servers.kafka import KafkaServer, why_no_connector
from tests.sources.test_kafka import parsed
from tests.sources.test_kafka_away import nowhere

pytestmark = pytest.mark.skipif(why_no_connector() is not None, reason=str(why_no_connector()))

_NUMBERS = itertools.count()


class Topic:
    """A topic of three partitions."""

    def __init__(self, kafka: KafkaServer, partitions: int = 3) -> None:
        self.kafka = kafka
        self.name = f"backlog-{next(_NUMBERS)}"
        self.sent = 0
        kafka.make_topic(self.name, partitions, **{"retention.ms": "-1"})

    def add(self, *parts: list[Row]) -> None:
        """See `Live`."""
        for part in parts:
            self.sent += len(part)
            values = ((k, json.dumps({"ts": ts and ts.isoformat(), "k": k, "v": v})) for ts, k, v in part)
            self.kafka.send(self.name, ((key, value, 0) for key, value in values))

    def source(self, mode: str) -> rk.Stream:
        """See `Live`."""
        options = {} if mode == "stream" else {"maxOffsetsPerTrigger": "30"}
        source = rk.sources.Kafka(self.kafka.bootstrap, self.name, transform=parsed, options=options)
        assert isinstance(source, rk.Stream)
        return source

    def has_read(self, mode: str, offset: dict[str, Any], parts: int) -> bool:
        """See `Live`."""
        return bool(sum(offset[self.name].values()) == self.sent)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_it_gives_the_rows_of_the_streaming_run(spark: SparkSession, kafka: KafkaServer, world: World) -> None:
    compare(spark, world, 1, (tumbling,), lambda _: Topic(kafka))  # the others are slow tests


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 26))
def test_it_gives_the_rows_of_the_streaming_run_for_any_cut(
    spark: SparkSession, kafka: KafkaServer, world: World, seed: int
) -> None:
    pipelines = (*Generator(seed).sample(PIPELINES, 2), *OF_WINDOWS, *JOINS, *DUPLICATES, *SESSIONS)
    compare(spark, world, seed, pipelines, lambda _: Topic(kafka))


@pytest.mark.parametrize("pipeline", [tumbling, sessions])
def test_messages_that_are_deleted_before_the_stream_reads_them_are_not_passed_over(
    spark: SparkSession, kafka: KafkaServer, world: World, pipeline: Pipeline
) -> None:
    topic = Topic(kafka, partitions=1)
    world.add_history(rows(0, 90), rows(2, 60))
    topic.add(rows(4, 122))

    def delete(step: str) -> None:
        if step == "prelude.create/after":
            kafka.delete_messages(topic.name, 60)

    job = make({"": world}, "batch", (pipeline,), "1 minute", {"": topic})
    with pytest.raises(InputError) as lost:
        heard_by(delete, job.run)(spark, storage=world.storage, config={**QUICK, "backlog.mode": "batch"})

    assert lost.value.code == "KAFKA_DATA_LOST"


def test_brokers_that_are_away_at_the_start_are_named_and_a_stop_works_meanwhile(
    spark: SparkSession, world: World
) -> None:
    world.add_history(rows(0, 9))
    job = rk.Job("batch")
    history = job.source("history", world.files(), event_time="ts")
    live = job.source("live", nowhere(transform=parsed), event_time="ts", watermark="1 minute")
    job.sink("out", job.task(history, live, uid="tumbling")(tumbling), rk.sinks.Parquet(world.out))

    handle = job.start(spark, storage=world.storage, config={**QUICK, "backlog.mode": "batch"})
    until(lambda: handle.status().restarts >= 1)

    failure = handle.status().failure
    assert failure is not None
    assert failure.message.startswith("Source 'live': Kafka failed: no broker answers, TimeoutException: ")
    assert handle.stop().state == "STOPPED"
