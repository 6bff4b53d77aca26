"""A lane: one producer with a transactional id of its own, so that several publish at the same time.

In one transaction a lane publishes its messages of a checkpoint and its record in the topic of commits. A driver that
opens a lane fences all that had it before (``init_transactions`` ends what they had begun), then reads what it has
committed. So of two drivers that commit the same at the same time, one is fenced in the middle, begins again, and finds
it done. No one can read past a transaction that is open: of several lanes, all are opened before that is read.

This module must not know where messages are staged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import stamina
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from rekindle.sinks import retrying
from rekindle.sinks.kafka import commits, consuming
from rekindle.sinks.kafka.staged import Message
from rekindle.storage.port import NotFound

_LOOK_S = 0.5
ATTEMPTS = 8
PATIENCE_S = 60.0

DEFAULTS = {
    # A checkpoint's share of a lane is published within this time, or the brokers give it up.
    "transaction.timeout.ms": 300_000,
    # A key goes to the partition that Kafka's own (Java) producers choose.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
}

TOO_LARGE = "MSG_SIZE_TOO_LARGE"

_LASTING = (
    "_AUTHENTICATION",
    "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "_INVALID_ARG",
    TOO_LARGE,
)

Done = TypeVar("Done")


class Lane:
    """One lane of a sink, opened by this driver.

    Args:
        client: settings of librdkafka.
        owner: job and sink.
    """

    #: seconds in which the brokers have to take at least one more message
    answer_s = consuming.ANSWER_S

    def __init__(self, client: consuming.Client, topic: str, owner: str, name: str) -> None:
        key = commits.key_of(owner, name)
        self._topic, self._key = topic, key.encode()
        self._admin = AdminClient(dict(client))
        self._producer = _producer(client, key)
        self._producer.init_transactions(consuming.ANSWER_S)
        #: the last checkpoint that it has committed; 0 for none
        self.committed = 0

    def publish(self, checkpoint: int, messages: Iterable[Message]) -> None:
        """Publish the messages and the lane's record. After an exception the lane has to be opened again."""
        before = self._ends()
        self._producer.begin_transaction()
        try:
            self._produce(self._topic, messages)
            self._flush()
            note = commits.value_of(checkpoint, _between(before, self._ends()))
            self._produce(commits.topic_of(self._topic), [(self._key, note, [])])
        except KafkaException as error:
            if error.args[0].name() == "_STATE":
                # A broker has refused a message. The transaction cannot be committed any more, and says why.
                self._producer.commit_transaction(PATIENCE_S)
            raise
        self._finish()
        self.committed = checkpoint

    def _ends(self) -> dict[int, int] | None:
        """Return where the topic ends now. None: brokers do not say; only a comparison hangs on it, and no commit."""
        try:
            return consuming.ends(self._admin, self._topic)
        except KafkaException:
            return None

    def _flush(self) -> None:
        """Wait until the brokers have the messages, as long as they take any."""
        left, answered_s = len(self._producer), time.monotonic()
        while now_left := self._producer.flush(_LOOK_S):
            if now_left < left:
                left, answered_s = now_left, time.monotonic()
            else:
                self._refuse_silence(answered_s)

    def _finish(self) -> None:
        # A commit that is not known to have succeeded is looked for when the lane is opened again.
        self._producer.commit_transaction(PATIENCE_S)

    def _produce(self, topic: str, messages: Iterable[Message]) -> None:
        produce = self._producer.produce
        for key, value, headers in messages:
            full_s: float | None = None
            while True:
                try:
                    if headers:
                        produce(topic, value, key, headers=headers)
                    else:
                        produce(topic, value, key)  # an empty list would cost two thirds of a call more
                    break
                except BufferError:  # as much is under way as may be
                    full_s = full_s or time.monotonic()
                    self._refuse_silence(full_s)
                    self._producer.poll(0.1)

    def _refuse_silence(self, answered_s: float) -> None:
        if time.monotonic() > answered_s + self.answer_s:
            raise TimeoutError("the brokers have stopped taking messages")

    def close(self) -> None:
        """Forget what is not committed: the brokers end it when the lane is opened again, or by themselves in time."""
        self._producer.purge()


def _between(before: dict[int, int] | None, after: dict[int, int] | None) -> commits.Offsets | None:
    if before is None or after is None:
        return None
    begun = {number: before.get(number, 0) for number in after}
    return {str(number): (begun[number], end) for number, end in after.items() if end > begun[number]}


def _producer(client: consuming.Client, key: str) -> Producer:
    return Producer({**DEFAULTS, **client, "transactional.id": f"rekindle-{key}"})


def check_settings(client: consuming.Client, owner: str) -> None:
    """Raise KafkaException where no lane could be made with these settings. No broker is asked."""
    _producer(client, owner)


def open_lanes(client: consuming.Client, topic: str, owner: str, names: Collection[str]) -> dict[str, Lane]:
    """Open lanes of a sink by their names, in this driver; return them with what they have committed."""
    if names:
        commits.make_again(client, topic)
    lanes = side_by_side(names, lambda name: Lane(client, topic, owner, name))
    committed = commits.read(client, topic, owner) if lanes else {}
    for name, lane in lanes.items():
        lane.committed = committed.get(name, 0)
    return lanes


def side_by_side(names: Collection[str], do: Callable[[str], Done]) -> dict[str, Done]:
    """Return what `do` gives for each lane, done for all of them at the same time."""
    with ThreadPoolExecutor(max(len(names), 1), thread_name_prefix="kafka-lane") as pool:
        return dict(zip(names, pool.map(do, names), strict=True))


def trying() -> Iterator[stamina.Attempt]:
    """Try again where brokers come and go, or another driver has fenced us in the middle and removed the files."""
    return retrying.trying(_may_pass, ATTEMPTS, PATIENCE_S)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, KafkaException):
        return error.args[0].name() not in _LASTING
    return isinstance(error, TimeoutError | NotFound)
