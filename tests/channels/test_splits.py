"""The files of a source, handed out durably: by a driver, by its successor, and by two at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.feed import FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.channels.splits import Splits
from rekindle.errors import StorageError
from rekindle.protocol.enumerator import Ranges
from rekindle.runtime.steps import SteppedStore
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store
from rekindle.testing.crash import Moment, Moments
from rekindle.testing.memory_store import MemoryStore

FILES = [FrozenFile(path=f"file:///{number}", size=10) for number in range(8)]
FOLDER = read_layout.splits("job", "read", 1, "history")


def splits(store: Store, parallelism: int = 2, run: int = 1, unread: Ranges | None = None) -> Splits:
    return Splits(JobStorage(store, "job"), FOLDER, run, FILES, parallelism, unread)


def given(shared: Splits, subtask: int) -> list[int]:
    return [FILES.index(file) for file in shared.given_to(subtask)]


def test_a_single_subtask_has_everything_and_writes_no_log() -> None:
    store = MemoryStore()
    shared = splits(store, parallelism=1)
    assert given(shared, 0) == list(range(8))
    assert shared.exhausted
    assert not store.names(FOLDER)


def test_what_was_handed_out_stays_so_for_the_next_driver() -> None:
    store = MemoryStore()
    first = splits(store)
    for subtask in (0, 1, 0):
        first.ask(subtask)
    second = splits(store, run=2)
    assert [given(second, subtask) for subtask in (0, 1)] == [[0, 1, 3], [2]]
    second.ask(1)
    assert given(second, 1) == [2, 4]
    assert not set(given(second, 0)) & set(given(second, 1))


def test_two_drivers_at_once_give_no_file_to_two_subtasks() -> None:
    store = MemoryStore()
    old, new = splits(store), splits(store, run=2)
    new.ask(1)
    old.ask(0)
    old.ask(1)
    new.ask(0)
    assert given(old, 1) == [0, 1, 3] and given(old, 0) == [2]
    assert given(new, 1)[:2] == [0, 1] and given(new, 0)[0] == 2
    for subtask in (0, 1):
        shorter, longer = sorted((given(old, subtask), given(new, subtask)), key=len)
        assert longer[: len(shorter)] == shorter


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_assignment_that_failed_is_tried_again_and_hands_nothing_out_twice(when: str) -> None:
    store = MemoryStore()
    shared = splits(SteppedStore(store, Moments([Moment("split.assign", when)])))
    with pytest.raises(StorageError):
        shared.ask(0)
    shared.ask(1)
    shared.ask(0)
    whole = sorted(given(shared, 0) + given(shared, 1))
    assert whole == list(range(len(whole)))
    assert [given(splits(store), subtask) for subtask in (0, 1)] == [given(shared, subtask) for subtask in (0, 1)]


def test_a_lineage_that_begins_in_the_middle_hands_out_the_rest() -> None:
    shared = splits(MemoryStore(), unread=((1, 3), (6, 8)))
    while not shared.exhausted:
        shared.ask(0)
    assert given(shared, 0) == [1, 2, 6, 7]
    assert shared.unread({0: 3}) == ((7, 8),)
    assert shared.share_read == 0.5
    shared.note_read(0, 30)
    assert shared.share_read == 7 / 8


def test_an_empty_source_is_read() -> None:
    shared = Splits(JobStorage(MemoryStore(), "job"), FOLDER, 1, [], 3, None)
    assert shared.exhausted
    assert shared.share_read == 1.0


def feed(store: Store, shared: Splits, subtask: int) -> FileFeed:
    inbox = Inbox(store, layout.inbox(layout.subtask("job", "read", subtask, 1), "history"), 0)
    return FileFeed(inbox, InputPosition(), AdmissionSizer(10**9, 20), shared, subtask)


def test_a_subtask_ends_when_it_has_read_its_own_and_nothing_is_left() -> None:
    store = MemoryStore()
    shared = splits(store)
    feeds = [feed(store, shared, subtask) for subtask in (0, 1)]
    read: list[int] = []
    while not all(one.ended for one in feeds):
        for one in feeds:
            one.admit()
            read += [FILES.index(file) for file in one.outstanding]
            one.recorded(one.after(one.position.admission + bool(one.outstanding)), 0)
    assert sorted(read) == list(range(8))
    assert not any(one.outstanding for one in feeds)
    assert shared.share_read == 1.0
    assert shared.unread({0: feeds[0].position.files, 1: feeds[1].position.files}) == ()


def test_a_subtask_that_finds_nothing_left_has_ended_without_reading() -> None:
    store = MemoryStore()
    shared = splits(store)
    hungry, late = feed(store, shared, 0), feed(store, shared, 1)
    while not hungry.ended:
        hungry.admit()
        hungry.recorded(hungry.after(hungry.position.admission + 1), 0)
    late.admit()
    assert late.ended and not late.outstanding


@pytest.mark.parametrize(("by_time", "expected"), [(True, [10, 20, 30, 40, None]), (False, [None] * 5)])
def test_the_least_time_that_may_still_come_is_that_of_the_first_file_with_a_time_ahead(
    by_time: bool, expected: list[int | None]
) -> None:
    timed = [FrozenFile(path=f"file:///{number}", size=10, first_ms=number * 10 or None) for number in range(5)]
    shared = Splits(JobStorage(MemoryStore(), "job"), FOLDER, 1, timed, 1, None, by_time)
    assert [shared.unread_from_ms(0, read) for read in range(1, 6)] == expected


def test_times_that_are_ignored_tell_nothing_and_leave_the_files_where_they_are() -> None:
    timed = [replace(file, first_ms=10 * number) for number, file in enumerate(FILES)]
    shared = Splits(JobStorage(MemoryStore(), "job"), FOLDER, 1, timed, 1, None, by_time=True)
    assert shared.by_time

    shared.ignore_times()

    assert not shared.by_time
    assert shared.unread_from_ms(0, 1) is None
    assert shared.given_to(0) == timed
