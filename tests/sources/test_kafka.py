"""Topics as sources: unbounded and bounded, by offsets and by time, and a history that a topic continues."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import DefinitionError
from tests.crash.pipeline_kit import Gate
from tests.jobs.kit import DDL, QUICK, Row, World, at, rows, until
from tests.servers.kafka import KafkaServer, why_no_connector

needs_connector = pytest.mark.skipif(why_no_connector() is not None, reason=str(why_no_connector()))


def ms(time: dt.datetime | None) -> int:
    assert time is not None
    return round(time.timestamp() * 1000)


def send(kafka: KafkaServer, topic: str, data: list[Row]) -> None:
    """Each row as a JSON message whose time is the row's."""
    kafka.send(
        topic, [(key, json.dumps({"ts": ts and ts.isoformat(), "k": key, "v": v}), ms(ts)) for ts, key, v in data]
    )


def parsed(messages: DataFrame) -> DataFrame:
    return messages.select(F.from_json(F.col("value").cast("string"), DDL).alias("row")).select("row.*")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def topic(kafka: KafkaServer, request: pytest.FixtureRequest) -> str:
    name = f"source-{abs(hash(request.node.name))}"
    # The messages are of the time of their rows, so the broker would take them for old.
    kafka.make_topic(name, partitions=1, **{"retention.ms": "-1"})
    return name


@needs_connector
@pytest.mark.parametrize("by", ["offsets", "time"])
def test_a_bounded_topic_is_what_lies_between_two_places(
    spark: SparkSession, kafka: KafkaServer, topic: str, by: str
) -> None:
    send(kafka, topic, rows(0, 30))
    start, end = ({topic: {0: 10}}, {topic: {0: 20}}) if by == "offsets" else (at(10 / 60), at(20 / 60))
    source = rk.sources.Kafka(kafka.bootstrap, topic, start=start, end=end, transform=parsed)
    assert isinstance(source, rk.Batch)
    assert [row.ts.minute for row in source.read(spark).orderBy("ts").collect()] == list(range(10, 20))


@needs_connector
def test_messages_of_a_transaction_that_was_given_up_are_not_read(
    spark: SparkSession, kafka: KafkaServer, topic: str
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        producer.flush()
        end(30)
    source = rk.sources.Kafka(kafka.bootstrap, [topic], end="latest")
    assert [bytes(row.value) for row in source.read(spark).collect()] == [b"0"]


@needs_connector
@pytest.mark.parametrize("by", ["offsets", "event time"])
def test_a_history_is_continued_by_a_topic_and_every_window_is_counted_once(
    spark: SparkSession, kafka: KafkaServer, topic: str, world: World, by: str
) -> None:
    past, future = rows(0, 120), rows(2, 120)
    if by == "offsets":
        # The history is the beginning of the topic itself.
        send(kafka, topic, past)
        history: Any = rk.sources.Kafka(kafka.bootstrap, topic, end={topic: {0: len(past)}}, transform=parsed)
        live = rk.sources.Kafka(kafka.bootstrap, topic, start={topic: {0: len(past)}}, transform=parsed)
    else:
        # The topic has the end of the history as well: both know where they meet.
        world.add_history(past)
        send(kafka, topic, past[60:])
        meet = at(2)
        history = rk.Files(str(world.history), transform=lambda df: df.filter(F.col("ts") < F.lit(meet)))
        live = rk.sources.Kafka(
            kafka.bootstrap, topic, start=at(1.5), transform=lambda df: parsed(df).filter(F.col("ts") >= F.lit(meet))
        )

    def job() -> rk.Job:
        made = rk.Job("continued")
        sources = (
            made.source("history", history, event_time="ts"),
            made.source("live", live, event_time="ts", watermark="1 minute"),
        )

        @made.task(*sources)
        def hourly(history: DataFrame, live: DataFrame) -> DataFrame:
            return history.unionByName(live).groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v"))

        made.sink("out", hourly, rk.sinks.Parquet(world.out))
        return made

    handle = job().start(spark, storage=world.storage, config=QUICK)
    send(kafka, topic, future[:60])
    until(lambda: world.has_hour(1), 120)
    handle.stop()
    handle.wait()
    send(kafka, topic, future[60:])
    handle = job().start(spark, storage=world.storage, config=QUICK)
    until(lambda: world.has_hour(2), 120)
    handle.stop(drain=True)
    handle.wait()
    world.data = past + future
    assert world.output() == world.expected()


def continued(
    world: World, kafka: KafkaServer, topic: str, start: Any, *, gate: Gate | None = None, **options: str
) -> rk.Job:
    """A history of files that a topic continues, row by row: which came in which batch is to be seen."""
    job = rk.Job("continued")
    then = rk.sources.Kafka(kafka.bootstrap, topic, start=start, transform=parsed, options=options)
    rows_of = job.source("rows", rk.sources.Hybrid(rk.Files(str(world.history)), then=then))

    @job.task(rows_of, uid="copy")
    def copy(frame: DataFrame) -> DataFrame:
        return frame if gate is None else gate(frame, "v = 1")

    job.sink("out", copy, rk.sinks.Foreach(lambda frame, batch: noted(world, frame, batch)))
    return job


def noted(world: World, frame: DataFrame, batch: Any) -> None:
    """Keep the values of a batch in a file with its number."""
    (world.root / f"{batch.batch:06d}.txt").write_text(" ".join(str(row.v) for row in frame.collect()))


def values(world: World) -> list[int]:
    """In the order of the batches; within one, sorted."""
    files = sorted(world.root.glob("0*.txt"))
    return [value for file in files for value in sorted(int(word) for word in file.read_text().split())]


def numbered(first: int, until: int) -> list[Row]:
    return [(at(number), "k", number) for number in range(first, until)]


@needs_connector
@pytest.mark.usefixtures("one_file_a_batch")
@pytest.mark.parametrize("by", ["offsets", "time"])
def test_a_topic_is_read_once_the_history_is_from_where_it_stood_when_the_job_began(
    spark: SparkSession, kafka: KafkaServer, topic: str, world: World, by: str
) -> None:
    world.add_history(numbered(0, 3), numbered(3, 6))
    send(kafka, topic, numbered(4, 9))  # the topic has the end of the history as well
    start: Any = {topic: {0: 2}} if by == "offsets" else at(6)
    job = continued(world, kafka, topic, start, maxOffsetsPerTrigger="2")
    handle = job.start(spark, storage=world.storage, config=QUICK)
    until(lambda: len(values(world)) == 9, 120)
    saved = handle.stop(savepoint=str(world.root / "saves")).savepoint
    send(kafka, topic, numbered(9, 12))
    # Where it began is fixed: what start= says now does not count.
    handle = continued(world, kafka, topic, "earliest").start(spark, storage=world.storage, config=QUICK)
    until(lambda: len(values(world)) == 12, 120)
    assert handle.stop(drain=True).state == "DRAINED"
    assert values(world) == list(range(12))

    beside = World(world.root / "beside")
    handle = continued(beside, kafka, topic, start).start(spark, storage=beside.storage, restore=saved, config=QUICK)
    until(lambda: values(beside) == [9, 10, 11], 120)
    handle.stop()


@needs_connector
@pytest.mark.usefixtures("one_file_a_batch")
def test_messages_that_were_deleted_while_the_history_was_read_are_not_passed_over(
    spark: SparkSession, kafka: KafkaServer, topic: str, world: World, gate: Gate
) -> None:
    world.add_history(numbered(0, 1), numbered(1, 2))
    send(kafka, topic, numbered(2, 9))
    job = continued(world, kafka, topic, "earliest", gate=gate)
    handle = job.start(spark, storage=world.storage, config=QUICK)
    gate.await_held()
    handle.cancel()
    kafka.delete_messages(topic, before=4)
    gate.open()
    result = continued(world, kafka, topic, "earliest").start(spark, storage=world.storage, config=QUICK).wait()
    assert result is not None and result.error is not None
    assert (result.state, result.error["code"]) == ("FAILED", "KAFKA_OFFSETS_GONE"), result
    assert "from offset 0 on, and has the offsets 4 to 7" in result.error["message"]
    assert values(world) == [0, 1], "the history was read, and nothing after what is missing"


def test_a_place_that_is_none_is_refused_when_the_source_is_made() -> None:
    for wrong in ("newest", dt.datetime(2025, 1, 1)):  # noqa: DTZ001 - that is what is wrong with it
        with pytest.raises(DefinitionError) as error:
            rk.sources.Kafka("host:1", "topic", start=wrong)
        assert error.value.code == "ARGUMENT_INVALID"


def test_without_the_connector_it_is_said_how_to_have_it() -> None:
    class Reader:
        def format(self, name: str) -> Any:
            raise ValueError(f"[DATA_SOURCE_NOT_FOUND] Failed to find data source: {name}.")

    class Session:
        version = "4.3.0"
        readStream = Reader()  # noqa: N815 - so it is called in Spark

    with pytest.raises(DefinitionError) as error:
        rk.sources.Kafka("host:1", "topic").read(Session())  # type: ignore[arg-type]
    assert error.value.code == "CONNECTOR_MISSING" and error.value.next_step.endswith("_2.13:4.2.0")
