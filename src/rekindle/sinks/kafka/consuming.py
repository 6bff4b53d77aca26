"""Read a topic up to an offset, and ask where it ends."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

ANSWER_S = 20.0
"""Seconds that the brokers may take for an answer."""

Client = Mapping[str, Any]
"""Settings of librdkafka."""


def ends(admin: AdminClient, topic: str, partitions: Collection[int] | None = None) -> dict[int, int]:
    """Return the offset after the last message of each partition, of open transactions too.

    Args:
        partitions: those that count; None: all that there are.

    Raises:
        KafkaException: the brokers do not answer.
    """
    if partitions is None:
        partitions = [*admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions]
    places = {number: TopicPartition(topic, number) for number in partitions}
    asked = admin.list_offsets(
        {place: OffsetSpec.latest() for place in places.values()},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=ANSWER_S,
    )
    return {number: asked[place].result().offset for number, place in places.items()}


@contextmanager
def consumer_of(client: Client, reader: str, level: str) -> Iterator[Consumer]:
    """Give a consumer that belongs to no group and commits no offsets.

    Args:
        reader: a name for it.
        level: Kafka's ``isolation.level``.
    """
    consumer = Consumer(
        {
            **client,
            "group.id": f"rekindle-{reader}",  # has to be named, and is not used
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def messages(consumer: Consumer, place: TopicPartition, end: int) -> Iterator[Message]:
    """Yield the messages of a partition from the offset of `place` up to the offset `end`.

    Raises:
        KafkaException: the brokers do not answer.
        TimeoutError: the brokers stopped answering, or another producer's transaction stays open.
    """
    consumer.assign([place])
    deadline, reached = time.monotonic() + ANSWER_S, place.offset
    while reached < end:
        message = consumer.poll(1.0)
        if message is not None:
            deadline = time.monotonic() + ANSWER_S
            error, offset = message.error(), message.offset() or 0
            if error is None:
                if offset < end:
                    yield message
                reached = offset + 1
            elif error.name() == "_PARTITION_EOF":
                reached = offset  # after what is no message, but shows how a transaction ended
            else:
                raise KafkaException(error)
        elif time.monotonic() > deadline:
            raise TimeoutError(f"the brokers stopped answering, or a transaction stays open in {place.topic}")
