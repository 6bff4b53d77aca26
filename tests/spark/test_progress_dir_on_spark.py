"""Progress directories under Spark: a query goes on from what was planted, copied, rolled back and purged."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.channels.inbox import stamp_ms
from rekindle.progress import directory as pd
from rekindle.progress.copies import InboxStart, copy_for_lineage, copy_for_savepoint
from rekindle.progress.files import files_needed
from rekindle.progress.retention import SourceLogs
from rekindle.storage.folder import Folder
from rekindle.storage.local import LocalStore

FLUSH_MS = 253_402_300_790_000
NEW_ID = "00000000-0000-0000-0000-00000000000{}"


@pytest.fixture(scope="module")
def spark(spark: Any) -> Iterator[Any]:
    """The shared session, with state snapshots after a few batches rather than after a minute; nothing is purged."""
    state = "spark.sql.streaming.stateStore"
    quick = {
        # A job that ran in this session has left it at what jobs need.
        "spark.sql.streaming.minBatchesToRetain": "1000000",
        "spark.sql.shuffle.partitions": "1",
        f"{state}.maintenanceInterval": "1s",
        f"{state}.minDeltasForSnapshot": "5",
    }
    before = {key: spark.conf.get(key) for key in quick}
    stores = spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore
    for conf in (quick, before):
        for key, value in conf.items():
            spark.conf.set(key, value)
        # The maintenance thread keeps the interval it was started with; the next query starts another.
        stores.stop()
        if conf is quick:
            yield spark


def hour(number: int) -> dt.datetime:
    return dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(hours=number)


Row = tuple[dt.datetime, str, int]


def write_rows(path: Path, rows: list[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])
    names = ("ts", "k", "v")
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    pq.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema), hidden)
    hidden.rename(path)


class Inbox:
    """A directory with a `_spark_metadata` log: admission k is log file k, compacted to the last two at every tenth."""

    def __init__(self, folder: Path, input_index: int) -> None:
        self.folder, self.input_index, self.entries = folder, input_index, list[str]()
        (folder / "_spark_metadata").mkdir(parents=True)

    @property
    def start(self) -> InboxStart:
        return InboxStart(f"file:///nowhere/{self.input_index}", stamp_ms(0, self.input_index))

    def _admit(self, path: str, size: int) -> None:
        k = len(self.entries)
        stamp = {
            "modificationTime": stamp_ms(k, self.input_index),
            "blockReplication": 1,
            "blockSize": 1 << 27,
        }
        self.entries.append(json.dumps({"path": path, "size": size, "isDir": False, **stamp, "action": "add"}))
        compact = (k + 1) % 10 == 0
        log = self.folder / "_spark_metadata"
        hidden = log / f".{k}"
        hidden.write_text("\n".join(["v1", *self.entries[-2 if compact else -1 :]]))
        hidden.rename(log / (f"{k}.compact" if compact else str(k)))

    def admit(self, *rows: Row) -> None:
        path = self.folder / "data" / f"{len(self.entries)}.parquet"
        write_rows(path, list(rows))
        self._admit(f"file://{path}", path.stat().st_size)

    def admit_start(self) -> None:
        self._admit(self.start.path, 1)

    def frame(self, spark: Any) -> Any:
        reader = spark.readStream.schema("ts timestamp, k string, v long").option("recursiveFileLookup", "true")
        return reader.parquet(str(self.folder))


class Task:
    """A query on a progress directory which keeps what it emitted; a batch beyond `hold_after` is held."""

    def __init__(self, folder: Path, name: str, frame: Callable[[], Any], mode: str) -> None:
        self.store, self.name = LocalStore(str(folder)), name
        self.out: list[tuple[Any, ...]] = []
        self.hold_after = sys.maxsize
        self._frame, self._mode = frame, mode
        self._query: Any = None

    def start(self) -> Task:
        def on_batch(frame: Any, batch: int) -> None:
            if batch > self.hold_after:
                raise RuntimeError("held") from None
            self.out.extend(tuple(row) for row in frame.collect())

        writer = self._frame().writeStream.foreachBatch(on_batch).outputMode(self._mode)
        self._query = writer.option("checkpointLocation", self.store.path(self.name)).start()
        return self

    @property
    def query_id(self) -> str:
        return str(self._query.id)

    @property
    def batch(self) -> int:
        return pd.last_committed(self.store, self.name)

    def settle(self) -> Task:
        self._query.processAllAvailable()
        return self

    def until_held(self) -> Task:
        with pytest.raises(Exception, match="held"):
            self._query.awaitTermination(60)
        return self

    def stop(self) -> Task:
        self._query.stop()
        return self


def windows(*inboxes: Inbox, spark: Any) -> Callable[[], Any]:
    def frame() -> Any:
        from pyspark.sql import functions as F

        parts = [inbox.frame(spark).withWatermark("ts", "10 minutes") for inbox in inboxes]
        united = parts[0]
        for part in parts[1:]:
            united = united.unionByName(part)
        start = F.hour("window.start").alias("hour")
        return united.groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("v")).select(start, "k", "v")

    return frame


def counts(*frames: Callable[[], Any]) -> Callable[[], Any]:
    def frame() -> Any:
        from pyspark.sql import functions as F

        united = frames[0]()
        for other in frames[1:]:
            united = united.unionByName(other())
        return united.groupBy("k").agg(F.sum("v").alias("v"))

    return frame


@pytest.mark.spark
def test_a_planted_batch_emits_open_windows_and_the_drained_directory_takes_later_rows(
    spark: Any, tmp_path: Path
) -> None:
    inbox = Inbox(tmp_path / "inbox", 3)
    task = Task(tmp_path, "spark", windows(inbox, spark=spark), "append").start()
    inbox.admit((hour(0), "a", 1), (hour(1), "a", 2), (hour(2), "a", 4))
    task.settle().stop()
    assert task.out == [(0, "a", 1)], "the others are open: the watermark is ten minutes before the third hour"
    last = task.batch
    before_ms = pd.read_offsets(task.store, "spark", last).batch_watermark_ms

    task.hold_after = pd.plant(task.store, "spark", FLUSH_MS)
    inbox.admit((hour(3), "a", 8), (hour(5), "a", 16))
    task.start().until_held()
    assert task.out[1:] == [(1, "a", 2), (2, "a", 4)]
    assert pd.unplant(task.store, "spark") == (last + 2,)
    assert task.batch == last + 1

    pd.set_watermark(task.store, "spark", last + 1, before_ms)
    task.hold_after = sys.maxsize
    task.start().settle().stop()
    assert task.out[3:] == [(3, "a", 8)], "rows that come after the drain are not late"
    assert pd.inputs_of_sources(task.store, "spark", 1) == (3,)


@pytest.mark.spark
def test_unplanting_a_held_batch_loses_nothing_and_repeats_nothing(spark: Any, tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox", 0)
    task = Task(tmp_path, "spark", lambda: inbox.frame(spark).select("k", "v"), "append").start()
    for number in range(8):
        inbox.admit((hour(0), "a", number))
        task.settle()
    task.hold_after = task.batch
    inbox.admit((hour(0), "a", 8))
    task.until_held()
    assert pd.unplant(task.store, "spark") == (8,)
    task.hold_after = sys.maxsize
    # The source's log is one ahead now, at the offset before the compacted one.
    inbox.admit((hour(0), "a", 9))
    task.start().settle().stop()
    assert [v for _, v in task.out] == list(range(10))


@pytest.mark.spark
def test_a_new_lineage_goes_on_exactly_beside_the_original_through_a_savepoint(spark: Any, tmp_path: Path) -> None:
    """Two inboxes and, between them, a file source of the user's whose log is copied as it is."""
    old, new = ([Inbox(tmp_path / name / str(i), i) for i in (4, 2)] for name in ("old", "new"))
    loose = tmp_path / "loose"
    loose.mkdir()

    def stream() -> Any:
        reader = spark.readStream.schema("ts timestamp, k string, v long").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(loose))

    def query(inboxes: list[Inbox]) -> Callable[[], Any]:
        return counts(lambda: inboxes[0].frame(spark), stream, lambda: inboxes[1].frame(spark))

    def feed(inboxes: list[Inbox], number: int) -> None:
        for inbox in inboxes:
            inbox.admit((hour(0), f"inbox {inbox.input_index}", 10**number))

    original = Task(tmp_path, "spark", query(old), "update").start()
    for number in range(3):
        feed(old, number)
        write_rows(loose / f"{number}.parquet", [(hour(0), "loose", 10**number)])
        original.settle()
    batch = original.batch
    savepoint = LocalStore(str(tmp_path / "savepoint"))
    assert copy_for_savepoint(Folder(original.store, "spark"), Folder(savepoint, "sp/spark"), batch) > 0
    for number in range(3, 6):
        feed(old, number)
        write_rows(loose / f"{number}.parquet", [(hour(0), "loose", 10**number)])
        original.settle()

    inputs = pd.inputs_of_sources(savepoint, "sp/spark", 3)
    assert inputs == (4, None, 2)
    by_index = {inbox.input_index: inbox for inbox in new}
    starts = {source: by_index[index].start for source, index in enumerate(inputs) if index is not None}
    fork = Task(tmp_path, "fork", query(new), "update")
    source, target = Folder(savepoint, "sp/spark"), Folder(fork.store, "fork")
    copy_for_lineage(source, target, batch, query_id=NEW_ID.format(1), inbox_sources=starts)
    for inbox in new:
        inbox.admit_start()
    fork.start().settle()
    assert fork.query_id == NEW_ID.format(1) != original.query_id
    for number in range(3, 14):
        feed(new, number)
        fork.settle()
    for number in range(6, 14):
        feed(old, number)
        original.settle()
    original.stop()
    fork.stop()
    expected = {"inbox 4": 11_111_111_111_111, "inbox 2": 11_111_111_111_111, "loose": 111_111}
    assert dict(original.out) == expected
    assert dict(fork.out) == expected
    assert [v for k, v in fork.out if k == "loose"] == [1_111, 11_111, 111_111], "it read the rest of the stream itself"


@pytest.fixture(scope="module")
def long_run(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Inbox, Task]]:
    """A query that has counted 104 admissions, one to a batch, and goes on."""
    folder = tmp_path_factory.mktemp("long")
    inbox = Inbox(folder / "inbox", 1)
    task = Task(folder, "spark", counts(lambda: inbox.frame(spark)), "update").start()
    for number in range(104):
        inbox.admit((hour(0), f"k{number % 7}", number))
        task.settle()
    yield inbox, task
    task.stop()


def expected_counts(admissions: int) -> dict[str, int]:
    return {f"k{k}": sum(range(k, admissions, 7)) for k in range(7)}


def open_lineage(spark: Any, task: Task, folder: Path, batch: int, upto: int) -> dict[str, int]:
    """What is counted in a new lineage behind `batch` once it has read the rest, up to `upto`, in three batches."""
    inbox = Inbox(folder / f"inbox-{batch}", 1)
    fork = Task(folder, f"spark-{batch}", counts(lambda: inbox.frame(spark)), "update")
    copy_for_lineage(
        Folder(task.store, "spark"),
        Folder(fork.store, fork.name),
        batch,
        query_id=NEW_ID.format(batch % 10),
        inbox_sources={0: inbox.start},
    )
    inbox.admit_start()
    fork.start()
    rest = [(hour(0), f"k{number % 7}", number) for number in range(batch + 1, upto)]
    for part in range(3):
        inbox.admit(*rest[part::3])
        fork.settle()
    fork.stop()
    assert fork.batch == batch + 3
    return expected_counts(batch + 1) | dict(fork.out)


@pytest.mark.slow
@pytest.mark.spark
def test_a_rollback_over_more_than_a_hundred_batches_goes_on_exactly(
    spark: Any, long_run: tuple[Inbox, Task], tmp_path: Path
) -> None:
    _, task = long_run
    assert task.batch == 103
    state = {path.split(".")[-1] for path in files_needed(task.store, "spark", 103)}
    assert {"zip", "sst"} <= state, "snapshots were uploaded, so that this tests them"
    for batch in (2, 99):
        assert open_lineage(spark, task, tmp_path, batch, 104) == expected_counts(104)


@pytest.mark.slow
@pytest.mark.spark
def test_a_query_whose_source_log_is_cut_restarts_and_forks(
    spark: Any, long_run: tuple[Inbox, Task], tmp_path: Path
) -> None:
    inbox, task = long_run
    logs = SourceLogs(task.store, "spark", None)
    for number in range(104, 150):
        inbox.admit((hour(0), f"k{number % 7}", number))
        task.settle()
        if number % 12 == 0:
            logs.cut((0,), (None,))
        if number == 130:
            task.stop().start()
    oldest = task.batch - 5
    logs.cut((0,), (None,))
    assert dict(task.out) == expected_counts(150)
    names = task.store.names("spark/sources/0")
    assert len(names) <= 11 and max(len(task.store.read(f"spark/sources/0/{n}").splitlines()) for n in names) <= 12

    task.stop().start()
    inbox.admit((hour(0), f"k{150 % 7}", 150))
    task.settle()
    assert dict(task.out) == expected_counts(151)
    assert task.batch == 150
    assert open_lineage(spark, task, tmp_path, oldest, 151) == expected_counts(151)
