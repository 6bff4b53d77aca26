from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.channels.marks import END_OF_TIME_US, MARK_COLUMN, UNORDERED_DELAY, Marks, mark_for
from rekindle.storage import layout
from rekindle.storage.local import LocalStore
from rekindle.testing.memory_store import MemoryStore

FOLDER = "job/tasks/t/0/000001/marks/history"
ROWS = f"{FOLDER}/rows"
DAY_US = 86_400_000_000


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(str(tmp_path / "a b%ü"))


def test_a_mark_is_one_row_with_its_time_in_a_file_that_the_inbox_names(store: LocalStore) -> None:
    marks = Marks(store, FOLDER, 5)
    assert marks.admit(0, 1_735_689_600_000_001)
    [name] = store.names(ROWS)
    [admitted] = marks.inbox.admitted(0)
    assert admitted.path == store.uri(f"{ROWS}/{name}")
    assert admitted.size == len(store.read(f"{ROWS}/{name}"))
    table = pq.read_table(pa.BufferReader(store.read(f"{ROWS}/{name}")))
    assert table.schema == pa.schema([(MARK_COLUMN, pa.timestamp("us", tz="UTC"))])
    assert table.column(MARK_COLUMN).cast(pa.int64()).to_pylist() == [1_735_689_600_000_001]


def test_the_same_mark_can_be_set_again_since_each_file_is_a_fresh_one(store: LocalStore) -> None:
    marks = Marks(store, FOLDER, 0)
    for k in range(3):
        marks.admit(k, END_OF_TIME_US)
    assert len({file.path for k in range(3) for file in marks.inbox.admitted(k)}) == 3


def test_a_mark_that_comes_second_leaves_no_file(store: LocalStore) -> None:
    assert Marks(store, FOLDER, 0).admit(0, 1)
    before = store.names(ROWS)
    assert not Marks(store, FOLDER, 0).admit(0, 2)
    assert store.names(ROWS) == before


def test_rows_that_no_one_can_read_again_are_deleted_and_the_others_are_not() -> None:
    store = MemoryStore()
    marks = Marks(store, FOLDER, 0)
    store.create(f"{ROWS}/.DS_Store", b"of another program")
    most = 0
    for k in range(60):
        marks.admit(k, k)
        for live in range(max(0, k - 1), k + 1):
            assert store.exists(marks.inbox.admitted(live)[0].path.removeprefix("memory:///"))
        most = max(most, len(store.names(ROWS)))
    assert most <= 13
    assert store.exists(f"{ROWS}/.DS_Store")


def test_every_write_is_a_known_step(store: LocalStore) -> None:
    Marks(store, FOLDER, 0).admit(0, 1)
    assert {layout.step_of(entry.path) for entry in store.walk("")} == {"mark.write", "mark.admit"}


def test_a_mark_lies_the_delay_above_its_watermark_which_no_date_up_to_9999_does() -> None:
    assert UNORDERED_DELAY == "3000000 days"
    assert mark_for(0) == 3_000_000 * DAY_US
    assert mark_for(END_OF_TIME_US) == END_OF_TIME_US + 3_000_000 * DAY_US
    assert END_OF_TIME_US + DAY_US - 3_000_000 * DAY_US < 0


def test_the_end_of_time_is_in_the_year_9999_and_below_the_flush() -> None:
    end = datetime(9999, 12, 31, tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert end.days * DAY_US == END_OF_TIME_US
