"""Writing a log: what of it is in the storage, whatever happens between two writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from rekindle.errors import ControlError, StorageError
from rekindle.history import log
from rekindle.history.log import LogKind
from rekindle.history.writer import LogWriter
from rekindle.storage import layout
from rekindle.storage.documents.history import EventSegment, HistoryEvent
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore

KIND: LogKind[HistoryEvent] = LogKind("events", EventSegment, rows=5, keep=3)


class FaultyStore(MemoryStore):
    """Asks before each write."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def replace(self, path: str, data: bytes) -> None:
        self.before()
        super().replace(path, data)
        self.after()

    def delete(self, path: str) -> None:
        self.before()
        super().delete(path)
        self.after()


@pytest.fixture
def storage() -> JobStorage:
    return JobStorage(FaultyStore(), "job")


def row(number: int, run: int = 1) -> HistoryEvent:
    return HistoryEvent(time_ms=number, run=run, kind="task_failed", message=f"{number}")


def begun(
    storage: JobStorage, run: int, *before: HistoryEvent, kind: LogKind[HistoryEvent] = KIND
) -> LogWriter[HistoryEvent]:
    return LogWriter(storage, kind, run, lambda _: list(before))


def read(storage: JobStorage, kind: LogKind[HistoryEvent] = KIND) -> list[str]:
    found = log.read(storage, kind)
    assert (
        [one.number for one in found] == list(range(found[0].number, found[0].number + len(found))) if found else True
    )
    return [one.row.message for one in found]


def refused() -> None:
    raise StorageError("STORAGE_FULL", uri="memory:", reason="no room")


def fenced() -> None:
    raise ControlError("DRIVER_FENCED", run=1, job="job", newer=2)


def test_rows_are_in_the_storage_after_a_flush_and_a_flush_without_news_writes_nothing(storage: JobStorage) -> None:
    one = begun(storage, 1)
    one.flush()
    assert list(storage.store.walk("")) == []
    for number in range(7):
        one.add(row(number))
    one.flush()
    assert read(storage) == [*map(str, range(7))]
    storage.store.before = refused  # type: ignore[attr-defined]
    one.flush()


def test_only_so_many_segments_are_kept(storage: JobStorage) -> None:
    one = begun(storage, 1)
    for number in range(103):
        one.add(row(number))
        one.flush()
    assert read(storage) == [*map(str, range(90, 103))]
    assert len(log.segments(storage, KIND)) == KIND.keep


def test_a_segment_ends_by_its_size_too(storage: JobStorage) -> None:
    one = begun(storage, 1, kind=replace(KIND, segment_bytes=1_000))
    for number in range(40):
        one.add(replace(row(number), message=f"{number:0900}"))
        one.flush()
    sizes = [entry.size_bytes for entry in storage.store.walk("")]
    assert len(sizes) == KIND.keep
    assert max(sizes) < 2 * 1_100


def test_another_run_goes_on_with_the_rows_before_and_numbers_go_on(storage: JobStorage) -> None:
    for run in range(1, 30):
        one = begun(storage, run, row(1_000 + run))
        one.add(row(run))
        one.flush()
    assert read(storage)[-4:] == ["1028", "28", "1029", "29"]
    assert log.read(storage, KIND)[-1].number == 57
    assert len(log.segments(storage, KIND)) <= KIND.keep


def test_a_row_that_is_not_in_a_full_segment_can_be_changed(storage: JobStorage) -> None:
    one = begun(storage, 1)
    for number in range(6):
        one.add(row(number))
    one.flush()
    one.add(row(6))
    for number in (0, 5, 6):
        one.amend(lambda event, number=number: event.time_ms == number, lambda event: replace(event, message="new"))
    one.flush()
    assert read(storage) == ["0", "1", "2", "3", "4", "new", "new"]


def test_what_a_storage_refuses_waits_and_of_too_much_the_newest_is_kept(storage: JobStorage) -> None:
    one = begun(storage, 1)
    storage.store.before = refused  # type: ignore[attr-defined]
    for number in range(100):
        one.add(row(number))
        with pytest.raises(StorageError):
            one.flush()
    storage.store.before = lambda: None  # type: ignore[attr-defined]
    one.flush()
    found = read(storage)
    assert found[-10:] == [*map(str, range(90, 100))]
    assert len(found) <= KIND.rows * KIND.keep


def test_a_driver_that_was_overtaken_changes_nothing_that_is_read(storage: JobStorage) -> None:
    old, new = begun(storage, 1), begun(storage, 2)
    old.add(row(1))
    old.flush()
    new.add(row(2, run=2))
    new.flush()
    old.add(row(3))
    old.flush()  # it had looked at the fence before it was overtaken
    for number in range(4, 30):
        old.add(row(number))
    old.flush()
    assert read(storage) == ["1", "2"]
    storage.store.before = fenced  # type: ignore[attr-defined]
    old.add(row(4))
    with pytest.raises(ControlError):
        old.flush()


def test_a_newest_segment_that_is_damaged_is_no_end_of_the_history(storage: JobStorage) -> None:
    one = begun(storage, 1)
    for number in range(7):
        one.add(row(number))
    one.flush()
    storage.store.replace(layout.history_segment("job", "events", 1, 2, 5), b"{ half")
    again = begun(storage, 2)
    again.add(row(7, run=2))
    again.flush()
    assert read(storage) == ["0", "1", "2", "3", "4", "7"]


@pytest.mark.parametrize("seed", range(60))
def test_lives_that_end_between_any_two_writes_lose_no_row_that_was_flushed_and_show_none_twice(seed: int) -> None:
    """Drivers die at a write, before it or after it, the storage refuses now and then, and one that was taken for dead
    wakes up."""
    chance, store = random.Random(seed), FaultyStore()
    storage, number = JobStorage(store, "job"), 0
    kind = replace(KIND, keep=9)
    flushed: list[str] = []
    sleeper: LogWriter[HistoryEvent] | None = None

    class Died(Exception):
        pass

    def fault() -> None:
        if chance.random() < 0.05:
            raise Died
        if chance.random() < 0.1:
            refused()

    for run in range(1, 15):
        one = begun(storage, run, kind=kind)
        store.before = store.after = fault
        waiting: list[str] = []
        with suppress(Died):
            for _ in range(chance.randint(1, 30)):
                if chance.random() < 0.7:
                    number += 1
                    one.add(row(number, run))
                    waiting.append(f"{number}")
                with suppress(StorageError):
                    one.flush()
                    flushed += waiting
                    waiting = []
        store.before = store.after = lambda: None
        if sleeper is not None and any(name.run == run for name in log.segments(storage, kind)):
            sleeper.add(row(10_000, run - 1))
            sleeper.flush()
        found = read(storage, kind)
        assert len(found) == len(set(found)), "twice"
        assert "10000" not in found, "of a driver that was overtaken"
        kept = flushed[-(kind.keep - 1) * kind.rows :]
        assert set(kept) <= set(found) or len(found) >= (kind.keep - 1) * kind.rows
        sleeper = one
    last = begun(storage, 15, kind=kind)
    for number in range(kind.rows + 1):
        last.add(row(20_000 + number, 15))
    last.flush()
    assert len(log.segments(storage, kind)) <= kind.keep
