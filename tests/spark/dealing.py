"""Micro-batches of Spark over the inputs of a job, without a job: a test deals out what each batch holds."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.channels.inbox import Inbox
from rekindle.channels.marks import END_OF_TIME_US, UNORDERED_DELAY, Marks, mark_for
from rekindle.spark.inputs import watermark_rows as inputs
from rekindle.spark.query.optimizer import started_with
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.local import LocalStore

UTC = dt.timezone.utc
START = dt.datetime(2025, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
DDL = "ts timestamp, k long, v long"

Row = tuple[dt.datetime | None, int | None, int | None]
Query = Callable[..., Any]


def at(minutes: float) -> dt.datetime:
    """An event time, minutes after the start."""
    return START + dt.timedelta(minutes=minutes)


class Dealt:
    """One input: a history or a channel, whose watermark marks alone move; with `delay`, a stream."""

    def __init__(self, spark: Any, root: Path, name: str, index: int, delay: str = UNORDERED_DELAY) -> None:
        self._store = store = LocalStore(str(root))
        self.name, self.delay = name, delay
        self._place = root / "files" / name
        self._place.mkdir(parents=True)
        self._inbox, self._marks = Inbox(store, f"inbox/{name}", index), Marks(store, f"marks/{name}", index + 1)
        self._inbox.open()
        self._marks.inbox.open()
        self._files = self._marked = 0
        self.rows: list[Row] = []
        self.data = spark.readStream.schema(DDL).option("recursiveFileLookup", "true").parquet(self.path("inbox"))
        self.frame = watermarked(spark, self.data, name, self.path("marks"), delay)

    def deal(self, rows: Iterable[Row]) -> None:
        """Let the next batch see a file with these rows."""
        rows = list(rows)
        self.rows += rows
        path = self._place / f"{self._files}.parquet"
        table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
        pq.write_table(table, path)
        assert self._inbox.admit(self._files, [FrozenFile(path=path.as_uri(), size=os.path.getsize(path))])
        self._files += 1

    def mark(self, watermark: dt.datetime | None = None) -> None:
        """Let the next batch see a watermark row; without a time, that of the end."""
        us = END_OF_TIME_US if watermark is None else micros(watermark)
        assert self._marks.admit(self._marked, mark_for(us) if self.delay == UNORDERED_DELAY else us)
        self._marked += 1

    def path(self, kind: str) -> str:
        """Where Spark reads its rows, ``inbox``, or its watermark rows, ``marks``."""
        return self._store.spark_path(f"{kind}/{self.name}")


def micros(time: dt.datetime) -> int:
    """An event time as Spark has it."""
    return (time - dt.datetime(1970, 1, 1, tzinfo=UTC)) // dt.timedelta(microseconds=1)


@contextmanager
def having_set(spark: Any, settings: Mapping[str, str]) -> Iterator[Any]:
    """The session with these settings, which it had not before and has not after."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, old in before.items():
        spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def watermarked(spark: Any, data: Any, name: str, marks: str, delay: str = UNORDERED_DELAY) -> Any:
    """What a job makes of an input with an event time."""
    return inputs.watermarked(spark, data, name, "ts", delay=delay, late="fail", observed=False, marks=marks)


def lines(frame: Any) -> Any:
    """Each row as one text, nulls included, so that results of any columns can be compared."""
    from pyspark.sql import functions as F

    numbered = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))
    return numbered.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("line"))


def united(frames: Sequence[Any]) -> Any:
    """Frames of lines as one, in which each line begins with the number of its frame, for `unpacked`."""
    from pyspark.sql import functions as F

    level = [frame.select(F.concat_ws(" ", F.lit(number), "line").alias("line")) for number, frame in enumerate(frames)]
    while len(level) > 1:  # as a chain of unions it would be analyzed once for each of them
        level = [reduce(lambda left, right: left.union(right), level[at : at + 8]) for at in range(0, len(level), 8)]
    return level[0]


def unpacked(found: Iterable[str], count: int) -> list[Counter[str]]:
    """The lines of each of so many frames."""
    each = [Counter[str]() for _ in range(count)]
    for numbered in found:
        number, line = numbered.split(" ", 1)
        each[int(number)][line] += 1
    return each


def streamed(
    frame: Any,
    place: Path,
    batches: Sequence[Callable[[], None]],
    settings: Mapping[str, str] | None = None,
    look: Callable[[Any], None] = lambda _: None,
) -> Counter[str]:
    """What a streaming query puts out, each of `batches` being read before the next is dealt.

    The first is dealt before the query starts: what is dealt to one that looks again and again may be cut in two.

    Args:
        frame: of one column of text, see `lines`.
        settings: of the session while it starts.
        look: is given Spark's own query at the end.
    """
    found: Counter[str] = Counter()

    def take(rows: Any, _: int) -> None:
        found.update(row[0] for row in rows.collect())

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(place))
    first, *others = batches
    first()
    with started_with(frame.sparkSession, settings or {}):
        query = writer.start()
    try:
        query.processAllAvailable()
        for deal in others:
            deal()
            query.processAllAvailable()
        look(query._jsq.streamingQuery())
    finally:
        query.stop()
    return found


def expected(spark: Any, query: Query, dealt: Sequence[Dealt]) -> Counter[str]:
    """What the same query makes of the same rows as one batch."""
    frames = [spark.createDataFrame(each.rows, DDL) for each in dealt]
    return Counter(row[0] for row in lines(query(*frames)).collect())


def shown(difference: Counter[str]) -> str:
    """Rows of a difference, a few of them."""
    return json.dumps(sorted(difference.elements())[:8])
