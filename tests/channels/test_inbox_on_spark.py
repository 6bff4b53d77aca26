"""What Spark makes of an inbox: nothing skipped, nothing twice, whatever the files are called."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.channels.inbox import CARRIED_OVER, SPARK_REMEMBERS, Inbox, stamp_ms, unstamp
from rekindle.channels.marks import END_OF_TIME_US, MARK_COLUMN, UNORDERED_DELAY, Marks, mark_for
from rekindle.storage import layout
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.local import LocalStore, file_uri

pytestmark = pytest.mark.spark

SUBTASK = "job/tasks/t/0/000001"
FOLDER = layout.inbox(SUBTASK, "history")

ODD_NAMES = (
    "a b%20c ü.parquet",
    "100%.parquet",
    "x[1]{a,b}*?.parquet",
    "h#a;c&d=e+f.parquet",
    'line\nbreak\t"q" b\\z.parquet',
    "_a=1.parquet",
    "ä\u0308😀\u2028\u00a0.parquet",
)


class Query:
    """A query on the inbox that counts the rows it has read, by name, and can be stopped and started again."""

    def __init__(self, spark, store: LocalStore, progress: str) -> None:
        self._spark, self._store, self._progress = spark, store, progress
        self.seen: Counter[str] = Counter()
        self.batches = 0
        self.start()

    def start(self) -> None:
        frame = self._spark.readStream.schema("name string").option("recursiveFileLookup", "true")
        writer = frame.parquet(self._store.path(FOLDER)).writeStream.foreachBatch(self._on_batch)
        self._query = writer.option("checkpointLocation", self._progress).start()

    def stop(self) -> None:
        self._query.stop()

    def settle(self) -> None:
        self._query.processAllAvailable()

    @property
    def offset(self) -> int:
        """Spark's offset in the last batch that it has planned."""
        lines = Path(self._progress, "offsets", str(self.batches - 1)).read_text().split("\n")
        return json.loads(lines[-1])["logOffset"]

    def _on_batch(self, frame, batch: int) -> None:
        self.seen.update(row.name for row in frame.collect())
        self.batches = batch + 1


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(str(tmp_path / "storage ü%41"))


@pytest.fixture
def query(spark, store, tmp_path):
    Inbox(store, FOLDER, 3).open()
    query = Query(spark, store, str(tmp_path / "progress"))
    yield query
    query.stop()


@pytest.fixture
def write(tmp_path) -> Callable[[Sequence[str]], list[FrozenFile]]:
    """Write a file of one row, its own name, for each name; their modification times run backwards."""

    def write(names: Sequence[str]) -> list[FrozenFile]:
        made = []
        for name in names:
            path = str(tmp_path / "data" / name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            pq.write_table(pa.table({"name": [name]}), path)
            os.utime(path, (1_000_000_000 - 1_000 * len(os.listdir(os.path.dirname(path))),) * 2)
            made.append(FrozenFile(path=file_uri(path), size=os.path.getsize(path)))
        return made

    return write


def test_sixty_admissions_are_each_read_once_in_a_batch_of_their_own_across_restarts(query, store, write) -> None:
    inbox, names = Inbox(store, FOLDER, 3), []
    for k in range(60):
        if k in {5, 19, 33, 50}:  # in the first generation, at a compaction, in later ones
            query.stop()
            query.start()
        names += [f"{k:02d}-a.parquet", f"{k:02d}-b.parquet"]
        inbox.admit(k, write(names[-2:]))
        query.settle()
        assert query.batches == k + 1
        assert query.offset == k
    query.stop()
    query.start()
    query.settle()
    assert query.seen == Counter(names)
    assert len(store.names(layout.admissions(FOLDER))) <= 21


def test_an_admission_written_while_the_query_was_down_is_read_when_it_is_up_again(query, store, write) -> None:
    inbox = Inbox(store, FOLDER, 3)
    for k in range(9):
        inbox.admit(k, write([f"{k}.parquet"]))
        query.settle()
    query.stop()
    inbox.admit(9, write(["9.parquet"]))  # a compaction, adopted by the next run
    assert Inbox(store, FOLDER, 3).last_admitted() == 9
    query.start()
    query.settle()
    assert query.seen == Counter(f"{k}.parquet" for k in range(10))


def test_sparks_own_log_may_be_cut_to_the_admissions_it_remembers(query, store, write, tmp_path) -> None:
    inbox = Inbox(store, FOLDER, 3)
    for k in range(28):  # the inbox still names 18 to 27
        inbox.admit(k, write([f"{k}.parquet"]))
        query.settle()
    query.stop()
    log = tmp_path / "progress" / "sources" / "0"
    entries = [line for path in log.iterdir() if path.name[0] != "." for line in path.read_text().split("\n")[1:]]
    kept = {line for line in entries if unstamp(json.loads(line)["timestamp"])[1] > 27 - SPARK_REMEMBERS}
    assert len(kept) == SPARK_REMEMBERS
    for checksums in log.glob(".*"):
        checksums.unlink()
    for path in log.iterdir():
        path.write_text("\n".join(["v1", *(line for line in path.read_text().split("\n")[1:] if line in kept)]))
    query.start()
    inbox.admit(28, write(["28.parquet"]))
    query.settle()
    assert query.seen == Counter(f"{k}.parquet" for k in range(29))
    assert query.offset == 28


def test_files_with_odd_names_are_read_whether_few_or_many_at_once(query, store, write) -> None:
    inbox = Inbox(store, FOLDER, 3)
    many = [f"many/{at}-{name}" for at in range(5) for name in ODD_NAMES]  # beyond 32 Spark lists them in a job
    inbox.admit(0, write([f"few/{name}" for name in ODD_NAMES]))
    inbox.admit(1, write([*many, "_hidden folder/.x/y.parquet"]))
    query.settle()
    assert query.seen == Counter([*(f"few/{name}" for name in ODD_NAMES), *many, "_hidden folder/.x/y.parquet"])


def test_a_new_lineage_goes_on_behind_what_was_carried_over(spark, store, write, tmp_path) -> None:
    inbox = Inbox(store, FOLDER, 3)
    inbox.open_new(carried=2)
    log = tmp_path / "progress" / "sources" / "0" / "0"
    log.parent.mkdir(parents=True)
    log.write_text("v1\n" + json.dumps({"path": CARRIED_OVER, "timestamp": stamp_ms(0, 3), "batchId": 0}))
    query = Query(spark, store, str(tmp_path / "progress"))
    try:
        for k in range(1, 12):
            inbox.admit(k, write([f"{k}.parquet"]))
            query.settle()
            assert query.offset == k
        assert query.seen == Counter(f"{k}.parquet" for k in range(1, 12))
    finally:
        query.stop()


def test_marks_move_the_watermark_of_a_query_to_exactly_where_they_say(spark, store, tmp_path) -> None:
    from pyspark.sql import functions as F

    folder = layout.marks(SUBTASK, "history")
    marks = Marks(store, folder, 4)
    marks.inbox.open()
    frame = spark.readStream.schema(f"{MARK_COLUMN} timestamp").option("recursiveFileLookup", "true")
    counted = frame.parquet(store.path(folder)).withWatermark(MARK_COLUMN, UNORDERED_DELAY).groupBy(MARK_COLUMN)
    writer = counted.agg(F.count("*")).writeStream.foreachBatch(lambda frame, _: frame.collect())
    query = writer.option("checkpointLocation", str(tmp_path / "progress")).outputMode("append").start()
    try:
        found = []
        for k, at in enumerate([mark_for(us) for us in (1_735_689_600_000_000, 1_735_689_600_000_000, END_OF_TIME_US)]):
            marks.admit(k, at)
            query.processAllAvailable()
            found.append(query.lastProgress["eventTime"]["watermark"])
        assert found == ["2025-01-01T00:00:00.000Z"] * 2 + ["9999-12-31T00:00:00.000Z"]
    finally:
        query.stop()
