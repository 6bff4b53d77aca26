"""Logs of inboxes that Spark reads on the driver's disk: what is there is what the log in the storage says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rekindle.channels.inbox import Inbox
from rekindle.channels.shown_logs import shown_logs
from rekindle.storage import layout
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Store
from rekindle.testing.memory_store import MemoryStore

FOLDER = "job/tasks/t/0/1/inbox/s"
LOG = layout.admissions(FOLDER)


class PaidStore(MemoryStore):
    """A store in which each look is paid for; it counts the lists."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0

    @property
    def pace(self) -> int:
        return 10

    def names(self, folder: str) -> list[str]:
        self.lists += 1
        return super().names(folder)


def file(number: int) -> FrozenFile:
    return FrozenFile(path=f"s3a://bucket/{number}", size=number)


def log_of(store: Store) -> dict[str, bytes]:
    return {name: store.read(f"{LOG}/{name}") for name in store.names(LOG) if not name.startswith(".")}


def opened(store: Store) -> tuple[Inbox, Store]:
    logs = shown_logs(store)
    inbox = Inbox(store, FOLDER, 0, logs)
    inbox.open()
    return inbox, logs


def test_where_looks_are_free_spark_reads_the_log_itself() -> None:
    store = MemoryStore()
    assert shown_logs(store) is store


def test_a_path_that_spark_would_take_for_a_pattern_is_not_used(tmp_path: Path) -> None:
    store = PaidStore()
    assert shown_logs(store, f"{tmp_path}/{{odd}}") is store
    assert shown_logs(store, str(tmp_path)).location.startswith(f"{tmp_path}/")


def test_a_copy_is_what_the_log_is_and_asks_for_no_list() -> None:
    store = PaidStore()
    inbox, logs = opened(store)
    assert logs.exists(layout.inbox_opened(FOLDER))  # else Spark refuses the folder
    for k in range(45):
        before = store.lists
        assert inbox.admit(k, [file(k)])
        assert inbox.last_admitted() == k
        assert store.lists == before
        assert log_of(logs) == log_of(store)


def test_another_driver_finds_the_log_and_follows_what_a_slower_one_admits() -> None:
    store = PaidStore()
    first, _ = opened(store)
    first.admit(0, [file(0)])
    second, logs = opened(store)
    assert log_of(logs) == log_of(store)
    # Both admit the same: the first one's stands, and is what the second one's query sees.
    assert first.admit(1, [file(1)])
    assert not second.admit(1, [file(100)])
    assert log_of(logs) == log_of(store) and second.admitted(1) == [file(1)]
    # The first is ahead by one that the second has found recorded: there is no gap where it goes on.
    assert first.admit(2, [file(2)])
    assert second.admit(3, [file(3)])
    assert log_of(logs) == log_of(store)


@pytest.mark.parametrize("seed", range(20))
def test_two_drivers_that_admit_in_turns_never_show_a_gap_or_another_content(seed: int) -> None:
    chance, store = random.Random(seed), PaidStore()
    drivers = [opened(store), opened(store)]
    last = -1
    for number in range(60):
        inbox, logs = chance.choice(drivers)
        k = last + 1 if chance.random() < 0.7 else max(last, 0)
        inbox.admit(k, [file(1_000 * number + k)])
        last = max(last, k)
        shown = log_of(logs)
        for name, data in log_of(store).items():
            assert shown[name] == data
        if chance.random() < 0.1:
            drivers[0] = opened(store)


def test_the_folder_is_gone_with_the_last_inbox_that_is_shown_there() -> None:
    inbox, logs = opened(PaidStore())
    place = LocalStore(logs.location)
    assert place.exists(layout.inbox_opened(FOLDER))
    del logs
    assert place.exists(layout.inbox_opened(FOLDER))
    del inbox
    assert not place.exists(layout.inbox_opened(FOLDER))
