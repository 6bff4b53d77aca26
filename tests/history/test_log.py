"""A log in segments: what a reader sees of it."""

from __future__ import annotations

import pytest

from rekindle.errors import StorageError
from rekindle.history import log
from rekindle.history.log import EVENTS, Cache
from rekindle.storage import layout
from rekindle.storage.documents.history import EventSegment, HistoryEvent
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore


@pytest.fixture
def storage() -> JobStorage:
    return JobStorage(MemoryStore(), "job")


def written(storage: JobStorage, run: int, segment: int, first: int, *messages: str) -> None:
    rows = tuple(HistoryEvent(time_ms=0, run=run, kind="task_failed", message=message) for message in messages)
    storage.replace(layout.history_segment("job", "events", run, segment, first), EventSegment(first=first, rows=rows))


def read(storage: JobStorage, after: int = -1, cache: Cache | None = None) -> list[tuple[int, str]]:
    return [(number, row.message) for number, row in log.read(storage, EVENTS, after, cache)]


def test_a_job_without_a_history_has_an_empty_one(storage: JobStorage) -> None:
    assert read(storage) == []
    assert log.newest(storage, EVENTS) == []


def test_rows_come_in_the_order_of_their_numbers_whatever_segment_they_are_in(storage: JobStorage) -> None:
    written(storage, 1, 2, 2, "c")
    written(storage, 10, 1, 3, "d", "e")
    written(storage, 1, 1, 0, "a", "b")
    assert read(storage) == [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")]
    assert read(storage, after=1) == [(2, "c"), (3, "d"), (4, "e")]
    assert [number for number, _ in log.newest(storage, EVENTS)] == [3, 4]


def test_what_an_overtaken_driver_writes_late_is_not_seen(storage: JobStorage) -> None:
    written(storage, 1, 1, 0, "a", "b")
    written(storage, 2, 1, 0, "a", "b", "of the second run")
    written(storage, 1, 1, 0, "a", "b", "late", "later")
    written(storage, 1, 2, 4, "latest")
    assert read(storage) == [(0, "a"), (1, "b"), (2, "of the second run")]


def test_a_damaged_segment_is_left_out(storage: JobStorage) -> None:
    written(storage, 1, 1, 0, "a")
    written(storage, 1, 3, 2, "c")
    storage.store.replace(layout.history_segment("job", "events", 1, 2, 1), b"{")
    storage.store.replace(layout.history("job", "events") + "/README.txt", b"a stranger")
    assert read(storage) == [(0, "a"), (2, "c")]


def test_a_segment_of_a_newer_version_is_refused(storage: JobStorage) -> None:
    storage.store.replace(layout.history_segment("job", "events", 1, 1, 0), b'{"format": 2}')
    with pytest.raises(StorageError) as refused:
        read(storage)
    assert refused.value.code == "FORMAT_NEWER"


def test_a_segment_that_is_not_the_newest_is_read_once(storage: JobStorage) -> None:
    cache: Cache = {}
    written(storage, 1, 1, 0, "a")
    written(storage, 1, 2, 1, "b")
    read(storage, cache=cache)
    storage.store.delete(layout.history_segment("job", "events", 1, 1, 0))
    written(storage, 1, 1, 0, "not read again")
    written(storage, 1, 2, 1, "b", "c")
    assert read(storage, cache=cache) == [(0, "a"), (1, "b"), (2, "c")]


def test_what_the_driver_has_deleted_is_not_kept(storage: JobStorage) -> None:
    cache: Cache = {}
    for segment in range(1, 6):
        written(storage, 1, segment, segment - 1, "a")
        if segment > 2:
            storage.store.delete(layout.history_segment("job", "events", 1, segment - 2, segment - 3))
        read(storage, cache=cache)
    assert len(cache) == 1
