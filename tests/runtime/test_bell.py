"""In a bucket a driver looks for requests when it is rung for, and by itself every few minutes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rekindle.errors import StorageError
from rekindle.runtime.client import ControlRequest, send
from rekindle.runtime.control import UNRUNG_S, ControlFolder
from rekindle.storage import layout
from rekindle.storage.documents.control import Request
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process
from rekindle.testing.memory_store import MemoryStore
from tests.runtime.kit import JOB

CHECKPOINT = ControlRequest(verb="checkpoint")
LOOKS_S = 2.0


class PaidStore(MemoryStore):
    """A store in which each look is paid for; it counts the lists of the control folder."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0
        #: done before the control folder is listed
        self.before: Callable[[], object] = lambda: None
        self.refuses_bells = False

    @property
    def pace(self) -> int:
        return 10

    def names(self, folder: str) -> list[str]:
        if folder == layout.control(JOB):
            self.lists += 1
            found = super().names(folder)
            self.before()
            return found
        return super().names(folder)

    def replace(self, path: str, data: bytes) -> None:
        if self.refuses_bells and path == layout.bell(JOB):
            raise StorageError("STORAGE_UNAVAILABLE", uri="memory", reason="away")
        super().replace(path, data)


class Looks:
    """A driver's looks, one every two seconds."""

    def __init__(self, storage: JobStorage) -> None:
        self._folder = ControlFolder(storage)
        self.now_s = 0.0

    def look(self) -> list[str]:
        """Return what is heard."""
        self.now_s += LOOKS_S
        if not (self._folder.rung() or self._folder.is_overdue(self.now_s)):
            return []
        return [request.id for request in self._folder.look(self.now_s).requests]


def running(store: MemoryStore) -> JobStorage:
    storage = JobStorage(store, JOB)
    storage.fence.claim(Run(run=1, started_ms=0, lineage=1, **this_process()._asdict()))
    return storage


def ask(storage: JobStorage) -> str:
    request = send(storage, CHECKPOINT)
    assert isinstance(request, Request)
    return request.id


def test_a_request_is_heard_at_the_next_look_and_the_folder_is_listed_for_it_alone() -> None:
    store = PaidStore()
    storage = running(store)
    looks = Looks(storage)
    assert looks.look() == [] and store.lists == 1  # what was asked before
    for number in range(2, 5):
        assert [looks.look() for _ in range(3)] == [[], [], []]
        asked = ask(storage)
        assert looks.look() == [asked]
        assert store.lists == number


def test_one_whose_asker_died_before_the_bell_is_heard_after_some_minutes() -> None:
    store = PaidStore()
    storage = running(store)
    looks = Looks(storage)
    looks.look()
    store.refuses_bells = True
    asked, since_s = ask(storage), looks.now_s
    while not (heard := looks.look()):
        assert looks.now_s - since_s < UNRUNG_S
    assert heard == [asked] and looks.now_s - since_s >= UNRUNG_S


def test_a_bell_between_the_two_looks_of_one_is_not_missed() -> None:
    store = PaidStore()
    storage = running(store)
    looks = Looks(storage)
    looks.look()
    first, others = ask(storage), []

    def meanwhile() -> None:
        store.before = lambda: None
        others.append(ask(storage))

    store.before = meanwhile
    assert looks.look() == [first]
    assert looks.look() == others


def test_a_look_that_the_storage_refuses_is_repeated() -> None:
    store = PaidStore()
    storage = running(store)
    looks = Looks(storage)
    looks.look()
    asked = ask(storage)

    def refuse() -> None:
        store.before = lambda: None
        raise StorageError("STORAGE_UNAVAILABLE", uri="memory", reason="away")

    store.before = refuse
    with pytest.raises(StorageError):
        looks.look()
    assert looks.look() == [asked]


def test_where_a_look_costs_nothing_there_is_no_bell() -> None:
    storage = running(MemoryStore())
    looks = Looks(storage)
    asked = ask(storage)
    assert looks.look() == [asked]
    assert not storage.store.exists(layout.bell(JOB))
