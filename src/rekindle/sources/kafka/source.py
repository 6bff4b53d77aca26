"""`Kafka`: topics of Kafka, read by Spark's own connector; unbounded, or bounded by where they end.

It is an `rk.Stream` or an `rk.Batch` with the options that fit: where to begin and to end, and
messages of transactions only once these are committed. A start and an end may be places (offsets) or a time, so that a
history and what follows it can meet exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, overload

from rekindle.sources.batch import Batch
from rekindle.sources.kafka.connector import Offsets, Options, load, refused
from rekindle.sources.kafka.topics import KafkaTopics
from rekindle.sources.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class KafkaStream(Stream):
    """An unbounded `Kafka`: a stream that Spark reads by itself, unless it continues a history."""

    #: source that an `rk.sources.Hybrid` reads in its place
    topics: KafkaTopics
    #: as `Kafka` was given it
    start: str | datetime | Offsets


@overload
def Kafka(
    bootstrap: str,
    topics: str | Sequence[str],
    *,
    start: str | datetime | Offsets = ...,
    end: None = None,
    transform: Callable[[DataFrame], DataFrame] | None = ...,
    options: Options | Callable[[], Options] | None = ...,
) -> KafkaStream: ...


@overload
def Kafka(
    bootstrap: str,
    topics: str | Sequence[str],
    *,
    start: str | datetime | Offsets = ...,
    end: str | datetime | Offsets,
    transform: Callable[[DataFrame], DataFrame] | None = ...,
    options: Options | Callable[[], Options] | None = ...,
) -> Batch: ...


def Kafka(  # noqa: N802 - to its user it is a kind of source, like rk.Files
    bootstrap: str,
    topics: str | Sequence[str],
    *,
    start: str | datetime | Offsets = "earliest",
    end: str | datetime | Offsets | None = None,
    transform: Callable[[DataFrame], DataFrame] | None = None,
    options: Options | Callable[[], Options] | None = None,
) -> KafkaStream | Batch:
    """Return a source of the messages of `topics`: unbounded without `end`, bounded with it.

    Args:
        bootstrap: brokers, ``"host:9092,other:9092"``.
        topics: a topic, or several.
        start: ``"earliest"``, ``"latest"``, a time with its zone, or offsets. Looked at when the job first starts.
        end: ``"latest"`` (what is there when the job first starts), a time with its zone, or offsets; not included.
        transform: makes of Spark's columns (``key``, ``value``, ``topic``, ``partition``, ``offset``, ``timestamp``)
            those that the tasks read. It runs below the watermark.
        options: more options of Spark's connector, such as ``kafka.security.protocol`` or ``maxOffsetsPerTrigger``; or
            a function that returns them.

    Raises:
        DefinitionError: ``ARGUMENT_INVALID``; when the job starts, ``CONNECTOR_MISSING``.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    places = {
        # A time after which nothing was written yet is no mistake.
        "startingOffsetsByTimestampStrategy": "latest",
        **_place("start", start, ("earliest", "latest")),
        **(_place("end", end, ("latest",)) if end is not None else {}),
    }

    def given() -> Options:
        more = options() if callable(options) else options or {}
        return {
            "kafka.bootstrap.servers": bootstrap,
            "kafka.isolation.level": "read_committed",
            # Where brokers are away, a query fails, and a stop waits, for as long as all of this takes together.
            "kafka.default.api.timeout.ms": "30000",
            "fetchOffset.numRetries": "1",
            **more,
        }

    def read(spark: SparkSession) -> DataFrame:
        reader = spark.readStream if end is None else spark.read
        frame = load(reader, spark, {"subscribe": ",".join(names), **places, **given()})
        return transform(frame) if transform else frame

    return (
        KafkaStream(read, KafkaTopics(bootstrap, names, start, given, transform), start) if end is None else Batch(read)
    )


def _place(argument: str, place: str | datetime | Offsets, words: Sequence[str]) -> dict[str, str]:
    """Return the option of Spark's connector that says `place`."""
    name = f"{argument}ing"
    if isinstance(place, datetime) and place.tzinfo is not None:
        return {f"{name}Timestamp": str(round(place.timestamp() * 1000))}
    if isinstance(place, Mapping):
        offsets = {topic: {str(key): value for key, value in each.items()} for topic, each in place.items()}
        return {f"{name}Offsets": json.dumps(offsets)}
    if place in words:
        return {f"{name}Offsets": str(place)}
    hint = f"Use {' or '.join(map(repr, words))}, a datetime with a tzinfo, or {{topic: {{partition: offset}}}}."
    raise refused(argument, place, "It is no place in a topic.", hint)
