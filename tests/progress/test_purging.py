"""Outputs that no checkpoint needs are deleted: at once in a directory, in a bucket many batches together."""

from __future__ import annotations

import pytest

from rekindle.progress.retention import SourceLogs
from rekindle.spark.query.kept_batches import KeptBatches
from rekindle.spark.streaming.purging import AT_ONCE, Purging
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.batch import BatchRecord
from rekindle.testing.memory_store import MemoryStore

FOLDER = "job/tasks/count/0/1"
BATCHES = 2 * AT_ONCE + 10


class Bucket(MemoryStore):
    """A store in which each look is paid for."""

    @property
    def pace(self) -> int:
        return 10


def purging_in(store: MemoryStore) -> tuple[Purging, BatchDocuments]:
    """A subtask that has run `BATCHES` batches, each with a segment of its channel."""
    storage, progress = BatchDocuments(store, "job"), layout.spark_progress_dir(FOLDER)
    for batch in range(BATCHES):
        store.create(f"{progress}/offsets/{batch}", b'v1\n{"batchWatermarkMs":0}')
        store.create(f"{layout.segments(FOLDER)}/{batch}-x/part", b"rows")
        storage.create(layout.batch(FOLDER, batch), BatchRecord(batch=batch, offsets_hash="", run=1))
    store.create(f"{layout.segments(FOLDER)}/.DS_Store", b"of another program")
    return Purging(storage, FOLDER, KeptBatches(), SourceLogs(store, progress, None)), storage


@pytest.mark.parametrize(("store", "at_once"), [(MemoryStore(), 1), (Bucket(), AT_ONCE)], ids=["directory", "bucket"])
def test_what_is_left_is_never_needed_and_never_more_than_is_deleted_at_once(store: MemoryStore, at_once: int) -> None:
    purging, storage = purging_in(store)
    looks = 0
    for oldest in range(1, BATCHES):
        before = storage.records(FOLDER)
        purging.purge(oldest, oldest, committed=BATCHES - 1)
        left = storage.records(FOLDER)
        looks += left != before
        assert left[-(BATCHES - oldest) :] == list(range(oldest, BATCHES)), "what is needed stays"
        assert len(left) - (BATCHES - oldest) < at_once
        _, *segments = store.names(layout.segments(FOLDER))
        assert sorted(int(name.split("-")[0]) for name in segments) == left
    assert looks == (BATCHES - 2) // at_once + 1


def test_a_task_that_is_over_leaves_nothing_that_no_one_reads_any_more() -> None:
    purging, storage = purging_in(Bucket())
    purging.purge(1, 1, committed=BATCHES - 1)
    purging.purge_all(AT_ONCE // 2, AT_ONCE // 2, now_ms=0)
    assert storage.records(FOLDER) == list(range(AT_ONCE // 2, BATCHES))
