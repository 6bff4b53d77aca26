"""The splits of a custom source: given once, read in turn, and dealt out again from a checkpoint."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.protocol.custom_splits import GivenSplit, ReaderState, Split, SplitEnumerator, key_of
from rekindle.protocol.operator_state import NamedState, OperatorState, StateKind


def split(name: str, position: object = None) -> Split:
    return Split(id=name, position=position)


def enumerator(parallelism: int, *names: str, restored: OperatorState | None = None) -> SplitEnumerator:
    made = SplitEnumerator(parallelism, restored)
    made.append(made.give(names))
    return made


def test_a_split_goes_to_the_subtask_that_was_given_the_fewest_and_is_given_once() -> None:
    made = enumerator(2, "a", "b", "c")
    assert [one.id for one in made.given_to(0)] == ["a", "c"]
    assert [one.id for one in made.given_to(1)] == ["b"]
    assert made.give(["c", "d", "d"]) == (GivenSplit(split=split("d"), subtask=1),)
    assert made.entries == 1, "to ask changes nothing"


def test_where_a_split_begins_is_written_down_with_it_and_goes_through_a_checkpoint() -> None:
    made = enumerator(1, "a")
    assert made.new_among(["a", "b", "b"]) == {key_of("b"): "b"}
    given = made.give(["a", "b"], {key_of("a"): 7, key_of("b"): {"offset": 3}})
    assert given == (GivenSplit(split=split("b", {"offset": 3}), subtask=0),), "a split that was known stays as it is"
    made.append(given)
    # No reader has taken it up yet: a start from there finds the place again, whatever is found out by then.
    restored = SplitEnumerator(1, OperatorState.from_json(made.state({0: ReaderState(given=1)}).to_json()))
    assert restored.discovered and restored.new_among(["a", "b"]) == {}
    assert [one.split for one in restored.give(["a", "b"], {key_of("b"): 9})] == [split("b", {"offset": 3})]


def test_splits_are_known_by_their_json_value() -> None:
    made = SplitEnumerator(1)
    made.append(made.give([{"a": 1, "b": 2}]))
    assert made.give([{"b": 2, "a": 1}]) == ()
    assert key_of({"b": 2, "a": 1}) == '{"a":1,"b":2}'


def test_open_splits_are_read_in_turn_and_leave_the_row_when_they_end() -> None:
    state = ReaderState().with_given([split("a"), split("b")])
    state = state.after_read(split("a"), 5, ended=False)
    assert state.open == (split("b"), split("a", 5))
    state = state.with_given([split("a"), split("b"), split("c")])
    assert (state.given, state.open[-1]) == (3, split("c"))
    state = state.after_read(split("b"), 1, ended=True)
    assert state.open == (split("a", 5), split("c"))
    assert state.with_given([]) == state


def test_the_end_of_a_split_ends_none_that_python_takes_for_the_same() -> None:
    ids = [1, 1.0, True, [1], [True]]
    made = SplitEnumerator(1)
    made.append(made.give(ids))
    state = ReaderState().with_given(made.given_to(0))
    assert len(state.open) == len(ids)
    state = state.after_read(state.open[0], None, ended=True)
    assert [key_of(one.id) for one in state.open] == ["1.0", "true", "[1]", "[true]"]


def test_open_splits_are_list_state_and_the_rest_is_the_coordinators() -> None:
    made = enumerator(2, "a", "b", "c", "d")  # 0 has a and c, 1 has b and d
    readers = {0: ReaderState(given=2, open=(split("c", 3),)), 1: ReaderState(given=1, open=(split("b"),))}
    state = made.state(readers)
    assert state.coordinator == {
        "discovered": True,
        "ended": ['"a"'],
        "waiting": [{"id": "d", "position": None}],
    }
    kept = {index: one["splits"].entries for index, one in state.subtasks.items() if one}
    assert kept == {0: [{"id": "c", "position": 3}], 1: [{"id": "b", "position": None}]}


def test_a_finished_reader_leaves_a_marker_and_all_of_them_nothing() -> None:
    made = enumerator(2, "a", "b")
    partly = made.state({1: ReaderState(given=1, open=(split("b", 1),))}, finished=[0])
    assert partly.subtasks[0] is None
    assert partly.coordinator["ended"] == ['"a"'], "what it was given has ended"
    assert made.state({}, finished=[0, 1]) == OperatorState.finished(2)


def test_what_wholly_finished_is_not_asked_for_its_splits_again() -> None:
    made = SplitEnumerator(3, OperatorState.finished(2))
    assert made.discovered
    assert not made.waits
    assert [list(made.given_to(index)) for index in range(3)] == [[], [], []]


def test_a_restore_deals_out_what_is_open_gives_what_waits_and_keeps_what_has_ended() -> None:
    before = enumerator(3, "a", "b", "c", "d")
    readers = {
        0: ReaderState(given=1, open=(split("a", 7),)),  # d waits
        1: ReaderState(given=1, open=()),  # b has ended
        2: ReaderState(given=1, open=(split("c", 2),)),
    }
    restored = OperatorState.from_json(json.loads(json.dumps(before.state(readers).to_json())))
    made = SplitEnumerator(1, restored)
    assert list(made.given_to(0)) == [split("a", 7), split("c", 2)]
    assert (made.discovered, made.waits) == (True, True)
    made.append(made.give(["a", "b", "c", "d", "e"]))
    assert [one.id for one in made.given_to(0)] == ["a", "c", "d", "e"]
    assert not made.waits


def test_the_state_of_a_source_that_was_never_asked_says_so() -> None:
    state = SplitEnumerator(1).state({0: ReaderState()})
    assert state.coordinator == {"discovered": False, "ended": [], "waiting": []}
    assert not SplitEnumerator(2, state).discovered


def test_what_the_source_keeps_itself_lies_beside_its_splits() -> None:
    own = {0: {"seen": NamedState(StateKind.UNION, [1])}}
    state = SplitEnumerator(1).state({0: ReaderState()}, own=own)
    assert state.uses_union


def test_a_subtask_that_gave_nothing_is_dealt_nothing() -> None:
    made = SplitEnumerator(1, OperatorState(parallelism=1, subtasks={}))
    assert list(made.given_to(0)) == []
    assert not made.discovered


@given(
    parallelism=st.integers(1, 4),
    after=st.integers(1, 4),
    names=st.sets(st.sampled_from("abcdefgh")),
    taken=st.lists(st.integers(0, 8), min_size=4, max_size=4),
    ended=st.sets(st.sampled_from("abcdefgh")),
)
def test_a_split_is_open_waiting_or_ended_in_any_checkpoint_and_after_any_restore(
    parallelism: int, after: int, names: set[str], taken: list[int], ended: set[str]
) -> None:
    made = enumerator(parallelism, *sorted(names))
    readers = {}
    for index in range(parallelism):
        count = min(taken[index], len(made.given_to(index)))
        opened = tuple(one for one in made.given_to(index)[:count] if one.id not in ended)
        readers[index] = ReaderState(given=count, open=opened)
    state = made.state(readers)
    again = enumerator(after, *sorted(names), restored=state)
    given = [one.id for index in range(after) for one in again.given_to(index)]
    over = [json.loads(key) for key in state.coordinator["ended"]]
    assert sorted([*given, *over]) == sorted(names)


@pytest.mark.parametrize("kind", StateKind)
def test_splits_are_list_state_whatever_the_source_keeps(kind: StateKind) -> None:
    state = enumerator(1, "a").state({0: ReaderState()}, own={0: {"own": NamedState(kind, [])}})
    found = state.subtasks[0]
    assert found is not None
    assert found["splits"].kind is StateKind.LIST
