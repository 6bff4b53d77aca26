"""What Spark keeps of a query, under the numbers that its sources have in another plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.progress.copies import InboxStart, copy_for_lineage, copy_without_state
from rekindle.progress.directory import read_offsets
from rekindle.progress.renumbering import Numbers, UnknownNumbersError, lines_of_plan, moved
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.folder import Folder
from rekindle.storage.local import LocalStore

OLD = {
    "history": InputPosition(admission=2, sources=(0,), mark_sources=(1,)),
    "live": InputPosition(sources=(2,), mark_sources=(3,)),
}


def numbers(**inputs: tuple[tuple[int, ...], tuple[int, ...]]) -> Numbers:
    count = sum(len(group) for groups in inputs.values() for group in groups)
    return Numbers(count=count, inputs=inputs)


def test_each_source_that_stays_has_the_number_that_it_had_and_one_that_is_new_has_none() -> None:
    now = numbers(more=((0,), (1,)), live=((2,), (3,)), history=((4,), (5,)))
    assert lines_of_plan(now, OLD) == (None, None, 2, 3, 0, 1)
    assert lines_of_plan(numbers(live=((0,), (1,))), OLD) == (2, 3)
    timed = {"live": InputPosition(sources=(0,))}
    assert lines_of_plan(numbers(live=((0,), (1,))), timed) == (0, None), "it has an event time now"


def test_what_cannot_be_decided_is_refused() -> None:
    with pytest.raises(UnknownNumbersError, match="an older version"):
        lines_of_plan(numbers(live=((0,), ())), {"live": InputPosition(offset={"logOffset": 3})})
    with pytest.raises(UnknownNumbersError, match="its input live 2 times, and 1 times before"):
        lines_of_plan(numbers(live=((0, 1), ())), {"live": InputPosition(sources=(0,))})
    with pytest.raises(UnknownNumbersError, match="an input twice"):
        lines_of_plan(Numbers(count=1, inputs={}, shared=True), {})


def test_logs_go_with_their_sources() -> None:
    assert moved("sources/2/0", (None, 2, 0)) == ["sources/1/0"]
    assert moved("sources/1/0", (None, 2, 0)) == []
    assert moved("sources/12/3.compact", (12, 1)) == ["sources/0/3.compact"]
    assert moved("state/0/0/1.zip", (1, 0)) == ["state/0/0/1.zip"]


def test_a_copy_for_another_plan_has_the_offsets_and_logs_of_its_sources(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for batch in (4, 5):
        store.create(f"old/offsets/{batch}", b'v1\n{"batchWatermarkMs":7}\n{"logOffset":9}\n-\n{"t":{"0":3}}')
        store.create(f"old/commits/{batch}", b'v1\n{"nextBatchWatermarkMs":7}')
    store.create("old/sources/0/9", b'v1\n{"path":"a","timestamp":1,"batchId":9}')
    store.create("old/sources/2/0", b"v1\n{}")
    lines, inboxes = (2, None, 0), {0: InboxStart(path="file:/carried", time_ms=6)}
    copy_for_lineage(Folder(store, "old"), Folder(store, "new"), 5, query_id="q", inbox_sources=inboxes, lines=lines)
    assert read_offsets(store, "new", 5).sources == ('{"t":{"0":3}}', None, '{"logOffset":0}')
    assert read_offsets(store, "new", 4).sources == read_offsets(store, "new", 5).sources
    assert store.read("new/sources/0/0") == b"v1\n{}"
    assert b"file:/carried" in store.read("new/sources/2/0")
    assert sorted(store.names("new/sources")) == ["0", "2"]

    copy_without_state(Folder(store, "old"), Folder(store, "seen"), 5, lines)
    assert read_offsets(store, "seen", 5).sources == ('{"t":{"0":3}}', None, '{"logOffset":9}')
    assert store.names("seen/sources") == []
