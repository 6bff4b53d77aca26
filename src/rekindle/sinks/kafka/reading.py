"""The messages that checkpoints have published, read back by executors: at the offsets that their lanes have noted.

A note says where the partitions ended before a lane published, and where after. What lies between is of this checkpoint
alone, unless others write to the topic or it has lost some: so messages are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

from rekindle.sinks.kafka import commits, consuming
from rekindle.sinks.kafka.messages import MessageForm
from rekindle.sinks.reading import AS_TEXT, TEXT_OF, all_of
from rekindle.sinks.two_phase import Commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 10_000
"""Messages that are given to Spark at a time."""

Range = tuple[int, int, int]
"""Partition, first offset, and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMessages:
    """The function that Spark is given; it is pickled, so it holds plain data."""

    client: consuming.Client = field(repr=False)
    topic: str
    headers: tuple[str, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Read the messages of checkpoints, each given as number, how many messages it has, and ranges in JSON."""
        for batch in batches:
            for checkpoint, count, ranges in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield from self._messages(checkpoint, count, json.loads(ranges))

    def _messages(self, checkpoint: int, count: int, ranges: Sequence[Range]) -> Iterator[Any]:
        import pyarrow as pa

        names = ["k", "v", *(f"h{index}" for index in range(len(self.headers)))]
        seen, chunk = 0, list[tuple[bytes | None, ...]]()
        with consuming.consumer_of(self.client, "shadow", "read_committed") as consumer:
            for partition, first, end in ranges:
                for message in consuming.messages(consumer, TopicPartition(self.topic, partition, first), end):
                    headers = dict(message.headers() or ())
                    row = (message.key(), message.value(), *(headers.get(name) for name in self.headers))
                    chunk.append(tuple(one.encode() if isinstance(one, str) else one for one in row))
                    seen += 1
                    if len(chunk) == _ROWS:
                        yield _batch(pa, names, chunk)
                        chunk = []
        if seen != count:
            raise RuntimeError(
                f"topic {self.topic} has {seen} messages where checkpoint {checkpoint} has published {count}: "
                "others write to it too, or it has deleted some"
            )
        if chunk:
            yield _batch(pa, names, chunk)


def _batch(pa: Any, names: Sequence[str], chunk: Sequence[tuple[bytes | None, ...]]) -> Any:
    columns = [pa.array(column, pa.binary()) for column in zip(*chunk, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=[*names])


def read_published(
    spark: SparkSession, client: consuming.Client, topic: str, owner: str, committed: Commits
) -> DataFrame:
    """Return the rows of these checkpoints, as texts.

    Raises:
        KafkaException: the brokers do not answer.
        TimeoutError: another producer's transaction stays open.
        ValueError: with the reason why the messages of a checkpoint are not known from others.
    """
    form, names = _form(committed)
    notes = commits.notes(client, topic, owner)
    tasks = [(number, *_task(number, made, notes)) for number, made in sorted(committed.items()) if made]
    frame = spark.createDataFrame(tasks, "checkpoint long, messages long, ranges string")
    plain = {name: value for name, value in client.items() if name != "logger"}
    read = PublishedMessages(client=plain, topic=topic, headers=form.headers)
    columns = ["k", "v", *(header for _, header in form.header_columns())]
    return as_texts(frame.mapInArrow(read, ", ".join(f"{one} binary" for one in columns)), form, names)


def as_texts(
    messages: DataFrame, form: MessageForm, names: Sequence[str], types: Mapping[str, str] | None = None
) -> DataFrame:
    """Return messages as the columns that they were made of.

    Args:
        names: of the columns that were published.
        types: column → JSON of the type that it had; None: that is not known here.
    """
    frame = messages.selectExpr(*form.opened()).selectExpr(*(form.text(name) for name in names))
    for name in names:
        frame = frame.withMetadata(name, {AS_TEXT: True, **({TEXT_OF: types[name]} if types else {})})
    return frame


def _form(committed: Commits) -> tuple[MessageForm, list[str]]:
    """Return what the messages were made of, and of which columns.

    Raises:
        ValueError: of several, or that is not noted.
    """
    found = all_of(committed)
    if any("message" not in one for one in found):
        raise ValueError("an older version of Rekindle staged them, and did not note of which columns")
    forms = {json.dumps({name: one["message"][name] for name in ("key", "value", "headers")}) for one in found}
    if len(forms) != 1:
        raise ValueError("key, value or headers are other columns since")
    names = dict.fromkeys(name for one in found for name in one["message"]["columns"])
    return MessageForm.noted(json.loads(forms.pop())), [*names]


def _task(number: int, made: Sequence[Mapping[str, Any]], notes: commits.Notes) -> tuple[int, str]:
    """Return how many messages a checkpoint has published, and where, as JSON."""
    counts: dict[str, int] = {}
    for one in made:
        for lane, files in one["lanes"].items():
            counts[lane] = counts.get(lane, 0) + sum(file["rows"] for file in files)
    ranges = list[Range]()
    for lane in counts:
        if (lane, number) not in notes:
            raise ValueError(f"the note of checkpoint {number} is not in the topic of commits any more")
        if (offsets := notes[lane, number]) is None:
            raise ValueError(f"where the messages of checkpoint {number} lie was not noted when they were published")
        ranges.extend((int(partition), first, end) for partition, (first, end) in offsets.items())
    return sum(counts.values()), json.dumps(_merged(ranges))


def _merged(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges without overlaps: lanes publish side by side."""
    found = list[Range]()
    for partition, first, end in sorted(ranges):
        if found and found[-1][0] == partition and first <= found[-1][2]:
            found[-1] = (partition, found[-1][1], max(end, found[-1][2]))
        elif first < end:
            found.append((partition, first, end))
    return found
