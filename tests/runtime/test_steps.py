"""The store that announces its writes: it looks at the fence before it takes anything away."""

from __future__ import annotations

import pytest

from rekindle.errors import ControlError
from rekindle.runtime.steps import SteppedStore
from rekindle.storage.port import Store
from rekindle.testing.memory_store import MemoryStore

STATUS = "job/status.json"


def fenced() -> None:
    raise ControlError("DRIVER_FENCED", run=1, job="job", newer=2)


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.delete(STATUS),
        lambda store: store.delete_tree("job"),
        lambda store: store.replace(STATUS, b"new"),
    ],
    ids=["delete", "delete_tree", "replace"],
)
def test_a_fenced_driver_neither_deletes_nor_replaces_however_late_it_notices(act) -> None:
    inner = MemoryStore()
    inner.create(STATUS, b"old")
    store = SteppedStore(inner, lambda name: setattr(store, "look", fenced))  # it happens while the step is announced

    with pytest.raises(ControlError, match="DRIVER_FENCED"):
        act(store)

    assert inner.read(STATUS) == b"old"


def test_what_a_fenced_driver_creates_does_no_harm_and_is_let_through() -> None:
    store = SteppedStore(MemoryStore(), lambda name: None)
    store.look = fenced

    assert store.create(STATUS, b"new")


def test_every_call_that_changes_a_store_is_a_step_and_the_others_are_known() -> None:
    harmless = {
        "location",
        "pace",
        "boot_id",
        "check",
        "uri",
        "spark_path",
        "read",
        "open",
        "exists",
        "names",
        "walk",
        "unfinished",
    }
    calls = {name for name in vars(Store) if not name.startswith("_")}
    assert calls - {name for name in vars(SteppedStore) if not name.startswith("_")} == harmless
