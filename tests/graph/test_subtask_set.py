"""Sets of subtasks: what Python's own sets say, in one byte a subtask."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.graph.subtask_set import SubtaskSet

FLAGS = st.lists(st.booleans(), max_size=70)
PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=70)


def members(flags: list[bool]) -> set[int]:
    return {subtask for subtask, member in enumerate(flags) if member}


def made(flags: list[bool]) -> SubtaskSet:
    return SubtaskSet.of(len(flags), members(flags))


@given(FLAGS)
def test_a_set_has_the_members_it_was_made_of_in_order(flags: list[bool]) -> None:
    subtasks = made(flags)
    assert list(subtasks) == sorted(members(flags))
    assert len(subtasks) == len(members(flags))
    assert bool(subtasks) == bool(members(flags))
    assert subtasks.parallelism == len(flags)
    assert subtasks.is_full == all(flags)
    assert [subtask in subtasks for subtask in range(len(flags))] == flags


@given(FLAGS)
def test_the_complement_holds_all_others(flags: list[bool]) -> None:
    assert ~made(flags) == made([not flag for flag in flags])


@given(PAIRS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SubtaskSet.__and__, set.__and__),
        (SubtaskSet.__or__, set.__or__),
        (SubtaskSet.__sub__, set.__sub__),
    ],
    ids=["and", "or", "minus"],
)
def test_sets_are_joined_as_pythons_are(
    ours: Callable[..., SubtaskSet], theirs: Callable[..., set[int]], pairs: list[tuple[bool, bool]]
) -> None:
    a, b = [first for first, _ in pairs], [second for _, second in pairs]
    assert ours(made(a), made(b)) == SubtaskSet.of(len(pairs), theirs(members(a), members(b)))


def test_no_subtask_and_every_subtask() -> None:
    assert list(SubtaskSet.none(3)) == []
    assert list(SubtaskSet.every(3)) == [0, 1, 2]
    assert SubtaskSet.every(3).is_full
    assert not SubtaskSet.none(3).is_full


@pytest.mark.parametrize("subtask", [-1, 3])
def test_a_vertex_has_no_other_subtasks_than_its_own(subtask: int) -> None:
    with pytest.raises(IndexError):
        SubtaskSet.of(3, [subtask])
    assert subtask not in SubtaskSet.every(3)


def test_two_sets_make_a_third() -> None:
    some, others = SubtaskSet.of(5, {0, 1, 4}), SubtaskSet.of(5, {1, 2})
    assert some | others == SubtaskSet.of(5, {0, 1, 2, 4})
    assert some & others == SubtaskSet.of(5, {1})
    assert some - others == SubtaskSet.of(5, {0, 4})


def test_what_is_no_subtask_is_in_no_set() -> None:
    assert "0" not in SubtaskSet.every(3)


def test_sets_of_different_vertices_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="sets of 2 and of 3 subtasks"):
        _ = SubtaskSet.every(2) & SubtaskSet.every(3)


def test_equal_sets_are_one_key_and_sets_of_vertices_of_another_size_are_not_equal() -> None:
    assert len({SubtaskSet.of(3, [1]), SubtaskSet.of(3, [1])}) == 1
    assert SubtaskSet.none(2) != SubtaskSet.none(3)


def test_a_set_is_shown_by_its_first_members_however_large_it_is() -> None:
    assert repr(SubtaskSet.of(4, [1, 3])) == "SubtaskSet(2 of 4: 1, 3)"
    assert repr(SubtaskSet.every(100_000)) == "SubtaskSet(100000 of 100000: 0, 1, 2, 3, 4, 5, 6, 7, …)"
