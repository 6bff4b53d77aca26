"""A new lineage does without what a loss of power may have torn in the logs of sources."""

from __future__ import annotations

import json

import pytest

from rekindle.progress import directory as pd
from rekindle.progress.files import files_needed
from rekindle.progress.later_logs import later_logs
from rekindle.testing.memory_store import MemoryStore
from rekindle.testing.volatile_store import VolatileStore

KAFKA = b'\0v1\n{"topic":{"0":5}}'


def entry(number: int) -> bytes:
    return pd.encode_file_log([{"path": f"file:///{number}", "timestamp": 1, "batchId": number}])


def planned(store: MemoryStore, *ends: int | str | None) -> pd.Offsets:
    shown = ["-" if end is None else end if isinstance(end, str) else json.dumps({"logOffset": end}) for end in ends]
    for log in ("offsets", "commits"):
        store.create(f"p/{log}/0", "\n".join(["v1", '{"batchWatermarkMs":0}', *shown]).encode())
    return pd.read_offsets(store, "p", 0)


def logs(store: MemoryStore, source: int, *names: str, torn: str = "") -> None:
    for name in names:
        store.create(f"p/sources/{source}/{name}", entry(int(name.removesuffix(".compact"))))
    if torn:
        store.create(f"p/sources/{source}/{torn}", b'v1\n{"path":"fi')


def test_what_comes_after_the_offset_is_left_out_and_the_compaction_before_it_needed() -> None:
    store = VolatileStore()
    logs(store, 0, "9.compact", "18", "19.compact", "20", "21", "22", torn="29.compact")
    later = later_logs(store, "p", planned(store, 21), ())
    assert later == {"0": ["22", "29.compact"]}
    kept = {path for path in files_needed(store, "p", 0, later) if path.startswith("sources")}
    assert kept == {f"sources/0/{name}" for name in ("9.compact", "19.compact", "20", "21")}


def test_a_log_that_is_not_all_there_up_to_the_offset_is_left_as_it_is() -> None:
    store = VolatileStore()
    logs(store, 0, "19.compact", "22", "29.compact", "30")
    assert later_logs(store, "p", planned(store, 21), ()) == {"0": []}


@pytest.mark.parametrize("torn", ["3", "0"])
def test_of_a_source_of_which_nothing_was_read_what_is_torn_is_left_out_with_what_comes_after_it(torn: str) -> None:
    store = VolatileStore()
    logs(store, 0, *(name for name in "012345" if name != torn), torn=torn)
    assert later_logs(store, "p", planned(store, None), ()) == {"0": [n for n in "012345" if n >= torn]}


def test_an_entry_of_which_only_the_version_is_left_is_torn() -> None:
    store = VolatileStore()
    store.create("p/sources/0/0", b"v1")
    logs(store, 1, "0")
    assert later_logs(store, "p", planned(store, None, 0), ()) == {"0": ["0"], "1": []}


def test_what_is_no_log_of_files_is_left_as_it_is_unless_all_of_it_is_torn() -> None:
    store = VolatileStore()
    store.create("p/sources/0/0", KAFKA)
    store.create("p/sources/1/0", KAFKA[:9])
    store.create("p/sources/2/0", b"")
    store.create("p/sources/3/7", KAFKA)
    offsets = planned(store, None, None, '{"topic":{"0":9}}', '{"topic":{"0":9}}')
    assert later_logs(store, "p", offsets, ()) == {"0": [], "1": ["0"], "2": ["0"], "3": []}


def test_where_a_plan_reads_a_source_twice_the_lines_are_not_gone_by() -> None:
    store = VolatileStore()
    logs(store, 0, "0", "1")
    logs(store, 1, "0", "1", "2", "3", torn="4")
    # The first source has two lines, so the second of these is not of the second source.
    assert later_logs(store, "p", planned(store, 1, 1, 3), ()) == {"0": [], "1": ["4"]}


def test_the_logs_of_inboxes_and_of_storages_that_lose_nothing_are_not_looked_at() -> None:
    store = VolatileStore()
    logs(store, 0, "0", torn="1")
    assert later_logs(store, "p", planned(store, 0), {0}) == {}
    whole = MemoryStore()
    logs(whole, 0, "0", "1")
    assert later_logs(whole, "p", planned(whole, 0), ()) == {}


@pytest.mark.parametrize("torn", [b"", b"v", b"v1\n", b'v1\n{"path":"file:///i'])
def test_a_source_is_known_for_an_inboxs_by_an_entry_that_is_whole(torn: bytes) -> None:
    store = MemoryStore()
    stamped = {"path": "file:///0", "timestamp": 1, "batchId": 0}
    store.create("p/sources/0/0", pd.encode_file_log([stamped]))
    for number in range(1, 9):
        store.create(f"p/sources/0/{number}", torn)
    assert pd.first_entry(store, "p/sources/0") == stamped
    store.delete("p/sources/0/0")
    assert pd.first_entry(store, "p/sources/0") == {}
