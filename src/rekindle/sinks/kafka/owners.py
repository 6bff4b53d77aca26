"""Notes of the jobs that write to the topic, in the topic of commits beside it. It is compacted: the last note counts.

A note is published outside of any transaction and read with those that are open, so that no other job's transaction
holds a start up. Its key is of another form than those of lanes, ``<job>-<id>/<sink>/<lane>``, whose readers pass over
it. This module must not know what a note is for.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from rekindle.sinks.kafka import commits, consuming
from rekindle.sinks.kafka.lanes import trying
from rekindle.sinks.owners import Note, parsed

_PREFIX = "owners/"


@dataclass(frozen=True, slots=True)
class Records:
    """Notes on one topic."""

    client: consuming.Client
    topic: str
    #: job and sink
    reader: str

    def owners(self) -> Collection[str]:
        """Return the owners that have a note that is not deleted."""
        return list(self._notes())

    def read(self, owner: str) -> Note:
        """Read the owner's last note."""
        return parsed(self._notes().get(owner, b""))

    def write(self, owner: str, note: Note) -> bool:
        """Publish a note, unless the owner has one."""
        if owner in self._notes():
            return False
        self._publish(owner, json.dumps(note).encode())
        return True

    def remove(self, owner: str) -> None:
        """Publish that the note is deleted."""
        self._publish(owner, None)

    def _notes(self) -> dict[str, bytes]:
        last = dict(self._records())
        found = {key.decode(errors="replace"): value for key, value in last.items()}
        return {key.removeprefix(_PREFIX): value for key, value in found.items() if value and key.startswith(_PREFIX)}

    def _records(self) -> list[tuple[bytes, bytes]]:
        # Brokers may not know yet who leads a topic that was just made.
        for attempt in trying():
            with attempt:
                return commits.records(self.client, self.topic, self.reader, "read_uncommitted")
        raise AssertionError("stamina raises what the last attempt has raised")

    def _publish(self, owner: str, value: bytes | None) -> None:
        # A retry may publish it twice, which changes nothing.
        producer = Producer({**self.client, "acks": "all", "enable.idempotence": False})
        failed: list[KafkaError] = []

        def heard(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failed.append(error)

        producer.produce(commits.topic_of(self.topic), value, f"{_PREFIX}{owner}", on_delivery=heard)
        if producer.flush(consuming.ANSWER_S):
            producer.purge()
            raise TimeoutError("the brokers do not take the note of who writes to the topic")
        if failed:
            raise KafkaException(failed[0])
