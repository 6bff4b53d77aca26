"""The compacted topic that tells which checkpoint each lane of a sink has committed last.

A lane's record is published in the same transaction as its messages, so it is there if and only if they are. It is read
when a lane is opened, after ``init_transactions``: by then nothing of that lane is undecided. Other lanes, and other
jobs that share the topic, may be in the middle of a transaction; what lies after their records is not shown before
they are done, so the reader waits until it has seen everything up to the end as it was.

This module must not know messages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from rekindle.sinks.retrying import trying

CONFIG = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted.
    "segment.ms": "3600000",
}

ANSWER_S = 20.0
"""Seconds that the brokers may take for an answer."""

Client = Mapping[str, Any]
"""Settings of librdkafka."""


def topic_of(topic: str) -> str:
    """Return the topic of commits for the sinks that write to `topic`."""
    return f"{topic}-rekindle-commits"


def make(client: Client, topic: str) -> None:
    """Make the topic of commits for `topic` where it is missing.

    Raises:
        KafkaException: the brokers do not answer, or do not allow it.
        ValueError: with the reason, where `topic` is missing, or the other one would forget.
    """
    admin, name = AdminClient(dict(client)), topic_of(topic)
    # Asked for a single topic, brokers may make it.
    there = admin.list_topics(timeout=ANSWER_S).topics
    if topic not in there:
        raise ValueError("there is no such topic: make it, with the partitions that its readers need")
    if name not in there:
        try:
            admin.create_topics([NewTopic(name, 1, config=CONFIG)], request_timeout=ANSWER_S)[name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    policy = _policy(admin, ConfigResource(ResourceType.TOPIC, name))
    if policy != "compact":
        raise ValueError(f"{name} has cleanup.policy={policy} and would forget what was committed: make it compact")


def _policy(admin: AdminClient, topic: ConfigResource) -> str:
    # A topic that was just made is not known to all brokers at once.
    for attempt in trying(_is_unknown, 20, ANSWER_S):
        with attempt:
            return str(
                admin.describe_configs([topic], request_timeout=ANSWER_S)[topic].result()["cleanup.policy"].value
            )
    raise AssertionError("stamina raises what the last attempt has raised")


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def key_of(owner: str, lane: str) -> str:
    """Return the key of a lane's record."""
    return f"{owner}/{lane}"


def value_of(checkpoint: int) -> bytes:
    """Return the value of a lane's record."""
    return json.dumps({"checkpoint": checkpoint}).encode()


def read(client: Client, topic: str, owner: str) -> dict[str, int]:
    """Return lane of `owner` → the last checkpoint that the lane has committed.

    Raises:
        KafkaException: the brokers do not answer.
        TimeoutError: another producer's transaction stays open.
    """
    found: dict[str, int] = {}
    for key, value in records(client, topic, owner, "read_committed"):
        of, _, lane = key.decode().rpartition("/")
        if of == owner:
            found[lane] = int(json.loads(value)["checkpoint"])
    return found


def records(client: Client, topic: str, reader: str, level: str) -> list[tuple[bytes, bytes]]:
    """Return all keys and values that are there now, in their order; a value that was deleted is empty.

    Args:
        reader: job and sink.
        level: Kafka's ``isolation.level``.

    Raises:
        KafkaException: the brokers do not answer.
        TimeoutError: the brokers stopped answering, or another producer's transaction stays open.
    """
    place = TopicPartition(topic_of(topic), 0, 0)
    admin = AdminClient(dict(client))  # it has to live until the answer is there
    asked = admin.list_offsets(
        {place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=ANSWER_S
    )
    end = asked[place].result().offset
    consumer = Consumer(
        {
            **client,
            "group.id": f"rekindle-{reader}",  # has to be named, and is not used
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([place])
        return list(_until(consumer, end))
    finally:
        consumer.close()


def _until(consumer: Consumer, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values up to the offset `end`."""
    deadline, reached = time.monotonic() + ANSWER_S, 0
    while reached < end:
        message = consumer.poll(1.0)
        if message is not None:
            error, offset = message.error(), message.offset()
            if error is None:
                yield message.key() or b"", message.value() or b""
                reached = (offset or 0) + 1
            elif error.name() == "_PARTITION_EOF":
                reached = offset or 0  # after what is no message, but shows how a transaction ended
            else:
                raise KafkaException(error)
        elif time.monotonic() > deadline:
            raise TimeoutError("somebody's transaction stays open in the topic of commits")
