"""Feeding a channel's segments to the query that reads it: how far, in which order, and after a crash."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.channel_feed import ChannelFeed
from rekindle.channels.inbox import Inbox
from rekindle.storage.documents import FrozenFile, InputPosition
from rekindle.storage.memory import MemoryStore

FOLDER = "job/tasks/t/0/000001/inbox/p"


def segments(*counts: int) -> list[list[FrozenFile]]:
    """So many segments in each batch of the producer, ten bytes each."""
    return [
        [FrozenFile(path=f"file:///{batch}-{number}", size=10) for number in range(count)]
        for batch, count in enumerate(counts)
    ]


def feed(
    content: Sequence[Sequence[FrozenFile]],
    store: MemoryStore | None = None,
    position: InputPosition | None = None,
    budget_bytes: int = 20,
) -> ChannelFeed:
    inbox = Inbox(store or MemoryStore(), FOLDER, 0)
    sizer = AdmissionSizer(10**9, budget_bytes)
    return ChannelFeed(inbox, position or InputPosition(), sizer, lambda batch: content[batch])


def step(fed: ChannelFeed) -> InputPosition:
    """A batch reads what was admitted, and is recorded."""
    fed.admit()
    reached = fed.after(fed.position.admission + bool(fed.outstanding))
    fed.recorded(reached, 0)
    return reached


def test_nothing_is_read_that_was_not_allowed() -> None:
    fed = feed(segments(2, 2))
    fed.admit()
    assert fed.outstanding == ()
    assert fed.allow(1) is False
    fed.admit()
    assert [file.path for file in fed.outstanding] == ["file:///0-0", "file:///0-1"]


def test_a_batch_may_be_read_in_parts_and_counts_when_it_was_read_whole() -> None:
    fed = feed(segments(3, 1))
    fed.allow(2)
    first, second = step(fed), step(fed)
    assert (first.batches, first.segment) == (0, 2)
    assert (second.batches, second.segment) == (2, 0)
    assert (second.files, second.bytes) == (4, 40)


def test_batches_without_segments_are_passed_without_a_batch() -> None:
    fed = feed(segments(0, 0, 1, 0))
    assert fed.allow(2) is True
    assert fed.read == 2
    fed.admit()
    assert fed.outstanding == ()
    fed.allow(4)
    assert step(fed).batches == 4


def test_what_was_admitted_before_a_crash_stands() -> None:
    content, store = segments(2, 3), MemoryStore()
    before = feed(content, store)
    before.allow(2)
    before.admit()
    after = feed(content, store, budget_bytes=50)
    assert after.outstanding == before.outstanding
    reached = after.after(0)
    assert (reached.batches, reached.segment, reached.admission) == (1, 0, 0)


def test_an_admission_that_somebody_else_made_counts_as_it_stands() -> None:
    content, store = segments(4), MemoryStore()
    late, early = feed(content, store, budget_bytes=10), feed(content, store, budget_bytes=30)
    for fed in (early, late):
        fed.allow(1)
        fed.admit()
    assert late.after(0).segment == 3


def test_nothing_is_admitted_while_an_admission_is_outstanding() -> None:
    fed = feed(segments(1, 1), budget_bytes=10)
    fed.allow(2)
    fed.admit()
    first = fed.outstanding
    fed.admit()
    assert fed.outstanding == first


@given(
    counts=st.lists(st.integers(0, 4), max_size=8),
    budgets=st.integers(1, 60),
    allowing=st.lists(st.integers(0, 8), max_size=12),
)
def test_every_segment_is_read_once_and_in_order(counts: list[int], budgets: int, allowing: list[int]) -> None:
    content = segments(*counts)
    fed, read = feed(content, budget_bytes=budgets), list[str]()
    for upto in [*allowing, *[len(counts)] * (sum(counts) + 1)]:
        fed.allow(min(upto, len(counts)))
        fed.admit()
        read += [file.path for file in fed.outstanding]
        step(fed)
    assert read == [file.path for batch in content for file in batch]
    assert (fed.read, fed.position.segment) == (len(counts), 0)


@pytest.mark.parametrize("cut", range(5))
def test_a_feed_goes_on_where_the_last_record_stands(cut: int) -> None:
    content, store = segments(2, 0, 2, 1), MemoryStore()
    fed = feed(content, store, budget_bytes=10)
    fed.allow(4)
    for _ in range(cut):
        step(fed)
    again = feed(content, store, fed.position, budget_bytes=10)
    again.allow(4)
    again.admit()
    done = fed.position.files
    assert list(again.outstanding) == [file for batch in content for file in batch][done : done + 1]
