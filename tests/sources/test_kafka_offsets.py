"""Where topics are read from and to: every message once, in reads of a size, and nothing passed over in silence."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.sources.kafka.offsets import (
    Extent,
    OffsetsGoneError,
    after,
    at_offsets,
    at_time,
    earliest,
    may_lack,
    ranges_after,
    refuse_gone,
    with_new_topics,
)


def of(*ends: int, first: int = 0, written: int | None = None) -> Mapping[str, Mapping[int, Extent]]:
    """A topic that has messages up to these offsets."""
    return {"t": {number: Extent(first, end, written or end) for number, end in enumerate(ends)}}


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6), st.integers(1, 40))
def test_each_message_is_in_one_read_however_the_topic_grows(grown: list[list[int]], at_most: int) -> None:
    ends, position, read = [0, 0, 0], earliest(of(0, 0, 0)), set[tuple[int, int]]()
    for more in grown:
        ends = [end + add for end, add in zip(ends, more, strict=True)]
        for _ in range(2):
            ranges = ranges_after(position, of(*ends), at_most)
            assert sum(one.until - one.first for one in ranges) <= at_most + len(ranges)
            for one in ranges:
                messages = {(one.partition, offset) for offset in range(one.first, one.until)}
                assert messages and not messages & read
                read |= messages
            position = after(position, ranges)
    while ranges := ranges_after(position, of(*ends), at_most):
        read |= {(one.partition, offset) for one in ranges for offset in range(one.first, one.until)}
        position = after(position, ranges)
    assert read == {(number, offset) for number, end in enumerate(ends) for offset in range(end)}


def test_no_message_is_read_that_came_after_what_was_available() -> None:
    was, extents = of(5, 3), {**of(9, 3, 4), "u": {0: Extent(0, 2, 2)}}
    assert ranges_after({"t": {"0": 2, "1": 3}}, extents, 100, until=was) == [("t", 0, 2, 5)]
    assert ranges_after({"t": {"0": 7, "1": 3}}, extents, 100, until=was) == [], "an earlier run had read more"


def test_a_partition_that_comes_is_read_from_its_beginning_and_a_topic_from_what_is_there() -> None:
    extents = {**of(5, 3), "u": {0: Extent(7, 9, 9)}}
    assert ranges_after({"t": {"0": 5}}, extents, 100) == [("t", 1, 0, 3), ("u", 0, 7, 9)]
    assert after({"gone": {"0": 1}}, ranges_after({"t": {"0": 5}}, extents, 100)) == {
        "gone": {"0": 1}, "t": {"1": 3}, "u": {"0": 9},
    }  # fmt: skip


def test_a_partition_without_messages_of_a_topic_that_comes_is_read_from_where_it_stands() -> None:
    extents = {**of(5), "u": {0: Extent(7, 9, 9), 1: Extent(100, 100, 100)}}
    met = with_new_topics({"t": {"0": 5}}, extents)
    position = after(met, ranges_after(met, extents, 100))
    assert position == {"t": {"0": 5}, "u": {"0": 9, "1": 100}}
    assert with_new_topics(position, extents) == position
    assert ranges_after(position, extents, 100) == []


def test_an_open_transaction_holds_messages_back_and_is_no_loss() -> None:
    held = of(5, written=9)
    assert ranges_after({"t": {"0": 7}}, held, 100) == []
    assert ranges_after({"t": {"0": 3}}, held, 100) == [("t", 0, 3, 5)]


@pytest.mark.parametrize(
    ("position", "extent"),
    [({"t": {"0": 4}}, Extent(5, 9, 9)), ({"t": {"0": 10}}, Extent(5, 9, 9)), ({"t": {}}, Extent(5, 9, 9))],
)
def test_what_was_deleted_or_made_again_is_not_passed_over(
    position: Mapping[str, Mapping[str, int]], extent: Extent
) -> None:
    for look in (
        lambda: ranges_after(position, {"t": {0: extent}}, 1),
        lambda: refuse_gone(position, {"t": {0: extent}}),
    ):
        with pytest.raises(OffsetsGoneError) as gone:
            look()
        assert (gone.value.topic, gone.value.partition, gone.value.extent) == ("t", 0, extent)


def test_a_time_is_where_its_first_message_is_or_is_yet_to_come() -> None:
    extents = {"t": {0: Extent(0, 9, 9), 1: Extent(4, 6, 8), 2: Extent(4, 6, 6)}}
    found = {("t", 0): 0, ("t", 1): -1, ("t", 2): 4}
    assert at_time(found, extents) == {"t": {"0": 0, "1": 8, "2": 4}}
    assert may_lack(found, extents) == [("t", 2)]


def test_offsets_are_said_for_all_partitions_and_no_others() -> None:
    extents = of(9, 9, first=2, written=10)
    assert at_offsets({"t": {0: 4, 1: 9}}, extents) == {"t": {"0": 4, "1": 9}}
    assert at_offsets({"t": {0: -2, 1: -1}}, extents) == {"t": {"0": 2, "1": 10}}
    for said, reason in (({"t": {0: 4}}, "is not in it"), ({"t": {0: 4, 1: 4, 2: 4}}, "is not there")):
        with pytest.raises(ValueError, match=reason):
            at_offsets(said, extents)
