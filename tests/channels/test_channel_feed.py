"""Feeding a channel's segments to the query that reads it: how far, in which order, and after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.channel_feed import ChannelFeed
from rekindle.channels.inbox import Inbox
from rekindle.storage.documents.batch import ChannelPosition, InputPosition
from rekindle.storage.documents.sources import FrozenFile
from rekindle.testing.memory_store import MemoryStore

FOLDER = "job/tasks/t/0/000001/inbox/p"
Content = Sequence[Sequence[FrozenFile]]


@dataclass
class Written:
    """What a producer has written."""

    address: str
    content: Content
    oldest: int = 0

    def segments(self, batch: int) -> Sequence[FrozenFile]:
        assert batch >= self.oldest, "its record is gone"
        return self.content[batch]


def segments(*counts: int, by: int = 0) -> Content:
    """So many segments in each batch of the producer, ten bytes each."""
    return [
        [FrozenFile(path=f"file:///{by}/{batch}-{number}", size=10) for number in range(count)]
        for batch, count in enumerate(counts)
    ]


def feed(
    content: Content,
    store: MemoryStore | None = None,
    position: InputPosition | None = None,
    budget_bytes: int = 20,
) -> ChannelFeed:
    return feed_of([content], store, position, budget_bytes)


def feed_of(
    contents: Sequence[Content],
    store: MemoryStore | None = None,
    position: InputPosition | None = None,
    budget_bytes: int = 20,
) -> ChannelFeed:
    inbox = Inbox(store or MemoryStore(), FOLDER, 0)
    sizer = AdmissionSizer(10**9, budget_bytes)
    outputs = {index: Written(f"file:///{index}/", content) for index, content in enumerate(contents)}
    return ChannelFeed(inbox, position or InputPosition(), sizer, outputs)


def places(position: InputPosition) -> list[tuple[int, int]]:
    """Of each producer: batches read whole, and segments of the next."""
    return [(one.batches, one.segment) for _, one in sorted(position.channels.items())]


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
    assert fed.allow(0, 1) is False
    fed.admit()
    assert [file.path for file in fed.outstanding] == ["file:///0/0-0", "file:///0/0-1"]


def test_a_batch_may_be_read_in_parts_and_counts_when_it_was_read_whole() -> None:
    fed = feed(segments(3, 1))
    fed.allow(0, 2)
    first, second = step(fed), step(fed)
    assert (places(first), places(second)) == ([(0, 2)], [(2, 0)])
    assert (second.files, second.bytes) == (4, 40)


def test_batches_without_segments_are_passed_without_a_batch() -> None:
    fed = feed(segments(0, 0, 1, 0))
    assert fed.allow(0, 2) is True
    assert fed.read(0) == 2
    fed.admit()
    assert fed.outstanding == ()
    fed.allow(0, 4)
    assert places(step(fed)) == [(4, 0)]


def test_a_batch_that_read_nothing_of_a_channel_says_how_far_it_was_empty() -> None:
    fed = feed(segments(0, 0, 1))
    fed.allow(0, 2)
    assert places(fed.after(-1)) == [(2, 0)]
    fed.allow(0, 3)
    fed.admit()
    assert places(fed.after(-1)) == [(2, 0)], "what is on its way was not read"


def test_each_empty_batch_is_looked_at_once() -> None:
    looked: list[int] = []

    class Listening(Written):
        def segments(self, batch: int) -> Sequence[FrozenFile]:
            looked.append(batch)
            return super().segments(batch)

    inbox = Inbox(MemoryStore(), FOLDER, 0)
    empty = Listening("file:///0/", segments(*[0] * 100))
    fed = ChannelFeed(inbox, InputPosition(), AdmissionSizer(10**9, 20), {0: empty})
    for batch in range(100):
        assert fed.allow(0, batch + 1) is True
        fed.admit()
    assert looked == list(range(100))


def test_what_is_gone_had_nothing_for_a_reader_whose_record_lags() -> None:
    content = Written("file:///0/", segments(1, 0, 0, 0, 2), oldest=3)
    position = InputPosition(admission=0, files=1, channels={0: ChannelPosition(batches=1)})
    inbox = Inbox(MemoryStore(), FOLDER, 0)
    inbox.admit(0, content.content[0])
    fed = ChannelFeed(inbox, position, AdmissionSizer(10**9, 20), {0: content})
    assert fed.read(0) == 3
    assert fed.allow(0, 4) is True
    fed.allow(0, 5)
    assert places(step(fed)) == [(5, 0)]


def test_a_batch_that_was_read_in_part_goes_on_there_whatever_is_gone() -> None:
    content = Written("file:///0/", segments(0, 3), oldest=1)
    position = InputPosition(admission=0, files=1, channels={0: ChannelPosition(batches=1, segment=1)})
    inbox = Inbox(MemoryStore(), FOLDER, 0)
    inbox.admit(0, content.content[1][:1])
    fed = ChannelFeed(inbox, position, AdmissionSizer(10**9, 10), {0: content})
    fed.allow(0, 2)
    assert places(step(fed)) == [(1, 2)]


def test_what_was_admitted_before_a_crash_stands() -> None:
    content, store = segments(2, 3), MemoryStore()
    before = feed(content, store)
    before.allow(0, 2)
    before.admit()
    after = feed(content, store, budget_bytes=50)
    assert after.outstanding == before.outstanding
    reached = after.after(0)
    assert (places(reached), reached.admission) == ([(1, 0)], 0)


def test_an_admission_that_another_driver_made_counts_unchanged() -> None:
    content, store = segments(4), MemoryStore()
    late, early = feed(content, store, budget_bytes=10), feed(content, store, budget_bytes=30)
    for fed in (early, late):
        fed.allow(0, 1)
        fed.admit()
    assert places(late.after(0)) == [(0, 3)]


def test_nothing_is_admitted_while_an_admission_is_outstanding() -> None:
    fed = feed(segments(1, 1), budget_bytes=10)
    fed.allow(0, 2)
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
        fed.allow(0, min(upto, len(counts)))
        fed.admit()
        read += [file.path for file in fed.outstanding]
        step(fed)
    assert read == [file.path for batch in content for file in batch]
    assert fed.read(0) == len(counts)


@pytest.mark.parametrize("cut", range(5))
def test_a_feed_goes_on_where_the_last_record_stands(cut: int) -> None:
    content, store = segments(2, 0, 2, 1), MemoryStore()
    fed = feed(content, store, budget_bytes=10)
    fed.allow(0, 4)
    for _ in range(cut):
        step(fed)
    again = feed(content, store, fed.position, budget_bytes=10)
    again.allow(0, 4)
    again.admit()
    done = fed.position.files
    assert list(again.outstanding) == [file for batch in content for file in batch][done : done + 1]


def test_an_admission_takes_of_each_producer_in_turn() -> None:
    fed = feed_of([segments(3), segments(1, 1, by=1), segments(0, by=2)], budget_bytes=40)
    for producer, upto in enumerate((1, 2, 1)):
        fed.allow(producer, upto)
    fed.admit()
    assert [file.path for file in fed.outstanding] == [
        "file:///0/0-0",
        "file:///1/0-0",
        "file:///0/0-1",
        "file:///1/1-0",
    ]
    assert places(fed.after(0)) == [(0, 2), (2, 0), (1, 0)]


def test_a_producer_that_may_not_be_read_further_holds_no_other_back() -> None:
    fed = feed_of([segments(2), segments(2, by=1)], budget_bytes=100)
    fed.allow(1, 1)
    assert places(step(fed)) == [(0, 0), (1, 0)]
    assert [fed.read(producer) for producer in (0, 1)] == [0, 1]


def test_what_was_admitted_of_several_before_a_crash_is_distinguished_by_its_addresses() -> None:
    contents, store = [segments(2, 1), segments(1, 2, by=1)], MemoryStore()
    before = feed_of(contents, store, budget_bytes=40)
    for producer in (0, 1):
        before.allow(producer, 2)
    before.admit()
    after = feed_of(contents, store)
    assert places(after.after(0)) == places(before.after(0)) == [(1, 0), (1, 1)]


@given(
    counts=st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3),
    budgets=st.integers(1, 60),
    allowing=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=12),
)
def test_every_segment_of_every_producer_is_read_once_and_each_producers_in_order(
    counts: list[list[int]], budgets: int, allowing: list[tuple[int, int]]
) -> None:
    contents = [segments(*each, by=index) for index, each in enumerate(counts)]
    fed, read = feed_of(contents, budget_bytes=budgets), list[str]()
    everything = [(index, 4) for index in range(len(counts))]
    for producer, upto in [*allowing, *everything, *everything * sum(map(sum, counts))]:
        if producer < len(counts):
            fed.allow(producer, upto)
        fed.admit()
        read += [file.path for file in fed.outstanding]
        step(fed)
    for index, content in enumerate(contents):
        mine = [path for path in read if path.startswith(f"file:///{index}/")]
        assert mine == [file.path for batch in content for file in batch]
        assert fed.read(index) == 4
