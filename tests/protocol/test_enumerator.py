"""The enumerator: every split to one subtask, in runs that shrink, and known to the checkpoint."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.protocol.enumerator import Assignment, Enumerator


def ask(enumerator: Enumerator, subtask: int) -> bool:
    entry = enumerator.next_for(subtask)
    if entry is not None:
        enumerator.append(entry)
    return entry is not None


@given(
    sizes=st.lists(st.integers(0, 100), max_size=60),
    askers=st.lists(st.integers(0, 3), min_size=1, max_size=200),
)
def test_every_split_is_given_to_exactly_one_subtask_in_order(sizes: list[int], askers: list[int]) -> None:
    enumerator = Enumerator(sizes, 4)
    for subtask in askers:
        ask(enumerator, subtask)
    while ask(enumerator, 0):
        pass
    owned = [enumerator.owned(subtask) for subtask in range(4)]
    assert sorted(split for splits in owned for split in splits) == list(range(len(sizes)))
    assert all(list(splits) == sorted(splits) for splits in owned)
    assert enumerator.exhausted


@given(
    sizes=st.lists(st.integers(1, 100), max_size=40),
    askers=st.lists(st.integers(0, 2), max_size=30),
    data=st.data(),
)
def test_what_is_unread_is_all_but_what_was_read_and_can_be_handed_out_again(
    sizes: list[int], askers: list[int], data: st.DataObject
) -> None:
    enumerator = Enumerator(sizes, 3)
    for subtask in askers:
        ask(enumerator, subtask)
    read = {subtask: data.draw(st.integers(0, len(enumerator.owned(subtask)))) for subtask in range(3)}
    done = {split for subtask, count in read.items() for split in enumerator.owned(subtask)[:count]}
    unread = enumerator.unread(read)
    left = [split for first, until in unread for split in range(first, until)]
    assert left == [split for split in range(len(sizes)) if split not in done]
    again = Enumerator(sizes, 1, unread)
    while ask(again, 0):
        pass
    assert list(again.owned(0)) == left
    assert again.unread({}) == unread


def test_runs_shrink_so_that_the_log_stays_short_and_the_last_ones_are_single_splits() -> None:
    enumerator = Enumerator([10] * 10_000, 4)
    assert enumerator.total_bytes == 100_000
    lengths = []
    while (entry := enumerator.next_for(len(lengths) % 4)) is not None:
        lengths.append(entry.until - sum(lengths))
        enumerator.append(entry)
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 10_000 // 8
    assert lengths[-8:] == [1] * 8
    assert enumerator.entries < 2 * 4 * math.log(10_000) + 8


def test_a_run_goes_by_bytes_not_by_the_number_of_files() -> None:
    enumerator = Enumerator([1, 1, 1, 1, 96, 100], 1)
    assert enumerator.next_for(0) == Assignment(0, 5)
    assert Enumerator([500, 1, 1], 1).next_for(0) == Assignment(0, 1)


def test_files_without_bytes_go_with_those_before_them() -> None:
    assert Enumerator([0, 0, 0], 2).next_for(1) == Assignment(1, 3)


def test_a_source_without_files_is_exhausted_from_the_start() -> None:
    enumerator = Enumerator([], 2)
    assert enumerator.exhausted
    assert enumerator.next_for(0) is None
    assert enumerator.unread({}) == ()


def test_the_log_is_rebuilt_entry_by_entry() -> None:
    enumerator = Enumerator([1] * 10, 2, unread=((2, 4), (7, 9)))
    enumerator.append(Assignment(1, 3))
    enumerator.append(Assignment(0, 4))
    assert (enumerator.owned(0), enumerator.owned(1)) == ([8], [2, 3, 7])
    assert enumerator.unread({1: 1}) == ((3, 4), (7, 9))


@pytest.mark.parametrize("until", [0, 1, 4])
def test_an_entry_that_hands_out_nothing_or_what_is_not_there_is_refused(until: int) -> None:
    enumerator = Enumerator([1, 1, 1], 1)
    enumerator.append(Assignment(0, 1))
    with pytest.raises(ValueError, match="cannot follow"):
        enumerator.append(Assignment(0, until))


def test_a_subtask_may_still_read_the_rest_of_its_own_splits_and_those_that_no_subtask_has() -> None:
    enumerator = Enumerator([1] * 8, 2, ((0, 3), (5, 8)))
    for subtask in (0, 1):
        ask(enumerator, subtask)
    assert (enumerator.owned(0), enumerator.owned(1)) == ([0], [1])
    assert list(enumerator.ahead(0, 0)) == [0, 2, 5, 6, 7]
    assert list(enumerator.ahead(1, 1)) == [2, 5, 6, 7]
    assert list(enumerator.ahead(2, 0)) == [2, 5, 6, 7]
