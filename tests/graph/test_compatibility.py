"""Which changes of a job a checkpoint survives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import RestoreError
from rekindle.graph.compatibility import (
    FinishedState,
    RestoreRule,
    Violation,
    check_drained,
    check_finished_state,
    first_violation,
)
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Edge, EdgeKind, Topology, Vertex
from rekindle.graph.validation import validated
from tests.graph.kit import A2A, PW, subsets, topologies

# --- what had finished ------------------------------------------------------------------------------------------------

RUNNING, PARTIAL, FULL = SubtaskSet.none(2), SubtaskSet.of(2, [1]), SubtaskSet.every(2)


def pair(*kinds: EdgeKind) -> Topology:
    vertices = (Vertex(uid="v1", parallelism=2), Vertex(uid="v2", parallelism=2))
    return Topology(vertices, tuple(Edge("v1", "v2", kind) for kind in kinds))


def stopped(topology: Topology, finished: dict[str, SubtaskSet]) -> RestoreError:
    with pytest.raises(RestoreError) as raised:
        check_finished_state(topology, finished, "/save/1")
    assert "/save/1" in raised.value.message
    assert raised.value.next_step
    return raised.value


def test_finished_subtasks_make_up_the_state_of_their_operator() -> None:
    assert FinishedState.of(None) is FinishedState.RUNNING
    assert FinishedState.of(RUNNING) is FinishedState.RUNNING
    assert FinishedState.of(PARTIAL) is FinishedState.PARTIAL
    assert FinishedState.of(FULL) is FinishedState.FULL


@pytest.mark.parametrize(
    ("first", "second", "kinds", "rule"),
    [
        (RUNNING, FULL, [A2A], RestoreRule.FULL),
        (RUNNING, FULL, [PW], RestoreRule.FULL),
        (PARTIAL, FULL, [A2A], RestoreRule.FULL),
        (PARTIAL, FULL, [PW], RestoreRule.FULL),
        (FULL, FULL, [A2A], None),
        (FULL, FULL, [PW], None),
        (RUNNING, PARTIAL, [A2A], RestoreRule.ALL_TO_ALL),
        (PARTIAL, PARTIAL, [A2A], RestoreRule.ALL_TO_ALL),
        (FULL, PARTIAL, [A2A], None),
        (RUNNING, PARTIAL, [PW], RestoreRule.POINTWISE),
        (PARTIAL, PARTIAL, [PW], None),
        (FULL, PARTIAL, [PW], None),
        (RUNNING, PARTIAL, [PW, A2A], RestoreRule.ALL_TO_ALL),
        (RUNNING, PARTIAL, [A2A, PW], RestoreRule.ALL_TO_ALL),
        (PARTIAL, PARTIAL, [PW, A2A, PW], RestoreRule.ALL_TO_ALL),
        (RUNNING, PARTIAL, [PW, PW], RestoreRule.POINTWISE),
        (RUNNING, RUNNING, [A2A], None),
        (PARTIAL, RUNNING, [A2A], None),
        (FULL, RUNNING, [PW], None),
        (RUNNING, FULL, [], None),
    ],
)
def test_nothing_that_runs_may_feed_what_has_finished(
    first: SubtaskSet, second: SubtaskSet, kinds: list[EdgeKind], rule: RestoreRule | None
) -> None:
    """As Flink's VertexFinishedStateChecker has it."""
    expected = None if rule is None else Violation(rule=rule, vertex="v2", predecessor="v1")
    assert first_violation(pair(*kinds), {"v1": first, "v2": second}) == expected


def test_a_vertex_that_the_checkpoint_does_not_know_has_yet_to_run() -> None:
    assert first_violation(pair(A2A), {"v2": FULL}) == Violation(rule=RestoreRule.FULL, vertex="v2", predecessor="v1")
    assert first_violation(pair(A2A), {"v2": PARTIAL}) == Violation(
        rule=RestoreRule.ALL_TO_ALL, vertex="v2", predecessor="v1"
    )
    assert first_violation(pair(A2A), {"v1": FULL}) is None
    assert first_violation(pair(A2A), {}) is None


def test_the_parallelism_that_counts_is_that_of_the_checkpoint() -> None:
    """A restore with another parallelism redistributes what unfinished subtasks left; a finished vertex left none."""
    assert first_violation(pair(A2A), {"v1": SubtaskSet.every(5), "v2": SubtaskSet.every(3)}) is None
    assert first_violation(pair(A2A), {"v1": SubtaskSet.of(5, [0, 1]), "v2": SubtaskSet.every(3)}) is not None


def test_the_first_vertex_in_the_order_of_the_data_is_named() -> None:
    vertices = tuple(Vertex(uid=uid, parallelism=2) for uid in ("c", "b", "a"))
    topology = Topology(vertices, (Edge("b", "c", PW), Edge("a", "b", PW)))
    assert first_violation(topology, {"c": FULL, "b": PARTIAL}) == Violation(
        rule=RestoreRule.POINTWISE, vertex="b", predecessor="a"
    )


@pytest.mark.parametrize("other", [None, RUNNING, PARTIAL])
def test_operators_of_one_vertex_have_finished_together_or_not_at_all(other: SubtaskSet | None) -> None:
    """Chained operators share one finished state: a mixture means that the chain was made up anew."""
    topology = Topology((Vertex(uid="v", parallelism=2, operators=("read", "count")),))
    finished = {"read": FULL} if other is None else {"read": FULL, "count": other}
    assert first_violation(topology, finished) == Violation(rule=RestoreRule.MIXED, vertex="v")


def test_operators_are_looked_up_by_their_own_uid_wherever_they_are_chained_now() -> None:
    apart = Topology(
        (Vertex(uid="v", parallelism=2, operators=("read",)), Vertex(uid="w", parallelism=2, operators=("count",))),
        (Edge("v", "w", PW),),
    )
    together = Topology((Vertex(uid="v", parallelism=2, operators=("read", "count")),))
    assert first_violation(apart, {"read": FULL, "count": FULL}) is None
    assert first_violation(together, {"read": FULL, "count": FULL}) is None
    assert first_violation(apart, {"read": FULL}) is None
    assert first_violation(together, {"read": FULL}) == Violation(rule=RestoreRule.MIXED, vertex="v")


@given(st.data())
def test_a_job_that_did_not_change_is_always_restored(data: st.DataObject) -> None:
    """What has finished was fed by finished ones only, so no checkpoint of a job forbids the job itself."""
    topology = data.draw(topologies())
    wished = data.draw(subsets(topology))
    finished: dict[str, SubtaskSet] = {}
    for uid in topology.order:
        ended = wished.get(uid, SubtaskSet.none(topology.vertex(uid).parallelism))
        for edge in topology.inputs_of(uid):
            ended -= topology.fed_by(edge, ~finished[edge.source])
        finished[uid] = ended
    assert first_violation(topology, finished) is None
    check_finished_state(topology, finished, "/save/1")


def test_the_refusal_of_a_finished_task_names_both_tasks_and_says_what_to_do() -> None:
    error = stopped(pair(PW), {"v1": PARTIAL, "v2": FULL})
    assert error.code == "FINISHED_BEHIND_UNFINISHED"
    assert "task 'v2' had finished, and 'v1', which it reads in this job, had finished in part" in error.message
    assert "give it a new uid" in error.next_step


@pytest.mark.parametrize(
    ("kind", "first", "code", "words"),
    [
        (A2A, RUNNING, "PARTLY_FINISHED_ALL_TO_ALL", "'v1', which feeds each of them in this job, had not finished"),
        (A2A, PARTIAL, "PARTLY_FINISHED_ALL_TO_ALL", "feeds each of them in this job, had finished in part"),
        (PW, RUNNING, "PARTLY_FINISHED_POINTWISE", "'v1', which feeds them one by one in this job, had not finished"),
    ],
)
def test_the_refusal_of_a_partly_finished_task_names_both_tasks(
    kind: EdgeKind, first: SubtaskSet, code: str, words: str
) -> None:
    error = stopped(pair(kind), {"v1": first, "v2": PARTIAL})
    assert error.code == code
    assert "some subtasks of task 'v2' had finished" in error.message
    assert words in error.message
    assert "v2" in error.next_step


def test_the_refusal_of_a_mixed_chain_names_its_operators_and_where_they_stood() -> None:
    topology = Topology((Vertex(uid="hourly", operators=("hourly/live", "hourly", "out")),))
    one = SubtaskSet.every(1)
    error = stopped(topology, {"hourly/live": one, "hourly": one})
    assert error.code == "FINISHED_STATE_MIXED"
    assert "hourly/live had finished, hourly had finished, out had not finished" in error.message


def test_a_new_source_or_sink_of_a_finished_task_makes_a_mixed_chain() -> None:
    live, history = Source(uid="live", bounded=False), Source(uid="history", bounded=True)
    hourly, out = Task(uid="hourly", inputs=("history",)), Sink(uid="out", task="hourly")
    graph = validated(JobGraph(name="bids", sources=(live, history), tasks=(hourly,), sinks=(out,)))
    finished = dict.fromkeys(graph.topology.vertex("hourly").chain, SubtaskSet.every(1))
    check_finished_state(graph.topology, finished, "/save/1")
    more_sources = JobGraph(
        name="bids", sources=(live, history), tasks=(Task(uid="hourly", inputs=("history", "live")),), sinks=(out,)
    )
    assert "hourly/live had not finished" in stopped(validated(more_sources).topology, finished).message
    more_sinks = JobGraph(
        name="bids", sources=(live, history), tasks=(hourly,), sinks=(out, Sink(uid="second", task="hourly"))
    )
    assert "second had not finished" in stopped(validated(more_sinks).topology, finished).message


# --- what else is refused ---------------------------------------------------------------------------------------------


def test_a_drained_checkpoint_is_restored_only_where_that_is_allowed() -> None:
    check_drained(False, "/save/1", allow_drained=False)
    check_drained(True, "/save/1", allow_drained=True)
    with pytest.raises(RestoreError, match=r"JOB_DRAINED.*/save/1"):
        check_drained(True, "/save/1", allow_drained=False)
