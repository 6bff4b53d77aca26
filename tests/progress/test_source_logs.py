"""The logs of file sources name no more files than Spark still goes by."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from rekindle.channels.inbox import stamp_ms
from rekindle.progress import directory as pd
from rekindle.progress.retention import SourceLogs
from rekindle.testing.memory_store import MemoryStore

LOG = "p/sources/0"
SECOND = 1_000


def compact(store: MemoryStore, number: int) -> list[int]:
    """Do what Spark does at every tenth offset; returns the offsets that the new file names."""
    before = f"{LOG}/{number - 10}.compact"
    known = pd.file_log(store.read(before), before) if store.exists(before) else []
    new = [
        {"path": f"file:///live/{n}", "timestamp": n * SECOND, "batchId": n}
        for n in range(max(number - 9, 0), number + 1)
    ]
    entries = [*(known or []), *new]
    store.create(f"{LOG}/{number}.compact", "\n".join(["v1", *map(json.dumps, entries)]).encode())
    return [entry["batchId"] for entry in entries]


def at(offset: int) -> str:
    return json.dumps({"logOffset": offset})


def named(store: MemoryStore, number: int) -> list[int]:
    path = f"{LOG}/{number}.compact"
    return [entry["batchId"] for entry in pd.file_log(store.read(path), path) or []]


def test_what_spark_has_forgotten_is_left_out_and_the_log_stays_as_large_as_that() -> None:
    store, sizes = MemoryStore(), list[int]()
    logs = SourceLogs(store, "p", 50 * SECOND)
    for number in range(9, 5_000, 10):
        sizes.append(len(compact(store, number)))
        logs.cut((None,), (at(number),))
    assert max(sizes) < 200
    assert set(range(4_950, 5_000)) <= set(named(store, 4_999))


def test_what_a_retained_checkpoint_may_go_on_from_has_to_know_stays_named() -> None:
    store = MemoryStore()
    for number in range(9, 400, 10):
        compact(store, number)
    SourceLogs(store, "p", 50 * SECOND).cut((None,), (at(300),))
    assert named(store, 399) == list(range(250, 400)), "from the oldest checkpoint's newest file on"


def test_a_file_that_spark_may_plan_again_stays_named_however_old_it_is() -> None:
    store = MemoryStore()
    times = [1_000, *range(300), 1]
    entries = [{"path": f"file:///{n}", "timestamp": at * SECOND, "batchId": n} for n, at in enumerate(times)]
    store.create(f"{LOG}/309.compact", "\n".join(["v1", *map(json.dumps, entries)]).encode())
    SourceLogs(store, "p", 50 * SECOND).cut((None,), (at(301),))
    assert named(store, 309) == [0, *range(281, 302)]


@pytest.mark.parametrize("content", ["v1\n{}\n{}", "v1", "", "v1\nnot json"])
def test_what_is_no_log_of_files_is_left_alone(content: str) -> None:
    store = MemoryStore()
    store.create(f"{LOG}/309.compact", content.encode())
    SourceLogs(store, "p", 50).cut((None, None, None), (at(305), at(305), None))
    assert store.read(f"{LOG}/309.compact") == content.encode()


def test_an_inboxs_log_is_listed_once_a_checkpoint_and_read_once_a_compaction() -> None:
    looked = Counter[str]()

    class Noting(MemoryStore):
        def names(self, folder: str) -> list[str]:
            looked["listed"] += 1
            return super().names(folder)

        def read(self, path: str) -> bytes:
            looked["read"] += 1
            return super().read(path)

    store = Noting()
    logs = SourceLogs(store, "p", None)
    for number in (9, 19, 29):
        entries = [{"path": f"file:///{n}", "timestamp": stamp_ms(n, 0), "batchId": n} for n in range(number + 1)]
        store.create(f"{LOG}/{number}.compact", "\n".join(["v1", *map(json.dumps, entries)]).encode())
        looked.clear()
        for _ in range(5):
            logs.cut((0,), (None,))
        assert looked == {"listed": 5, "read": 1}
    assert store.names(LOG) == ["19.compact", "29.compact"]
    assert named(store, 29) == list(range(19, 30))


def test_where_any_old_file_may_still_be_read_nothing_is_cut() -> None:
    store = MemoryStore()
    for number in range(9, 400, 10):
        compact(store, number)
    SourceLogs(store, "p", None).cut((None,), (at(399),))
    assert named(store, 399) == list(range(400))
