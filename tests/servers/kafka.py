"""A private Kafka broker: one node in KRaft mode, run by plain Java from Maven's artifacts.

`tools/setup.sh` puts the broker's jars into ``.venv/kafka-broker`` and those of Spark's Kafka connector into
``.venv/spark-kafka``; `REKINDLE_TEST_JARS` names another folder that holds the two.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.servers.ports import free_ports

JARS = Path(os.environ.get("REKINDLE_TEST_JARS", Path(__file__).parents[2] / ".venv"))
SECONDS_AT_MOST = 120


def jars(folder: str) -> list[Path]:
    """What the set-up has put there."""
    return sorted((JARS / folder).glob("*.jar"))


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def why_not() -> str | None:
    """What is missing for tests on Kafka; None where they can run."""
    if _java() is None:
        return "no Java in JAVA_HOME or PATH"
    if not jars("kafka-broker"):
        return f"no Kafka broker in {JARS}: `make setup` fetches it with Maven, where there is one"
    return None


def why_no_connector() -> str | None:
    """What is missing for tests of the Kafka source; None where they can run."""
    return None if jars("spark-kafka") else f"no Kafka connector of Spark in {JARS}: `make setup` tries to fetch it"


class KafkaServer:
    """One broker; `start`, `stop` and `freeze` it as often as a test likes."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-kafka-"))
        port, controller, self.inner, self.outer = free_ports(4)
        self.bootstrap = f"127.0.0.1:{port}"
        #: for clients behind a `distance` from the port `outer` to the port `inner`
        self.distant = f"127.0.0.1:{self.outer}"
        self._process: subprocess.Popen[bytes] | None = None
        self._properties = self._folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},DISTANT://127.0.0.1:{self.inner},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},DISTANT://{self.distant}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,DISTANT:PLAINTEXT",
            "log.dirs": self._folder / "data",
            "auto.create.topics.enable": "false",
            # One node, and small.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 8 << 20,
            "num.io.threads": 2,
            "num.network.threads": 2,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        format_it = ("kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(self._properties))
        subprocess.run(self._command(*format_it), check=True, capture_output=True, timeout=SECONDS_AT_MOST)

    def _command(self, *arguments: str) -> list[str]:
        java = _java()
        assert java is not None
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", str(JARS / "kafka-broker" / "*"))
        return [java, *options, *arguments]

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties)), stdout=log, stderr=log, cwd=self._folder
            )
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()[-3000:]

    @property
    def pid(self) -> int:
        """Of the broker's process."""
        assert self._process is not None
        return self._process.pid

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            self.admin().list_topics(timeout=2)
        except KafkaException:
            return False
        return True

    def stop(self, sign: signal.Signals = signal.SIGKILL) -> None:
        """Stop it; by default as a crash does."""
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait(SECONDS_AT_MOST)
            self._process = None

    def freeze(self) -> None:
        """Let it stand still, its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """Stop it and delete what it has."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the broker has written."""
        return (self._folder / "server.log").read_text(errors="replace")

    def admin(self) -> Any:
        """An admin client."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def make_topic(self, name: str, partitions: int = 3, **config: str) -> None:
        """Make a topic."""
        from confluent_kafka.admin import NewTopic

        admin = self.admin()  # it has to live until the answer is there
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(SECONDS_AT_MOST)

    def set_config(self, topic: str, name: str, value: str) -> None:
        """Set a setting of a topic."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self.admin()
        admin.incremental_alter_configs([resource])[resource].result(SECONDS_AT_MOST)

    def delete_topic(self, name: str) -> None:
        """Delete a topic if it is there; it is gone when this returns."""
        admin = self.admin()
        while name in admin.list_topics(timeout=SECONDS_AT_MOST).topics:
            admin.delete_topics([name])
            time.sleep(0.2)

    def delete_messages(self, topic: str, before: int) -> None:
        """Delete what is older than an offset of the first partition, as retention does."""
        from confluent_kafka import TopicPartition

        admin = self.admin()
        [deleted] = admin.delete_records([TopicPartition(topic, 0, before)]).values()
        deleted.result(SECONDS_AT_MOST)

    def send(self, topic: str, messages: Iterable[tuple[str | None, str, int]]) -> None:
        """Send (key, value, timestamp in ms) outside of any transaction."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value, timestamp_ms in messages:
            producer.produce(topic, value, key, timestamp=timestamp_ms)
        assert producer.flush(SECONDS_AT_MOST) == 0

    def messages(self, topic: str, settled_in_s: float = 2) -> list[Any]:
        """What a consumer reads now that sees committed messages only, partition by partition.

        Args:
            settled_in_s: how long to wait for brokers to mark what was committed; also where something stays open.
        """
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        self._settle(topic, settled_in_s)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "tests",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        partitions = consumer.list_topics(topic, timeout=SECONDS_AT_MOST).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], set()
        for message in _polled(consumer):
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
                if len(ended) == len(partitions):
                    break
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def _settle(self, topic: str, seconds: float) -> None:
        """The broker marks what was committed a moment after it has said so; a transaction may also be left open."""
        from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        admin = self.admin()
        partitions = admin.list_topics(topic, timeout=SECONDS_AT_MOST).topics[topic].partitions
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}

        def ends(level: IsolationLevel) -> dict[TopicPartition, int]:
            found = admin.list_offsets(asked, isolation_level=level)
            return {partition: future.result(SECONDS_AT_MOST).offset for partition, future in found.items()}

        def is_settled() -> bool:
            try:
                return ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED)
            except KafkaException as error:
                if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                    raise
                return False  # it was just made

        deadline = time.monotonic() + seconds
        while not is_settled():
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)


def _polled(consumer: Any) -> Iterator[Any]:
    deadline = time.monotonic() + SECONDS_AT_MOST
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            yield message
    raise AssertionError("the topic is not read to its end")
