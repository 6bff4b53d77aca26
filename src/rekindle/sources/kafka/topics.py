"""`KafkaTopics`: topics that continue a history, as a source of one split, read range by range of offsets.

Spark's own stream of Kafka cannot be made to wait until a history has been read. So the topics are read by Spark's
batch reader, from offset to offset, and the position is ours. Where they begin is found when the job first starts, and
is written down: retention may delete what was there before the history has been read, and that has to be noticed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from rekindle.errors import InputError
from rekindle.sources.kafka.brokers import Brokers
from rekindle.sources.kafka.connector import Offsets, Options, load, refused
from rekindle.sources.kafka.offsets import (
    Extents,
    OffsetsGoneError,
    Position,
    after,
    at_offsets,
    at_time,
    earliest,
    may_lack,
    ranges_after,
    refuse_gone,
    with_new_topics,
)
from rekindle.sources.split_source import Json, SplitSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MESSAGES_PER_READ = 1_000_000
"""Messages that a read has, unless the connector's option ``maxOffsetsPerTrigger`` says otherwise."""

_AT_MOST = "maxoffsetspertrigger"
_PLACES = ("starting", "ending")
"""Beginnings of the connector's options that say where to read."""

_LOG = logging.getLogger(__name__)


class KafkaTopics(SplitSource):
    """Topics without an end, from a place that is fixed when the job first starts.

    Args:
        bootstrap: brokers.
        topics: one or several.
        start: ``"earliest"``, a time with its zone, or offsets of all partitions.
        given: returns the options of the connector, except those that say where to read.
        transform: makes the rows of the connector's columns.
    """

    kind: ClassVar[str] = "Kafka"
    bounded = False

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        start: str | datetime | Offsets,
        given: Callable[[], Options],
        transform: Callable[[DataFrame], DataFrame] | None,
    ) -> None:
        self._topics, self._start = topics, start
        self._bootstrap = bootstrap
        self._given, self._transform = given, transform
        #: no message after these is read, in a run of what is available now
        self._until: Extents | None = None
        #: True if the last read found nothing left to read, not even messages that gave no rows
        self._is_read = False
        self.schema = self._columns

    @property
    def dataset(self) -> tuple[str, str] | None:
        """Return server and topic as OpenLineage names them; None where there are several."""
        if len(self._topics) != 1:
            return None
        return f"kafka://{self._bootstrap.split(',')[0].strip()}", self._topics[0]

    def splits(self) -> Iterable[Json]:
        """See `SplitSource`: the topics are one, so that a read has something of each of their partitions."""
        return ["topics"]

    def begin_at(self, spark: SparkSession, split: Json) -> Json:
        """See `SplitSource`: the offsets at which the topics continue the history."""
        brokers = self._brokers(spark)
        extents = brokers.extents()
        begun = self._begun(brokers, extents)
        with _gone_is_refused():
            refuse_gone(begun, extents)
        return begun

    def prepare_for_available_now(self, spark: SparkSession) -> None:
        """See `SplitSource`."""
        self._until = self._brokers(spark).extents()

    def has_caught_up(self, split: Json, position: Json) -> bool:
        """See `SplitSource`: of a read, all may be aborted, compacted away, or left out by `transform`."""
        return self._is_read

    def read(self, spark: SparkSession, split: Json, position: Json) -> tuple[DataFrame | None, Json, bool]:
        """See `SplitSource`."""
        at_most = next((int(value) for name, value in self._given().items() if name.lower() == _AT_MOST), None)
        extents = self._brokers(spark).extents()
        position = with_new_topics(position, extents)
        with _gone_is_refused():
            ranges = ranges_after(position, extents, at_most or MESSAGES_PER_READ, until=self._until)
        self._is_read = not ranges
        if self._is_read:
            return None, position, False
        assigned: dict[str, list[int]] = {}
        first: dict[str, dict[str, int]] = {}
        for one in ranges:
            assigned.setdefault(one.topic, []).append(one.partition)
            first.setdefault(one.topic, {})[str(one.partition)] = one.first
        places = {"assign": assigned, "startingOffsets": first, "endingOffsets": after({}, ranges)}
        frame = self._load(spark, {name: json.dumps(place) for name, place in places.items()})
        return frame, after(position, ranges), False

    def _begun(self, brokers: Brokers, extents: Extents) -> Position:
        if isinstance(self._start, str):
            return earliest(extents)
        if isinstance(self._start, Mapping):
            try:
                return at_offsets(self._start, extents)
            except ValueError as error:
                hint = "Say an offset for each partition of each topic."
                raise refused("start", self._start, f"Of it, {error}", hint) from None
        found = brokers.offsets_at(round(self._start.timestamp() * 1000))
        for topic, partition in may_lack(found, extents):
            _LOG.warning(
                "Partition %d of topic %s has no message from before %s any more: of those that the history does not "
                "have, some may have been deleted.",
                partition, topic, self._start,
            )  # fmt: skip
        return at_time(found, extents)

    def _columns(self, spark: SparkSession) -> StructType:
        return self._load(spark, {"subscribe": ",".join(self._topics)}).schema

    def _load(self, spark: SparkSession, places: Options) -> DataFrame:
        frame = load(spark.read, spark, {**self._options(), **places})
        return self._transform(frame) if self._transform else frame

    def _options(self) -> Options:
        options = self._given()
        for name, value in options.items():
            if name.lower().startswith(_PLACES):
                raise refused("options", name, f"It says {value!r}, and start= says where to read.", "Leave it out.")
        return {name: value for name, value in options.items() if name.lower() != _AT_MOST}

    def _brokers(self, spark: SparkSession) -> Brokers:
        return Brokers(spark, self._options(), self._topics)


@contextmanager
def _gone_is_refused() -> Iterator[None]:
    try:
        yield
    except OffsetsGoneError as gone:
        raise InputError(
            "KAFKA_OFFSETS_GONE",
            topic=gone.topic,
            partition=gone.partition,
            offset=gone.offset,
            first=gone.extent.first,
            end=gone.extent.written,
        ) from None
