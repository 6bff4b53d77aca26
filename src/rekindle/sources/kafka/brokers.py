"""The answers of brokers about topics, through the admin client that Spark's connector brings, with its options.

Spark itself resolves ``earliest`` and times whenever a DataFrame is evaluated, and tells no one what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rekindle.sources.kafka.offsets import Extent, Extents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "kafka."
_CLIENTS = "org.apache.kafka.clients.admin."
_ALL = "read_uncommitted"


class Brokers:
    """The brokers that a connector's options name.

    Args:
        options: of Spark's connector; what begins with ``kafka.`` is the client's.
        topics: those that are asked for.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str], topics: Sequence[str]) -> None:
        self._jvm: Any = spark._jvm
        self._settings = {
            name[len(_PREFIX) :]: value for name, value in options.items() if name.lower().startswith(_PREFIX)
        }
        self._topics = topics

    def extents(self) -> Extents:
        """Return which messages of each partition there are; committed ones, where no others are to be read."""
        with self._asked() as asked:
            partitions = asked.partitions(self._topics)
            ends = asked.offsets(partitions, "latest", level=self._settings.get("isolation.level", _ALL))
            # After the ends, which are then not beyond it.
            written = asked.offsets(partitions, "latest")
            first = asked.offsets(partitions, "earliest")
        made: dict[str, dict[int, Extent]] = {topic: {} for topic in self._topics}
        for where in partitions:
            made[where[0]][where[1]] = Extent(first[where], ends[where], written[where])
        return made

    def offsets_at(self, time_ms: int) -> dict[tuple[str, int], int]:
        """Return (topic, partition) → offset of the first message of that time or later; -1 where there is none."""
        with self._asked() as asked:
            return asked.offsets(asked.partitions(self._topics), "forTimestamp", time_ms)

    @contextmanager
    def _asked(self) -> Iterator[_Asked]:
        settings = self._jvm.java.util.HashMap()
        for name, value in self._settings.items():
            settings.put(name, value)
        client = self._class("Admin").create(settings)
        try:
            yield _Asked(self._jvm, client)
        finally:
            client.close()

    def _class(self, name: str) -> Any:
        return getattr(self._jvm, f"{_CLIENTS}{name}")


class _Asked:
    """One connection."""

    def __init__(self, jvm: Any, client: Any) -> None:
        self._jvm, self._client = jvm, client

    def partitions(self, topics: Sequence[str]) -> list[tuple[str, int]]:
        names = self._jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        found = self._client.describeTopics(names).allTopicNames().get()
        return [(topic, partition) for topic in topics for partition in range(found.get(topic).partitions().size())]

    def offsets(
        self, partitions: Sequence[tuple[str, int]], spec: str, *given: Any, level: str = _ALL
    ) -> dict[tuple[str, int], int]:
        wanted = getattr(getattr(self._jvm, f"{_CLIENTS}OffsetSpec"), spec)(*given)
        asked, keys = self._jvm.java.util.HashMap(), {}
        make = getattr(self._jvm, "org.apache.kafka.common.TopicPartition")
        for topic, partition in partitions:
            keys[topic, partition] = key = make(topic, partition)
            asked.put(key, wanted)
        of_level = getattr(self._jvm, "org.apache.kafka.common.IsolationLevel").valueOf(level.upper())
        found = self._client.listOffsets(asked, getattr(self._jvm, f"{_CLIENTS}ListOffsetsOptions")(of_level))
        return {which: int(found.partitionResult(key).get().offset()) for which, key in keys.items()}
