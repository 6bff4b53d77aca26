"""The Kafka sink holds the contract on a real broker, with one producer and with several; and what is its own."""

from __future__ import annotations

import itertools
import json
import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, SinkError
from rekindle.sinks import Kafka
from rekindle.sinks.kafka.commits import make_again, read, topic_of
from rekindle.sinks.kafka.lanes import open_lanes
from rekindle.sinks.kafka.logged import SeldomTheSame
from rekindle.sinks.kafka.staged import SIZE
from rekindle.storage.open import open_store
from rekindle.testing.effects import at_moments, crash_at
from rekindle.testing.sink_contract import Row, SinkContract, batch_of, permit
from tests.jobs.kit import until
from tests.servers.kafka import KafkaServer

_NUMBERS = itertools.count()


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    """A topic of the test's own."""
    name = f"topic-{next(_NUMBERS)}"
    kafka.make_topic(name)
    return name


class KafkaContract(SinkContract):
    on_a_server = True
    effects = (
        "rekindle.sinks.kafka.lanes.Lane.publish",
        "rekindle.sinks.kafka.lanes.Lane._finish",
        "rekindle.sinks.kafka.sink.Kafka._remove",
        "rekindle.sinks.writing.run_write",
    )
    looks = (
        "rekindle.sinks.kafka.commits.read",
        "rekindle.storage.local.LocalStore.exists",
    )
    secrets = ("hunter2",)
    producers = 1

    @pytest.fixture
    def target(self, kafka: KafkaServer, topic: str, tmp_path: Path) -> str:
        self.server = kafka
        self.storage = open_store(str(tmp_path))
        return topic

    def make(self, target: str) -> Kafka:
        options = {"sasl.password": "hunter2"}
        return Kafka(self.server.bootstrap, target, key="n", producers=self.producers, options=options)

    def opened(self, job: str = "job-1234", sink: str = "out") -> Kafka:
        made = self.make(self.target)
        made.stage_in(self.storage, f"{job}/sinks/{sink}")
        made.open(job, sink)
        self._opened.append(made)
        return made

    def visible(self, spark: SparkSession, target: str) -> Iterable[Row]:
        for message in self.server.messages(target):
            row = json.loads(message.value())
            assert message.key() == str(row["n"]).encode()
            yield row["n"], row.get("text")

    def staged(self, target: str) -> int:
        return sum(
            1
            for job in self.storage.names("")
            for sink in self.storage.names(f"{job}/sinks")
            for _ in self.storage.names(f"{job}/sinks/{sink}")
        )


class TestOneProducer(KafkaContract):
    """A checkpoint is one transaction."""


@pytest.mark.slow
class TestSeveralProducers(KafkaContract):
    """Three transactions, which a crash may fall between."""

    producers = 3


# -- what is its own ---------------------------------------------------------------------------------------------------


@pytest.fixture
def make(kafka: KafkaServer, topic: str, tmp_path: Path) -> Iterator[Callable[..., Kafka]]:
    """Makes sinks of one job, opened, on the test's topic."""
    storage = open_store(str(tmp_path))

    def made(**arguments: Any) -> Kafka:
        sink = Kafka(kafka.bootstrap, topic, **arguments)
        sink.stage_in(storage, "job/sinks/out")
        sink.open("job", "out")
        opened.append(sink)
        return sink

    opened: list[Kafka] = []
    yield made
    for sink in opened:
        sink.close()


def test_keys_values_and_headers_are_columns(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    frame = spark.sql("SELECT 7 k, X'00ff' v, 'a' `h 1`, CAST(NULL AS STRING) h2, named_struct('x', 1) h3")
    sink = make(key="k", value="v", headers=["h 1", "h2", "h3"])
    sink.commit(sink.prepare(frame, batch_of(0)), permit(1))
    plain = make()
    plain.commit(plain.prepare(frame.drop("v", "h3"), batch_of(1)), permit(2))
    first, second = sorted(kafka.messages(topic), key=lambda message: message.key() is None)
    assert (first.key(), first.value()) == (b"7", b"\x00\xff")
    assert first.headers() == [("h 1", b"a"), ("h3", b'{"x":1}')]
    assert (second.key(), second.headers()) == (None, None)
    assert json.loads(second.value()) == {"k": 7, "h 1": "a"}


def test_a_key_keeps_the_order_of_batches_with_several_producers(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    sink = make(key="k", producers=3)
    made = [
        one
        for number in range(3)
        for one in sink.prepare(spark.range(20).selectExpr("id k", f"{number} batch").repartition(2), batch_of(number))
    ]
    assert {lane for one in made for lane in one["lanes"]} == {"0", "1", "2"}
    sink.commit(made, permit())
    seen: dict[bytes, list[int]] = {}
    for message in kafka.messages(topic):
        seen.setdefault(message.key(), []).append(json.loads(message.value())["batch"])
    assert len(seen) == 20 and all(order == [0, 1, 2] for order in seen.values())


def test_a_column_that_is_not_there_is_refused_for_good(spark: SparkSession, make: Callable[..., Kafka]) -> None:
    with pytest.raises(SinkError, match="no column 'auction'") as error:
        make(key="auction").prepare(spark.range(1), batch_of(0))
    assert error.value.code == "SINK_SCHEMA_MISMATCH" and error.value.permanent


LARGE = "SELECT 'k' k, CAST(repeat('x', {0}) AS BINARY) v, 'h' h"
RANDOM = "SELECT 'k' k, unhex(array_join(transform(sequence(1, {0} DIV 16), i -> md5(string(i))), '')) v, 'h' h"


@pytest.mark.parametrize(
    ("rows", "settings", "fitting", "reason"),
    [
        # Of key, value and header, and the bytes around them.
        (LARGE, {}, 1_000_000 - 3 - 46, "it has 1000001 bytes, and message.max.bytes .* is 1000000"),
        (LARGE, {"message.max.bytes": 5000}, 5000 - 3 - 46, "it has 5001 bytes, and message.max.bytes .* is 5000"),
        (LARGE, {"message.max.bytes": 3_000_000}, 2_000_000, "message.max.bytes .* is 3000000"),
        (RANDOM, {"message.max.bytes": 3_000_000}, 1_000_000, "max.message.bytes of the topic is 1048588"),
    ],
)
def test_a_message_that_is_too_large_is_refused_before_its_batch_is_recorded(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: str,
    make: Callable[..., Kafka],
    tmp_path: Path,
    rows: str,
    settings: dict[str, int],
    fitting: int,
    reason: str,
) -> None:
    sink = make(key="k", value="v", headers="h", options=settings)
    sink.commit(sink.prepare(spark.sql(rows.format(fitting)), batch_of(0)), permit(1))
    assert len(kafka.messages(topic)) == 1
    large = spark.sql(rows.format(fitting + 1 if fitting < 1_000_000 else 2 * fitting))
    with pytest.raises(SinkError, match=reason) as error:
        sink.prepare(spark.sql(rows.format(10)).union(large), batch_of(1))
    assert error.value.code == "SINK_MESSAGE_TOO_LARGE" and error.value.permanent
    assert not [*tmp_path.rglob("*.parquet")]


@pytest.mark.parametrize("whose", ["client", "topic"])
def test_a_limit_that_was_lowered_meanwhile_ends_the_job_and_once_it_is_raised_the_next_run_publishes(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka], whose: str
) -> None:
    made = make(value="v").prepare(spark.sql(RANDOM.format(200_000)), batch_of(0))
    if whose == "topic":
        kafka.set_config(topic, "max.message.bytes", "100000")
    lower = make(value="v", options={"message.max.bytes": 100_000} if whose == "client" else {})
    begun_s = time.monotonic()
    with pytest.raises(SinkError, match="Message size too large") as error:
        lower.commit(made, permit(1))
    assert time.monotonic() < begun_s + 10, "it is not tried again"
    assert error.value.code == "SINK_MESSAGE_TOO_LARGE" and error.value.permanent
    assert "max.message.bytes" in error.value.next_step
    kafka.set_config(topic, "max.message.bytes", "300000")
    make(value="v").commit(made, permit(1))
    assert len(kafka.messages(topic)) == 1


def test_a_topic_that_takes_little_at_once_gets_as_much_at_once(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    kafka.set_config(topic, "max.message.bytes", "100000")
    sink = make(value="v", options={"compression.type": "none"})
    rows = spark.range(40).crossJoin(spark.sql(RANDOM.format(30_000)))
    sink.commit(sink.prepare(rows, batch_of(0)), permit(1))
    assert len(kafka.messages(topic)) == 40


def test_files_that_an_earlier_version_has_staged_are_published(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    sink = make(key="id", headers=["h"])
    made = sink.prepare(spark.sql("SELECT 1 id, 'a' h"), batch_of(0))
    [path] = (f"{made[0]['attempt']}/{file['path']}" for files in made[0]["lanes"].values() for file in files)
    staged = sink._staging.spark_path(f"{sink._folder}/{path}").removeprefix("file://")
    pq.write_table(pq.ParquetFile(staged).read().drop_columns([SIZE]), staged)
    make(key="id", headers=["h"]).commit(made, permit(1))
    [message] = kafka.messages(topic)
    assert (message.key(), message.value(), message.headers()) == (b"1", b'{"id":1}', [("h", b"a")])


def test_a_topic_that_is_missing_and_a_topic_of_commits_that_forgets_are_refused(kafka: KafkaServer) -> None:
    with pytest.raises(SinkError, match="no such topic") as error:
        Kafka(kafka.bootstrap, "nowhere").open("job", "out")
    assert error.value.code == "SINK_TARGET_INVALID"
    kafka.make_topic("forgetful")
    kafka.make_topic(topic_of("forgetful"), 1)
    with pytest.raises(SinkError, match=r"cleanup\.policy=delete") as error:
        Kafka(kafka.bootstrap, "forgetful").open("job", "out")
    assert error.value.code == "SINK_TARGET_INVALID"


def test_a_topic_of_commits_that_was_deleted_meanwhile_is_made_again_and_a_missing_topic_is_named(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    sink = make()
    sink.commit(sink.prepare(spark.range(3), batch_of(1)), permit(1))
    kafka.delete_topic(topic_of(topic))
    sink.close()  # the next commit looks at what there is, as after one that has failed
    sink.commit(sink.prepare(spark.range(4), batch_of(2)), permit(2))
    assert sink.newest_committed() == 2
    assert len(kafka.messages(topic)) == 7
    with pytest.raises(KafkaException, match="topic nowhere: there is no such topic: make it"):
        make_again({"bootstrap.servers": kafka.bootstrap}, "nowhere")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"acks": "1"}, "`acks` must be set to `all`"),
        ({"message.timeout.ms": 600_000}, "`message.timeout.ms` must be set <= `transaction.timeout.ms`"),
    ],
)
def test_settings_with_which_no_commit_could_publish_are_refused_when_the_sink_is_opened(
    options: dict[str, Any], reason: str, topic: str, make: Callable[..., Kafka]
) -> None:
    with pytest.raises(SinkError, match=reason) as error:
        make(options=options)
    assert error.value.code == "SINK_TARGET_INVALID"


def test_a_job_needs_a_producer() -> None:
    with pytest.raises(DefinitionError) as error:
        Kafka("host:1", "topic", producers=0)
    assert error.value.code == "ARGUMENT_INVALID"


def test_a_driver_that_died_with_a_transaction_open_leaves_nothing_and_the_next_one_publishes(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    sink = make()
    made = sink.prepare(spark.range(100), batch_of(0))
    with crash_at(1, ["rekindle.sinks.kafka.lanes.Lane._finish"]) as crash:
        sink.commit(made, permit())
    assert crash.at == "rekindle.sinks.kafka.lanes.Lane._finish/before"
    assert not kafka.messages(topic)
    make().commit(made, permit())
    assert len(kafka.messages(topic)) == 100


def test_a_driver_that_died_between_a_publish_and_its_acknowledgement_publishes_no_second_time(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    sink = make()
    made = sink.prepare(spark.range(100), batch_of(0))
    with crash_at(2, ["rekindle.sinks.kafka.lanes.Lane._finish"]) as crash:
        sink.commit(made, permit())
    assert crash.at == "rekindle.sinks.kafka.lanes.Lane._finish/after"
    # What it published is there; the records of its files are too.
    make().commit(made, permit())
    assert len(kafka.messages(topic)) == 100


def test_a_rival_that_is_quicker_and_removes_the_files_has_done_what_was_to_be_done(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    sink, rival = make(), make()
    made = sink.prepare(spark.range(100), batch_of(0))
    moments: list[str] = []

    def be_quicker(moment: str) -> None:
        moments.append(moment)
        if len(moments) == 1:  # before the first message, when the files were seen to be there
            rival.commit(made, permit())

    with at_moments(be_quicker, ["rekindle.sinks.kafka.lanes.Lane.publish"]):
        sink.commit(made, permit())
    assert moments[0] == "rekindle.sinks.kafka.lanes.Lane.publish/before"
    assert len(kafka.messages(topic)) == 100


def test_several_lanes_that_a_dead_driver_has_left_open_do_not_wait_for_each_other(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    made = make(key="id", producers=3).prepare(spark.range(100), batch_of(0))
    for lane in open_lanes({"bootstrap.servers": kafka.bootstrap}, topic, "job/out", "012").values():
        lane._producer.begin_transaction()
        lane._produce(topic_of(topic), [(b"nobody's/0", b"{}", [])])
        lane._producer.flush()
    make(key="id", producers=3).commit(made, permit())
    assert len(kafka.messages(topic)) == 100


def test_the_record_of_a_commit_is_read_behind_a_transaction_of_another_job_that_is_still_open(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    from confluent_kafka import Producer

    other = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "other"})
    sink = make()
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(topic_of(topic), "{}", "other/out/0")
    other.flush()
    made = sink.prepare(spark.range(3), batch_of(0))
    with ThreadPoolExecutor(1) as pool:
        # The lane's record is behind the open transaction: nobody sees it yet.
        committing = pool.submit(sink.commit, made, permit())
        with pytest.raises(TimeoutError):
            committing.result(3)
        other.abort_transaction(30)
        committing.result(60)
    client = {"bootstrap.servers": kafka.bootstrap}
    other.begin_transaction()
    other.produce(topic_of(topic), "{}", "other/out/0")
    other.flush()
    assert a_transaction_is_open(kafka, topic_of(topic))
    second = sink.prepare(spark.range(3), batch_of(1))
    sink.commit(second, permit(2))
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read, client, topic, "job/out")
        with pytest.raises(TimeoutError):
            reading.result(3)
        other.commit_transaction(30)
        assert reading.result(60) == {"0": 2}


def a_transaction_is_open(kafka: KafkaServer, topic: str) -> bool:
    """Whether readers of committed rows get less far than others."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    partitions = client.list_topics(topic, timeout=30).topics[topic].partitions
    latest = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
    ends = [
        [one.result(30).offset for one in client.list_offsets(latest, isolation_level=level).values()]
        for level in IsolationLevel
    ]
    return ends[0] != ends[1]


def test_a_job_may_be_down_for_longer_than_a_transaction_may_take(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    short = {"transaction.timeout.ms": 1000}
    first = make(options=short)
    first.commit(first.prepare(spark.range(3), batch_of(0)), permit(1))
    made = first.prepare(spark.range(3), batch_of(1))
    assert not a_transaction_is_open(kafka, topic), "there is none that a time-out could end"
    make(options=short).commit(made, permit(2))
    assert len(kafka.messages(topic)) == 6


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_a_broker_that_is_away_for_half_a_minute_is_waited_for(
    spark: SparkSession, kafka: KafkaServer, topic: str, make: Callable[..., Kafka], sign: signal.Signals
) -> None:
    sink = make(producers=2)
    sink.commit(sink.prepare(spark.range(10), batch_of(0)), permit(1))
    made = sink.prepare(spark.range(50_000), batch_of(1))

    def away(moment: str) -> None:
        if not gone:
            gone.append(moment)
            kafka.freeze() if sign == signal.SIGSTOP else kafka.stop()
            Timer(30, kafka.thaw if sign == signal.SIGSTOP else kafka.start).start()

    gone: list[str] = []
    with at_moments(away, ["rekindle.sinks.kafka.lanes.Lane._finish"]):
        until(lambda: _committed(sink, made), 300)
    make().commit(made, permit(2))
    assert len(kafka.messages(topic, settled_in_s=60)) == 50_010


def _committed(sink: Kafka, made: list[dict[str, Any]]) -> bool:
    """As the job does it: a commit that fails is tried again."""
    try:
        sink.commit(made, permit(2))
    except SinkError as error:
        if error.code != "SINK_SERVER_FAILED":
            raise
        return False
    return True


def test_brokers_that_stop_taking_messages_end_a_publish_and_it_can_be_made_again(
    kafka: KafkaServer, topic: str, make: Callable[..., Kafka]
) -> None:
    make()
    # Else a quick broker may have them all before it is stopped.
    client = {"bootstrap.servers": kafka.bootstrap, "linger.ms": 60_000}
    messages: list[tuple[bytes, bytes, list[tuple[str, bytes]]]] = [(b"k", b"v", [])] * 2000
    lane = open_lanes(client, topic, "job/out", ["0"])["0"]
    lane.answer_s = 1.0
    with at_moments(lambda moment: kafka.freeze(), ["rekindle.sinks.kafka.lanes.Lane._flush"]):
        try:
            with pytest.raises(TimeoutError, match="the brokers have stopped taking messages"):
                lane.publish(1, messages)
        finally:
            kafka.thaw()
    lane.close()
    open_lanes(client, topic, "job/out", ["0"])["0"].publish(1, messages)
    assert len(kafka.messages(topic)) == 2000


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "127.0.0.1:1 failed: Connection refused"),
        # Which of the two librdkafka says depends on how the broker's end of the connection reaches it.
        ({"security.protocol": "SSL"}, "connecting to a PLAINTEXT broker|SSL connection closed by peer"),
    ],
    ids=["away", "security"],
)
def test_brokers_that_do_not_answer_are_an_error_with_what_has_gone_wrong(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], reason: str
) -> None:
    monkeypatch.setattr("rekindle.sinks.kafka.consuming.ANSWER_S", 2.0)
    with pytest.raises(SinkError, match=reason) as error:
        Kafka(kafka.bootstrap if options else "127.0.0.1:1", "topic", options=options).open("job", "out")
    assert error.value.code == "SINK_TARGET_INVALID"


def test_a_line_of_librdkafka_is_logged_once_a_minute_whichever_client_has_it() -> None:
    def logged(client: str, took: str, at_s: float) -> bool:
        line = f"FAIL [rdkafka#{client}] [thrd:h:9092/bootstrap]: h:9092: Connection refused (after {took} in CONNECT)"
        record = logging.LogRecord("rekindle.kafka", logging.ERROR, "", 0, line, None, None)
        record.created = -at_s  # of a clock that was set back
        now_s.append(at_s)
        return seldom.filter(record)

    now_s = [0.0]
    seldom = SeldomTheSame(lambda: now_s[-1])
    moments = [("producer-1", "0ms", 0.0), ("producer-2", "12ms", 59.0), ("producer-1", "0ms", 60.0)]
    assert [logged(*moment) for moment in moments] == [True, False, True]
    others = ["another", "CONFWARN [rdkafka#consumer-3]: linger.ms is a producer property"]
    records = [logging.LogRecord("rekindle.kafka", logging.ERROR, "", 0, line, None, None) for line in others]
    assert [seldom.filter(record) for record in records] == [True, False]
