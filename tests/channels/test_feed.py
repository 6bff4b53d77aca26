"""Feeding a source's files to a query when an admission fails, or somebody else's is there."""

from __future__ import annotations

import pytest

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.feed import FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.channels.splits import Splits
from rekindle.errors import StorageError
from rekindle.runtime.steps import SteppedStore
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.crash import Moment, Moments
from rekindle.testing.memory_store import MemoryStore

FOLDER = "job/tasks/t/0/000001/inbox/s"
SPLITS = "job/tasks/t/splits/000001/s"
FILES = [FrozenFile(path=f"file:///{number}", size=10) for number in range(4)]


def feed(store, budget_bytes: int = 20, subtask: int = 0, of: int = 1) -> FileFeed:
    splits = Splits(JobStorage(store, "job"), SPLITS, 1, FILES, of, None)
    inbox = Inbox(store, FOLDER.replace("/0/", f"/{subtask}/"), 0)
    return FileFeed(inbox, InputPosition(), AdmissionSizer(1_000, budget_bytes), splits, subtask)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_admission_that_failed_is_tried_again_and_is_one_admission(when: str) -> None:
    store = MemoryStore()
    fed = feed(SteppedStore(store, Moments([Moment("inbox.admit", when)])))
    with pytest.raises(StorageError):
        fed.admit()

    fed.admit()

    inbox = Inbox(store, FOLDER, 0)
    assert (inbox.last_admitted(), inbox.admitted(0)) == (0, FILES[:2])
    assert fed.after(0).files == 2


def test_a_position_carries_what_batches_so_far_have_taught_of_their_size() -> None:
    fed = feed(MemoryStore(), budget_bytes=20)
    fed.admit()
    first = fed.after(0)
    fed.recorded(first, 500)
    fed.admit()
    second = fed.after(1)

    assert (first.next_bytes, second.next_bytes) == (20, 40)


def test_an_admission_that_another_driver_made_counts_unchanged() -> None:
    store = MemoryStore()
    late = feed(store, budget_bytes=10)
    feed(store, budget_bytes=20).admit()

    late.admit()

    assert late.after(0).files == 2


def test_an_admission_that_the_query_has_seen_before_its_feed_has_counts_as_well() -> None:
    store = MemoryStore()
    late = feed(store)
    feed(store).admit()

    read = late.after(0)
    late.recorded(read, 100)
    late.admit()

    assert read.files == 2
    assert Inbox(store, FOLDER, 0).admitted(1) == FILES[2:], "nothing is admitted twice"
