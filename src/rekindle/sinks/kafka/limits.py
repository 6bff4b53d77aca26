"""The largest message that can be published: a larger one is refused before its batch is recorded.

There are two limits. That of the client, ``message.max.bytes``, is for a message before it is compressed. That of the
topic, ``max.message.bytes``, is for what arrives at the broker, compressed: so the few messages that are above it are
compressed here to see. Where brokers do not say the topic's limit, a publish shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rekindle.sinks.kafka.consuming import Client

_CLIENTS = 1_000_000
"""The client's limit if its settings do not have another, and the size up to which it puts messages together."""

_FRAME = 61
"""Bytes of a batch beside its messages."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a client and of the topic, in bytes."""

    client: int
    #: None: brokers do not say
    topic: int | None
    #: compression of librdkafka
    codec: str

    @classmethod
    def of(cls, client: Client, topic: int | None) -> Limits:
        """Return the limits of a producer with these settings."""
        codec = client.get("compression.codec") or client.get("compression.type") or "none"
        return cls(int(client.get("message.max.bytes", _CLIENTS)), topic, str(codec))

    @property
    def settings(self) -> Client:
        """The settings of a producer that puts no more messages together than the topic takes at once."""
        return {} if self.topic is None else {"batch.size": min(_CLIENTS, self.topic)}

    def check(self, largest: int, above: Callable[[int], Iterable[bytes]]) -> None:
        """Raise ValueError where a message is too large to be published.

        Args:
            largest: size of the largest message.
            above: returns the bytes of each message with a size above a given one.
        """
        if largest > self.client:
            raise ValueError(f"it has {largest} bytes, and message.max.bytes of the sink's options is {self.client}")
        if self.topic is None or largest + _FRAME <= self.topic:
            return
        for message in above(self.topic - _FRAME):
            size = _FRAME + self._compressed(message)
            if size > self.topic:
                raise ValueError(f"it has {size} bytes, and max.message.bytes of the topic is {self.topic}")

    def _compressed(self, message: bytes) -> int:
        import pyarrow as pa  # only drivers need it; the command line starts without

        if self.codec == "none":
            return len(message)
        compressed: int = pa.Codec(self.codec).compress(message).size
        return min(len(message), compressed)
