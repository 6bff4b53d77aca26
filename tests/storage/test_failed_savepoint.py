"""A savepoint whose copy has failed, in a storage from which what was copied cannot be deleted either."""

from __future__ import annotations

import pytest

from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.savepoint import deleted_if_it_fails
from rekindle.testing.memory_store import MemoryStore


@pytest.mark.parametrize("error", [ConnectionError, KeyboardInterrupt])
def test_a_savepoint_that_fails_or_is_interrupted_leaves_nothing(error: type[BaseException]) -> None:
    store = MemoryStore()

    def make() -> None:
        with deleted_if_it_fails(store, "bids-000000003-0a1b2c"):
            store.create("bids-000000003-0a1b2c/state", b"rows")
            raise error

    with pytest.raises(error):
        make()

    assert [*store.walk("")] == []


def test_what_cannot_be_deleted_is_no_savepoint_any_more() -> None:
    class Stuck(MemoryStore):
        def delete_tree(self, folder: str) -> None:
            raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason=f"{folder} stays")

    store = Stuck()

    def make() -> None:
        with deleted_if_it_fails(store, "bids-000000003-0a1b2c"):
            store.create("bids-000000003-0a1b2c/state", b"rows")
            store.create(layout.manifest("bids-000000003-0a1b2c"), b"{}")
            raise ConnectionError("no answer")

    with pytest.raises(ConnectionError):
        make()

    assert [entry.path for entry in store.walk("")] == ["bids-000000003-0a1b2c/state"]
