"""Runs of what is available now of topics: all that is there, and nothing twice, whatever comes meanwhile."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from tests.jobs.kit import START, committed
from tests.servers.kafka import SECONDS_AT_MOST, KafkaServer, why_no_connector

pytestmark = pytest.mark.skipif(why_no_connector() is not None, reason=str(why_no_connector()))

LAST_MINUTE = 30
"""Of the messages that are there at first, one a minute; those that come meanwhile are of this one."""


def message(number: int) -> str:
    return json.dumps({"n": number, "minute": min(number, LAST_MINUTE)})


def parsed(messages: DataFrame) -> DataFrame:
    row = F.from_json(F.col("value").cast("string"), "n long, minute long").alias("row")
    at = F.timestamp_seconds(F.col("row.minute") * 60 + round(START.timestamp())).alias("ts")
    return messages.select(row).select("row.n", at)


def job_of(root: Path, source: Any) -> rk.Job:
    """The rows, and in a task that reads them how many each five minutes have."""
    job = rk.Job("scheduled")
    live = job.source("live", source, event_time="ts", watermark="1 minute")

    @job.task(live, event_time="ts")
    def rows(live: DataFrame) -> DataFrame:
        return live

    @job.task(rows)
    def counts(rows: DataFrame) -> DataFrame:
        counted = rows.groupBy(F.window("ts", "5 minutes")).agg(F.count("*").alias("count"))
        return counted.select(F.minute("window.start").alias("minute"), "count")

    job.sink("rows", rows, rk.sinks.Parquet(root / "rows"))
    job.sink("counts", counts, rk.sinks.Parquet(root / "counts"))
    return job


def run(spark: SparkSession, root: Path, source: Any) -> Counter[int]:
    """Return the numbers that are committed after one run."""
    result = job_of(root, source).run(
        spark, storage=str(root / "state"), config={"checkpoint.interval": "1 hour"}, available_now=True
    )
    assert result.state == "STOPPED"
    return Counter(row["n"] for row in committed(root / "rows"))


def counts(root: Path) -> list[tuple[int, int]]:
    return sorted((row["minute"], row["count"]) for row in committed(root / "counts"))


def transaction(kafka: KafkaServer, topic: str, numbers: range, end: str) -> None:
    """Send these to the first partition in one transaction, and commit or abort it; the second one stays empty."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS_AT_MOST)
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, message(number), partition=0)
    producer.flush()
    getattr(producer, f"{end}_transaction")(SECONDS_AT_MOST)
    kafka.messages(topic)  # until the broker has marked them


@contextmanager
def fed(kafka: KafkaServer, topic: str, first: int) -> Iterator[list[int]]:
    """Send a message every few milliseconds; yield the numbers that are sent."""
    from confluent_kafka import Producer

    over, sent = threading.Event(), list[int]()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def feed() -> None:
        for number in itertools.count(first):
            if over.wait(0.02):
                break
            producer.produce(topic, message(number), partition=0)
            producer.poll(0)
            sent.append(number)
        assert producer.flush(SECONDS_AT_MOST) == 0

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield sent
    finally:
        over.set()
        feeder.join()


@pytest.fixture
def topic(kafka: KafkaServer, request: pytest.FixtureRequest) -> str:
    name = f"available-{abs(hash(request.node.name))}"
    kafka.make_topic(name, partitions=2)
    return name


def test_each_run_reads_what_a_topic_has_and_stops_though_more_comes_all_the_time(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    def source(at_most: int) -> Any:
        options = {"maxOffsetsPerTrigger": str(at_most)}
        return rk.sources.Kafka(kafka.bootstrap, topic, transform=parsed, options=options)

    assert run(spark, tmp_path, source(25)) == Counter(), "the topic is empty"

    transaction(kafka, topic, range(LAST_MINUTE + 1), "commit")
    transaction(kafka, topic, range(1_000, 1_030), "abort")
    with fed(kafka, topic, first=100) as sent:
        found = run(spark, tmp_path, source(25))
    assert found.keys() >= set(range(LAST_MINUTE + 1)) and set(found.values()) == {1}
    closed = [(minute, 5) for minute in range(0, LAST_MINUTE - 5, 5)]
    assert counts(tmp_path) == closed, "all that are over by the newest row"

    everything = Counter([*range(LAST_MINUTE + 1), *sent])
    assert run(spark, tmp_path, source(1_000)) == everything
    assert run(spark, tmp_path, source(1_000)) == everything, "nothing has come"
    assert counts(tmp_path) == closed


def test_a_read_of_aborted_messages_alone_is_not_the_end_of_a_topic_after_a_history(
    spark: SparkSession, kafka: KafkaServer, topic: str
) -> None:
    transaction(kafka, topic, range(12), "abort")
    transaction(kafka, topic, range(3), "commit")
    topics = rk.sources.Kafka(kafka.bootstrap, topic, options={"maxOffsetsPerTrigger": "12"}).topics
    topics.prepare_for_available_now(spark)
    kafka.send(topic, [(None, message(3), -1)] * 9)  # to either partition, after what there was
    position, found = topics.begin_at(spark, "topics"), []
    while not found or not topics.has_caught_up("topics", position):
        frame, position, _ = topics.read(spark, "topics", position)
        found.append(0 if frame is None else frame.count())
    assert found == [0, 3, 0]


@pytest.mark.slow
def test_a_topic_after_a_history_is_read_on_after_a_read_whose_messages_were_all_aborted(
    spark: SparkSession, kafka: KafkaServer, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "0.json").write_text("".join(f"{json.dumps({'value': message(n)})}\n" for n in range(5)))
    transaction(kafka, topic, range(1_000, 1_012), "abort")
    transaction(kafka, topic, range(5, LAST_MINUTE + 1), "commit")
    transaction(kafka, topic, range(1_000, 1_012), "abort")

    def source() -> Any:
        history = rk.Files(str(tmp_path / "history"), format="json", schema="value string", transform=parsed)
        options = {"maxOffsetsPerTrigger": "6"}
        topics = rk.sources.Kafka(kafka.bootstrap, topic, transform=parsed, options=options)
        return rk.sources.Hybrid(history, then=topics)

    assert run(spark, tmp_path, source()) == Counter(range(LAST_MINUTE + 1))
    assert counts(tmp_path) == [(minute, 5) for minute in range(0, LAST_MINUTE - 5, 5)]
