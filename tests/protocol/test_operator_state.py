"""Operator state: how it is dealt out again, when it declines a checkpoint, and what finished operators leave."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import ProtocolError
from rekindle.protocol.operator_state import (
    Closing,
    NamedState,
    OperatorState,
    StateKind,
    UnionViolation,
    check_union,
    reassign,
)
from rekindle.protocol.reasons import Reason

LIST, UNION, BROADCAST = StateKind

parallelisms = st.integers(1, 6)
entries = st.lists(st.integers() | st.text(max_size=3), max_size=5)
olds = st.integers(1, 6).flatmap(
    lambda size: st.fixed_dictionaries({subtask: st.none() | entries for subtask in range(size)})
)
"""Entries by old subtask, None for the finished."""


def everything(old: dict) -> list:
    return [*chain(*(held or [] for _, held in sorted(old.items())))]


def splits(*names: str) -> dict[str, NamedState]:
    return {"splits": NamedState(LIST, [*names])}


def offsets(*names: str) -> dict[str, NamedState]:
    return {"offsets": NamedState(UNION, [*names])}


# --- list -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "expected"),
    [(1, [["a", "b", "c", "d"]]), (2, [["a", "b"], ["c", "d"]]), (3, [["a", "d"], ["b"], ["c"]])],
)
def test_list_state_is_dealt_out_round_robin_where_the_parallelism_changes(new: int, expected: list) -> None:
    """Flink's StateAssignmentOperationTest, SPLIT: 2→3, 2→1, 2→2."""
    assert reassign(LIST, {0: ["a", "b"], 1: ["c", "d"]}, new) == expected


def test_list_state_may_move_without_rescaling_once_a_subtask_has_finished() -> None:
    """FLIP-147, Operator state, ListState: "the redistribution may happen even in case there is no rescaling".

    "If src 1 finishes its state will be cleared. Than if after a restore the state of src 2 is assigned to src 1".
    """
    assert reassign(LIST, {0: ["src 0"], 1: None, 2: ["src 2"]}, 3) == [["src 0"], ["src 2"], []]


def test_a_restore_is_as_if_only_the_running_subtasks_had_existed() -> None:
    """FLIP-147, Checkpoint Format 2: "After recovery, the subtasks would re-assign the remaining states"."""
    assert reassign(LIST, {0: None, 1: None, 2: ["c"], 3: ["d", "e"]}, 2) == [["c"], ["d", "e"]]
    assert reassign(LIST, {0: None, 1: None, 2: ["c"], 3: ["d", "e"]}, 4) == [["c"], ["d"], ["e"], []]


def test_a_running_subtask_without_entries_is_not_a_finished_one() -> None:
    assert reassign(LIST, {0: ["a", "b"], 1: []}, 2) == [["a", "b"], []]
    assert reassign(LIST, {0: ["a", "b"], 1: None}, 2) == [["a"], ["b"]]


@given(old=olds, new=parallelisms)
def test_every_entry_of_a_list_comes_back_once(old: dict, new: int) -> None:
    dealt = reassign(LIST, old, new)
    assert len(dealt) == new
    assert Counter(map(repr, chain(*dealt))) == Counter(map(repr, everything(old)))


@given(old=olds, new=parallelisms)
def test_what_is_dealt_out_again_is_dealt_out_evenly(old: dict, new: int) -> None:
    held = [some for _, some in sorted(old.items()) if some is not None]
    sizes = [len(part) for part in reassign(LIST, old, new)]
    assert sizes == [len(some) for some in held] or max(sizes) - min(sizes) <= 1


# --- union and broadcast ----------------------------------------------------------------------------------------------


@given(old=olds, new=parallelisms)
def test_every_subtask_sees_all_of_a_union_in_the_same_order(old: dict, new: int) -> None:
    """FLIP-147, Operator state, UnionListState: "the single copy of the state would be distributed to all subtasks";
    Flink's StateAssignmentOperationTest, UNION."""
    assert reassign(UNION, old, new) == [everything(old)] * new


@pytest.mark.parametrize("finished", [None, []])
@pytest.mark.parametrize("new", [1, 2, 3])
def test_broadcast_state_is_restored_from_any_subtask_that_has_it(finished: list | None, new: int) -> None:
    """FLIP-147, Operator state, BroadcastState: "when restoring with some subtasks finished, we would use any of the
    non-empty state (taken for any running subtask)"."""
    assert reassign(BROADCAST, {0: ["rules"], 1: finished}, new) == [["rules"]] * new
    assert reassign(BROADCAST, {0: finished, 1: ["rules"]}, new) == [["rules"]] * new
    assert reassign(BROADCAST, {0: finished, 1: []}, new) == [[]] * new


def test_two_broadcast_states_are_one() -> None:
    assert reassign(BROADCAST, {0: ["rules"], 1: ["rules"]}, 2) == [["rules"], ["rules"]]


@pytest.mark.parametrize("kind", [UNION, BROADCAST])
def test_what_several_subtasks_are_given_is_not_shared(kind: StateKind) -> None:
    first, second = reassign(kind, {0: [{"at": 1}]}, 2)
    first[0]["at"] = 2
    first.append("more")
    assert second == [{"at": 1}]


# --- union declines ---------------------------------------------------------------------------------------------------

WORDS_CLOSED = "task 'read' has union state and part of its subtasks have finished"
WORDS_FINISHED = "task 'read' has union state and part of its subtasks have called finish()"


@pytest.mark.parametrize(
    ("closed", "finished", "detail"),
    [
        (0, 0, None),
        (1, 0, WORDS_CLOSED),
        (0, 1, WORDS_FINISHED),
        (1, 1, WORDS_CLOSED),  # though all that are left say so: what the first had is gone
        (0, 2, None),
        (2, 0, None),
    ],
)
def test_a_task_with_union_state_finishes_all_at_once(closed: int, finished: int, detail: str | None) -> None:
    """FLIP-147, Operator state, UnionListState: "We will decline checkpoints if not all of the tasks called finished
    and received notifyCheckpointComplete"; Flink's DefaultCheckpointPlanTest."""
    task = Closing(task="read", parallelism=2, closed=closed, finished=finished, uses_union=True)
    assert check_union([task]) == (UnionViolation("read", detail) if detail else None)
    assert check_union([replace(task, uses_union=False)]) is None


def test_a_task_that_is_partly_closed_is_named_before_one_that_has_partly_called_finish() -> None:
    """Flink's DefaultCheckpointPlan checks all vertices for the first, then all for the second."""
    first = Closing(task="first", parallelism=2, finished=1, uses_union=True)
    second = Closing(task="second", parallelism=2, closed=1, uses_union=True)
    violation = check_union(iter([first, second]))
    assert violation is not None and violation.task == "second"


def test_the_reason_of_the_decline_does_not_count_as_a_failure() -> None:
    assert UnionViolation.reason is Reason.CHECKPOINT_DECLINED_TASK_CLOSING
    assert not UnionViolation.reason.counts


def test_only_union_state_counts_be_it_empty() -> None:
    """Flink's DefaultCheckpointPlan: the state's mode decides, not how much of it there is."""
    assert OperatorState(parallelism=1, subtasks={0: offsets()}).uses_union
    plain = {**splits("a"), "rules": NamedState(BROADCAST, [1])}
    assert not OperatorState(parallelism=2, subtasks={0: plain, 1: None}).uses_union


# --- finished operators -----------------------------------------------------------------------------------------------


def test_an_operator_whose_subtasks_have_all_finished_is_stored_as_that_and_without_state() -> None:
    """FLIP-147, Checkpoint Format 1: "the checkpoint would store a flag 'fully finished = true'"; Flink's
    FullyFinishedOperatorStateTest, and DefaultCheckpointPlanTest for a coordinator's state."""
    state = OperatorState.gathered(2, {}, finished={0, 1}, coordinator={"unassigned": []})
    assert state == OperatorState.finished(2)
    assert state.fully_finished and not state.uses_union
    assert state.to_json() == {"parallelism": 2, "fully_finished": True}


def test_a_partly_finished_operator_keeps_the_state_of_the_others() -> None:
    """FLIP-147, Checkpoint Format 2: "the checkpoint would store the states collected from the other subtasks"."""
    state = OperatorState.gathered(2, {1: splits("a")}, finished={0}, coordinator=[3])
    assert not state.fully_finished
    assert state.to_json() == {
        "parallelism": 2,
        "subtasks": {"0": None, "1": {"splits": {"kind": "list", "entries": ["a"]}}},
        "coordinator": [3],
    }


def test_a_running_operator_without_any_state_has_not_finished() -> None:
    assert not OperatorState(parallelism=1, subtasks={}).fully_finished
    assert not OperatorState(parallelism=2, subtasks={0: {}, 1: None}).fully_finished


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: replace(OperatorState.finished(2), coordinator={}),
        lambda: OperatorState.gathered(2, {0: splits("a")}, finished={0, 1}),
        lambda: OperatorState(parallelism=2, subtasks={2: {}}),
        lambda: OperatorState(parallelism=2, subtasks={-1: None}),
        lambda: OperatorState(parallelism=2, subtasks={0: offsets(), 1: {"offsets": NamedState(LIST, [])}}),
    ],
    ids=[
        "a coordinator's put into a fully finished one",
        "given by one that had finished",
        "of a subtask too many",
        "of a subtask below none",
        "of two kinds under one name",
    ],
)
def test_what_has_finished_takes_no_state_and_what_makes_no_sense_is_refused(wrong) -> None:
    """Flink: "Could not put state to a fully finished operator state"; "There should be no states or only coordinator
    state reported for fully finished operators"."""
    with pytest.raises(ProtocolError, match="INVARIANT_BROKEN"):
        wrong()


# --- restoring a whole operator ---------------------------------------------------------------------------------------


def test_each_name_is_dealt_out_by_its_own_kind() -> None:
    rules = NamedState(BROADCAST, ["r"])
    state = OperatorState(
        parallelism=3, subtasks={0: {**splits("a", "b"), **offsets("x")}, 1: {"rules": rules, **offsets("y")}, 2: None}
    )
    assert state.reassigned(2) == [
        {**splits("a", "b"), **offsets("x", "y"), "rules": rules},
        {**splits(), **offsets("x", "y"), "rules": rules},
    ]
    assert [part["splits"].entries for part in state.reassigned(3)] == [["a"], ["b"], []]


def test_a_subtask_that_gave_nothing_counts_as_running() -> None:
    state = OperatorState(parallelism=2, subtasks={0: splits("a", "b")})
    assert state.reassigned(2) == [splits("a", "b"), splits()]


def test_nothing_of_a_fully_finished_operator_is_started() -> None:
    """Flink's StateAssignmentOperationTest, StateWithFullyFinishedOperators: all its new tasks are "finished"."""
    assert OperatorState.finished(3).reassigned(2) == [None, None]
    assert OperatorState(parallelism=1, subtasks={}).reassigned(2) == [{}, {}]


# --- documents --------------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
kinds = {"splits": LIST, "offsets": UNION, "rules": BROADCAST}
subtask_states = st.fixed_dictionaries(
    {},
    optional={name: st.builds(NamedState, st.just(kind), st.lists(values, max_size=3)) for name, kind in kinds.items()},
)


@st.composite
def operator_states(draw: st.DrawFn) -> OperatorState:
    parallelism = draw(parallelisms)
    finished = draw(st.sets(st.integers(0, parallelism - 1)))
    running = sorted(set(range(parallelism)) - finished)
    states = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(running, subtask_states)))
    return OperatorState.gathered(parallelism, states, finished=finished, coordinator=draw(values))


@given(state=operator_states())
def test_a_document_of_any_state_is_read_as_the_same_state(state: OperatorState) -> None:
    """Flink's MetadataV3SerializerTest: "same set of finished flags after read"."""
    again = OperatorState.from_json(json.loads(json.dumps(state.to_json())))
    assert again == state
    assert again.fully_finished == state.fully_finished


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"fully_finished": True},
        {"parallelism": 1, "subtasks": {"one": None}, "coordinator": None},
        {"parallelism": 1, "subtasks": {"0": {"a": {"kind": "keyed", "entries": []}}}, "coordinator": None},
    ],
)
def test_another_document_is_refused(document: dict) -> None:
    with pytest.raises((KeyError, ValueError)):
        OperatorState.from_json(document)
