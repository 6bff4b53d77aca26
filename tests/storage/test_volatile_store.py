"""`VolatileStore` keeps the promises of a store, and loses just what was not forced."""

from __future__ import annotations

import random

import pytest

from rekindle.storage import layout
from rekindle.testing.volatile_store import VolatileStore
from tests.storage.contract import StoreContract

MANIFEST = layout.manifest(layout.checkpoint("job", 7))
DRAIN = layout.drain(layout.subtask("job", "task", 0, 1))


class TestVolatileStore(StoreContract):
    @pytest.fixture
    def store(self) -> VolatileStore:
        return VolatileStore()


def left(*, seed: int) -> dict[str, bytes | None]:
    """What is left, after a failure, of a document of each kind and of what others have written around a record."""
    store = VolatileStore()
    others = store.of_others()
    others.create("job/spark/before", b"before")
    store.create(DRAIN, b"drain")
    store.create(layout.status("job"), b"status")
    store.create(MANIFEST, b"record")
    store.delete("job/spark/before")
    others.create("job/spark/after", b"after")
    others.replace(DRAIN, b"other")
    store.lose_power(random.Random(seed))
    paths = {"before": "job/spark/before", "after": "job/spark/after", "record": MANIFEST, "drain": DRAIN}
    paths["status"] = layout.status("job")
    return {name: store.read(path) if store.exists(path) else None for name, path in paths.items()}


def test_a_copy_is_lost_and_a_document_that_its_maker_could_not_force_is_forced_by_the_next() -> None:
    def die() -> None:
        raise RuntimeError

    store = VolatileStore(between=die)
    with pytest.raises(RuntimeError):
        store.create(DRAIN, b"drain")
    copies = set()
    for seed in range(50):
        again = VolatileStore()
        again.of_others().create(DRAIN, b"drain")
        again.copy_from(store, DRAIN, layout.drain("copy"))
        assert not again.create(DRAIN, b"other")
        assert again.boot_id == "1"
        again.lose_power(random.Random(seed))
        assert (again.boot_id, again.read(DRAIN)) == ("2", b"drain")
        copies.add(again.exists(layout.drain("copy")))
    assert copies == {True, False}


def test_what_was_forced_stays_and_of_the_rest_every_part_is_lost_once() -> None:
    met = [left(seed=seed) for seed in range(200)]
    assert {one["record"] for one in met} == {b"record"}
    assert {one["status"] for one in met} == {b"status"}, "the record has forced what was there before it"
    assert {one["before"] for one in met} == {None, b"before"}, "a deletion may be undone"
    assert {one["after"] for one in met} == {None, *(b"after"[:length] for length in range(6))}
    assert {b"drain", b"other"} < {one["drain"] for one in met}
