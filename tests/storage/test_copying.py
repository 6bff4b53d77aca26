"""Copying many objects side by side."""

from __future__ import annotations

import _thread
import threading

import pytest

from rekindle.errors import StorageError
from rekindle.storage.copying import SIDE_BY_SIDE, copy_all, side_by_side
from rekindle.storage.port import Store
from rekindle.testing.memory_store import MemoryStore
from tests.interrupts import interrupts_heard

PATHS = [(f"from/{number}", f"to/{number}") for number in range(40)]


def filled() -> MemoryStore:
    source = MemoryStore()
    for number, (path, _) in enumerate(PATHS):
        source.create(path, b"x" * number)
    return source


def test_all_are_copied_and_their_bytes_counted() -> None:
    source, target = filled(), MemoryStore()
    assert copy_all(source, target, PATHS) == sum(range(40))
    assert {path: target.read(path) for _, path in PATHS} == {path: b"x" * n for n, (_, path) in enumerate(PATHS)}
    assert copy_all(source, target, []) == 0


def test_several_are_copied_at_a_time() -> None:
    class Meeting(MemoryStore):
        together = threading.Barrier(SIDE_BY_SIDE)

        def copy_from(self, source: Store, path: str, target: str) -> int:
            self.together.wait(30)  # raises where the others do not come
            return super().copy_from(source, path, target)

    assert copy_all(filled(), Meeting(), PATHS) == sum(range(40))


def test_a_file_that_vanishes_is_reported_and_the_rest_is_not_begun() -> None:
    source, target = filled(), MemoryStore()
    source.delete("from/3")
    with pytest.raises(StorageError, match="from/3") as caught:
        copy_all(source, target, PATHS)
    assert caught.value.code == "OBJECT_CORRUPT"
    assert len(target.names("to")) <= 3 + SIDE_BY_SIDE


def test_an_interrupt_waits_for_what_is_under_way() -> None:
    all_have_begun, returned, seen = threading.Barrier(SIDE_BY_SIDE), threading.Event(), list[bool]()
    numbers: dict[str, int] = {}

    def act(number: int) -> None:
        all_have_begun.wait(30)
        beside = threading.current_thread() is not threading.main_thread()
        if beside and numbers.setdefault("interrupts", number) == number:
            _thread.interrupt_main()
            seen.append(returned.wait(0.5))

    with interrupts_heard(), pytest.raises(KeyboardInterrupt):
        side_by_side(act, range(SIDE_BY_SIDE))
    returned.set()

    assert seen == [False]
