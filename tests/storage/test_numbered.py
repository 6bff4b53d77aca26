"""What begins with a number in a folder is told from what other programs have left there."""

from __future__ import annotations

from rekindle.channels.split_feed import purge_reads
from rekindle.storage import read_layout
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.numbered import names_before
from rekindle.testing.memory_store import MemoryStore

FOREIGN = [".DS_Store", "12th.txt", "Icon", "²"]
FOLDER = read_layout.reads("job/tasks/t/0/000001", "source")


def test_names_that_begin_with_a_lower_number_are_found_and_those_of_other_programs_are_not() -> None:
    store = MemoryStore()
    ours = ["000000002-a1b2", "000000002.json", "3-c3d4.parquet", "000010"]
    for name in (*ours, *FOREIGN):
        store.create(f"job/{name}", b"")
    assert names_before(store, "job", 10) == sorted(ours[:3])


def test_reads_are_deleted_beside_the_files_of_other_programs() -> None:
    store = MemoryStore()
    for number in range(4):
        store.create(read_layout.split_read(FOLDER, number), b"")
        store.create(f"{read_layout.staged_rows(FOLDER, number, 'a')}/part", b"")
    for name in FOREIGN:
        store.create(f"{FOLDER}/{name}", b"")
    purge_reads(JobDocuments(store, "job"), FOLDER, 3)
    assert store.names(FOLDER) == sorted((*FOREIGN, "000000003-a", "000000003.json"))
