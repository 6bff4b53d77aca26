"""The compacted topic that tells which checkpoint each lane of a sink has committed last.

A lane's record is published in the same transaction as its messages, so it is there if and only if they are. It is read
when a lane is opened, after ``init_transactions``: by then nothing of that lane is undecided. Other lanes, and other
jobs that share the topic, may be in the middle of a transaction; what lies after their records is not shown before
they are done, so the reader waits until it has seen everything up to the end as it was.

This module must not know messages.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from rekindle.sinks.kafka import consuming
from rekindle.sinks.kafka.consuming import Client
from rekindle.sinks.retrying import trying

CONFIG = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted.
    "segment.ms": "3600000",
    # Earlier records are not needed to recover, and say where the messages of their checkpoints lie.
    "min.compaction.lag.ms": "604800000",
}

_MISSING = "there is no such topic: make it, with the partitions that its readers need"

_LOG = logging.getLogger(__name__)

Offsets = Mapping[str, tuple[int, int]]
"""Partition → where it ended before a lane published, and where after."""

Notes = Mapping[tuple[str, int], Offsets | None]
"""Lane and checkpoint → where its messages lie; None: that was not noted."""


def topic_of(topic: str) -> str:
    """Return the topic of commits for the sinks that write to `topic`."""
    return f"{topic}-rekindle-commits"


def is_there(client: Client, topic: str) -> bool:
    """Return whether the topic of commits for `topic` is there.

    Raises:
        ValueError: with the reason, where the brokers do not answer, or `topic` itself is missing.
    """
    heard: list[KafkaError] = []
    admin = AdminClient({"error_cb": heard.append, **client})
    try:
        # Asked for a single topic, brokers may make it.
        there = admin.list_topics(timeout=consuming.ANSWER_S).topics
    except KafkaException as error:
        admin.poll(0)  # error_cb is called now, for each connection that has failed
        reasons = [one.str() for one in heard if one.name() != "_ALL_BROKERS_DOWN"]
        raise ValueError(reasons[-1] if reasons else error.args[0].str()) from error
    if topic not in there:
        raise ValueError(_MISSING)
    return topic_of(topic) in there


def make(client: Client, topic: str) -> int | None:
    """Make the topic of commits for `topic` where it is missing.

    Returns:
        The ``max.message.bytes`` of `topic`; None where the brokers do not say.

    Raises:
        KafkaException: the brokers do not allow it.
        ValueError: as `is_there` and `check` raise it.
    """
    if not is_there(client, topic):
        _create(AdminClient(dict(client)), topic_of(topic))
    return check(client, topic)


def check(client: Client, topic: str) -> int | None:
    """Check that the topic of commits, which is there, forgets nothing.

    Returns:
        The ``max.message.bytes`` of `topic`; None where the brokers do not say.

    Raises:
        KafkaException: the brokers do not say how long it keeps what.
        ValueError: with the reason, where it would forget what was committed.
    """
    name = topic_of(topic)
    policy, limit = _described(AdminClient(dict(client)), name, topic)
    if policy != "compact":
        raise ValueError(f"{name} has cleanup.policy={policy} and would forget what was committed: make it compact")
    return limit


def make_again(client: Client, topic: str) -> None:
    """Make the topic of commits for `topic` again if it was deleted since it was made.

    A commit would fail until the next start, which makes it, too.

    Raises:
        KafkaException: the brokers do not answer or do not allow it, or `topic` is missing.
    """
    admin, name = AdminClient(dict(client)), topic_of(topic)
    there = admin.list_topics(timeout=consuming.ANSWER_S).topics
    if topic not in there:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"topic {topic}: {_MISSING}"))
    if name not in there:
        _LOG.warning("The topic %s was deleted, and is made again: what it knew of earlier commits is lost.", name)
        _create(admin, name)


def _create(admin: AdminClient, name: str) -> None:
    try:
        admin.create_topics([NewTopic(name, 1, config=CONFIG)], request_timeout=consuming.ANSWER_S)[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _described(admin: AdminClient, commits: str, topic: str) -> tuple[str, int | None]:
    """Return the ``cleanup.policy`` of the one, and the ``max.message.bytes`` of the other if brokers say it."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in (commits, topic)]
    # A topic that was just made is not known to all brokers at once.
    for attempt in trying(_is_unknown, 20, consuming.ANSWER_S):
        with attempt:
            asked = admin.describe_configs(resources, request_timeout=consuming.ANSWER_S)
            ours, theirs = (asked[resource] for resource in resources)
            policy, limit = str(ours.result()["cleanup.policy"].value), None
            with suppress(KafkaException, KeyError, TypeError, ValueError):  # it may be closed to this user
                limit = int(theirs.result()["max.message.bytes"].value)
            return policy, limit
    raise AssertionError("stamina raises what the last attempt has raised")


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def key_of(owner: str, lane: str) -> str:
    """Return the key of a lane's record."""
    return f"{owner}/{lane}"


def value_of(checkpoint: int, offsets: Offsets | None = None) -> bytes:
    """Return the value of a lane's record."""
    return json.dumps({"checkpoint": checkpoint, **({"offsets": offsets} if offsets is not None else {})}).encode()


def read(client: Client, topic: str, owner: str) -> dict[str, int]:
    """Return lane of `owner` → the last checkpoint that the lane has committed.

    Raises:
        KafkaException: the brokers do not answer.
        TimeoutError: another producer's transaction stays open.
    """
    return {lane: int(note["checkpoint"]) for lane, note in _of(client, topic, owner)}


def notes(client: Client, topic: str, owner: str) -> Notes:
    """Return where the messages of each checkpoint of `owner` lie, as far back as the topic remembers.

    Raises:
        KafkaException: the brokers do not answer.
        TimeoutError: another producer's transaction stays open.
    """
    return {(lane, int(note["checkpoint"])): note.get("offsets") for lane, note in _of(client, topic, owner)}


def _of(client: Client, topic: str, owner: str) -> list[tuple[str, Any]]:
    """Return lane and note of each record of `owner`, in their order."""
    keyed = [(key.decode().rpartition("/"), value) for key, value in records(client, topic, owner, "read_committed")]
    return [(lane, json.loads(value)) for (of, _, lane), value in keyed if of == owner]


def records(client: Client, topic: str, reader: str, level: str) -> list[tuple[bytes, bytes]]:
    """Return all keys and values that are there now, in their order; a value that was deleted is empty.

    Args:
        reader: job and sink.
        level: Kafka's ``isolation.level``.

    Raises:
        KafkaException: the brokers do not answer.
        TimeoutError: the brokers stopped answering, or another producer's transaction stays open.
    """
    name = topic_of(topic)
    admin = AdminClient(dict(client))  # it has to live until the answer is there
    end = consuming.ends(admin, name, [0])[0]
    with consuming.consumer_of(client, reader, level) as consumer:
        found = consuming.messages(consumer, TopicPartition(name, 0, 0), end)
        return [(_bytes(message.key()), _bytes(message.value())) for message in found]


def _bytes(text: str | bytes | None) -> bytes:
    return text.encode() if isinstance(text, str) else text or b""
