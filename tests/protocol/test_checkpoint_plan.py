"""Who takes part in a checkpoint: FLIP-147, appendix 1, and what Flink's DefaultCheckpointPlanCalculatorTest asserts.

The oracle asks each subtask for each of those that feed it, as the FLIP's direct implementation would.
"""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import EdgeKind, Topology
from rekindle.protocol.checkpoint_plan import CheckpointPlan, Work, calculate
from rekindle.protocol.reasons import Reason
from tests.graph.kit import A2A, PW, graph, subsets, topologies

_Named = dict[str, list[int]]


def ended(topology: Topology, finished: dict[str, list[int]]) -> dict[str, SubtaskSet]:
    return {uid: SubtaskSet.of(topology.vertex(uid).parallelism, subtasks) for uid, subtasks in finished.items()}


def named(subtasks: object) -> _Named:
    return {uid: list(members) for uid, members in subtasks.items()}  # type: ignore[attr-defined]


def planned(topology: Topology, finished: dict[str, list[int]], work: Work | None = None) -> CheckpointPlan:
    plan = calculate(topology, ended(topology, finished), after_tasks_finish=True, work=work)
    assert isinstance(plan, CheckpointPlan)
    return plan


def triggered(topology: Topology, finished: dict[str, list[int]]) -> _Named:
    return named(planned(topology, finished).to_trigger)


def naive(topology: Topology, finished: dict[str, SubtaskSet]) -> set[tuple[str, int]]:
    """Running, and no running predecessor: each subtask against each of those that feed it, edge by edge."""

    def runs(uid: str, subtask: int) -> bool:
        return uid not in finished or subtask not in finished[uid]

    return {
        (vertex.uid, subtask)
        for vertex in topology.vertices
        for subtask in range(vertex.parallelism)
        if runs(vertex.uid, subtask)
        and not any(
            runs(edge.source, producer)
            for edge in topology.edges
            if edge.target == vertex.uid
            for producer in range(topology.vertex(edge.source).parallelism)
            if subtask in topology.consumers(edge, producer)
        )
    }


def flat(subtasks: object) -> set[tuple[str, int]]:
    return {(uid, subtask) for uid, members in named(subtasks).items() for subtask in members}


# --- against the oracle -----------------------------------------------------------------------------------------------


@given(st.data())
def test_the_plan_is_the_one_that_looks_at_every_pair_of_subtasks(data: st.DataObject) -> None:
    topology = data.draw(topologies())
    finished = data.draw(subsets(topology))
    plan = calculate(topology, finished, after_tasks_finish=True)
    everyone = {(vertex.uid, subtask) for vertex in topology.vertices for subtask in range(vertex.parallelism)}
    if flat(finished) == everyone:
        assert plan is Reason.ALL_TASKS_FINISHED
        return
    assert isinstance(plan, CheckpointPlan)
    event("several roots" if len(plan.to_trigger) > 1 else "roots in one vertex")
    assert flat(plan.to_trigger) == naive(topology, finished)
    assert flat(plan.to_wait_for) == everyone - flat(finished)
    assert flat(plan.finished) == flat(finished)
    assert set(plan.fully_finished) == {
        vertex.uid for vertex in topology.vertices if vertex.uid in finished and finished[vertex.uid].is_full
    }
    for subtasks in (plan.to_trigger, plan.to_wait_for, plan.finished):
        assert all(subtasks.values()), "a vertex with nobody in a role is left out of it"


@given(st.data())
def test_every_barrier_has_somewhere_to_come_from(data: st.DataObject) -> None:
    """Whoever is waited for is triggered, or reached from one that is, over subtasks that run."""
    topology = data.draw(topologies())
    finished = data.draw(subsets(topology))
    plan = calculate(topology, finished, after_tasks_finish=True)
    if isinstance(plan, Reason):
        return
    reached = dict(plan.to_trigger)
    for uid in topology.order:
        for edge in topology.inputs_of(uid):
            if edge.source in reached and uid in plan.to_wait_for:
                fed = topology.fed_by(edge, reached[edge.source]) & plan.to_wait_for[uid]
                reached[uid] = reached[uid] | fed if uid in reached else fed
    assert flat(reached) == flat(plan.to_wait_for)


@given(st.data())
def test_what_is_not_named_as_finished_has_not_finished(data: st.DataObject) -> None:
    topology = data.draw(topologies())
    finished = data.draw(subsets(topology))
    spelt_out = {vertex.uid: SubtaskSet.none(vertex.parallelism) for vertex in topology.vertices} | finished
    assert calculate(topology, finished, after_tasks_finish=True) == calculate(
        topology, spelt_out, after_tasks_finish=True
    )


# --- the rules, one by one --------------------------------------------------------------------------------------------


def test_while_all_run_the_sources_are_triggered() -> None:
    """FLIP-147, Triggering Checkpoints After Tasks Finished: other tasks receive barriers from the input channels."""
    topology = graph(3, 4, 5, 6, edges=((0, 2, A2A), (1, 2, PW), (2, 3, A2A)))
    plan = planned(topology, {})
    assert named(plan.to_trigger) == {"0": [0, 1, 2], "1": [0, 1, 2, 3]}
    assert flat(plan.to_wait_for) == flat({uid: range(size) for uid, size in zip("0123", (3, 4, 5, 6), strict=True)})
    assert plan.finished == {}
    assert plan.fully_finished == ()


def test_a_task_behind_a_finished_and_a_running_one_hears_of_the_checkpoint_through_its_channel() -> None:
    """FLIP-147, figure 2: A has finished, B runs, both feed C: B is triggered, and C is not left out of the plan."""
    topology = graph(1, 1, 1, edges=((0, 2, PW), (1, 2, PW)))
    assert triggered(topology, {"0": [0]}) == {"1": [0]}
    assert named(planned(topology, {"0": [0]}).to_wait_for) == {"1": [0], "2": [0]}


def test_a_task_all_of_whose_predecessors_have_finished_is_a_new_root() -> None:
    """FLIP-147, Triggering Checkpoints After Tasks Finished: tasks still running that have no running precedent task.

    Otherwise a two-phase-commit sink that waits for one more checkpoint would wait for ever.
    """
    topology = graph(2, 2, edges=((0, 1, A2A),))
    plan = planned(topology, {"0": [0, 1]})
    assert named(plan.to_trigger) == named(plan.to_wait_for) == {"1": [0, 1]}
    assert plan.fully_finished == ("0",)


def test_one_running_producer_over_all_to_all_reaches_every_consumer() -> None:
    """FLIP-147, appendix 1, observation 1: ALL_TO_ALL and some tasks of A run: no task of B needs a trigger."""
    topology = graph(3, 4, edges=((0, 1, A2A),))
    assert triggered(topology, {"0": [0, 2]}) == {"0": [1]}


def test_running_producers_over_pointwise_reach_their_consumers_and_all_of_them_reach_all() -> None:
    """FLIP-147, appendix 1, observation 2: POINTWISE and all tasks of A run: no task of B needs a trigger."""
    topology = graph(4, 4, edges=((0, 1, PW),))
    assert triggered(topology, {}) == {"0": [0, 1, 2, 3]}
    assert triggered(topology, {"0": [0, 1]}) == {"0": [2, 3], "1": [0, 1]}


def test_where_several_producers_feed_a_consumer_one_that_runs_is_enough() -> None:
    topology = graph(6, 3, edges=((0, 1, PW),))
    assert triggered(topology, {"0": [0, 1, 2, 5]}) == {"0": [3, 4], "1": [0]}


def test_where_a_producer_feeds_several_consumers_they_become_roots_together() -> None:
    topology = graph(2, 5, edges=((0, 1, PW),))
    assert triggered(topology, {"0": [0], "1": [1]}) == {"0": [1], "1": [0, 2]}


def test_a_task_is_a_root_only_if_no_edge_of_any_kind_reaches_it() -> None:
    topology = graph(3, 5, 5, 5, edges=((0, 3, A2A), (1, 3, PW), (2, 3, PW)))
    finished = {"0": [0, 1, 2], "1": [0, 2, 3], "2": [2, 4], "3": [2]}
    assert triggered(topology, finished) == {"1": [1, 4], "2": [0, 1, 3]}
    finished["2"] = [0, 2, 4]
    assert triggered(topology, finished) == {"1": [1, 4], "2": [1, 3], "3": [0]}


def test_a_finished_task_before_a_running_predecessor_changes_nothing_for_the_tasks_behind() -> None:
    """FLIP-147, Triggering …: reports arrive in any order, so a task may seem to finish before its predecessor."""
    topology = graph(2, 2, 2, edges=((0, 1, A2A), (1, 2, A2A)))
    assert triggered(topology, {"1": [0, 1]}) == {"0": [0, 1], "2": [0, 1]}


def test_two_edges_between_the_same_tasks_count_both() -> None:
    topology = graph(2, 2, edges=((0, 1, PW), (0, 1, A2A)))
    assert triggered(topology, {"0": [0]}) == {"0": [1]}


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_no_checkpoint_is_taken_once_all_have_finished() -> None:
    topology = graph(1, 2, edges=((0, 1, A2A),))
    finished = ended(topology, {"0": [0], "1": [0, 1]})
    assert calculate(topology, finished, after_tasks_finish=True) is Reason.ALL_TASKS_FINISHED
    assert calculate(topology, finished, after_tasks_finish=False) is Reason.ALL_TASKS_FINISHED


def test_without_the_feature_one_finished_subtask_is_enough_to_refuse() -> None:
    """FLIP-147, Feature flag: switched off, checkpoints end with the first task that does."""
    topology = graph(1, 2, edges=((0, 1, A2A),))
    finished = ended(topology, {"1": [1]})
    assert calculate(topology, finished, after_tasks_finish=False) is Reason.TASKS_FINISHED_FEATURE_OFF
    assert isinstance(calculate(topology, ended(topology, {"1": []}), after_tasks_finish=False), CheckpointPlan)


@pytest.mark.parametrize("running", [{"0": [0], "1": [0]}, {"1": [0, 1]}, {}])
def test_a_subtask_that_has_neither_finished_nor_runs_is_a_reason_to_refuse(running: dict[str, list[int]]) -> None:
    """As Flink's OneTaskNotRunning: root or not, whoever is waited for has to run."""
    topology = graph(1, 2, edges=((0, 1, EdgeKind.ALL_TO_ALL),))
    plan = calculate(topology, {}, ended(topology, running), after_tasks_finish=True)
    assert plan is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_a_subtask_that_has_finished_need_not_run() -> None:
    topology = graph(1, 2, edges=((0, 1, A2A),))
    finished, running = ended(topology, {"0": [0], "1": [0]}), ended(topology, {"1": [1]})
    plan = calculate(topology, finished, running, after_tasks_finish=True)
    assert isinstance(plan, CheckpointPlan)
    assert named(plan.to_trigger) == {"1": [1]}


def test_a_set_of_another_size_than_its_vertex_is_an_error() -> None:
    with pytest.raises(ValueError, match="sets of 2 and of 3 subtasks"):
        calculate(graph(2), {"0": SubtaskSet.none(3)}, after_tasks_finish=True)


# --- the work it takes ------------------------------------------------------------------------------------------------

SIZE = 1_000


def worked(topology: Topology, finished: dict[str, list[int]]) -> Work:
    work = Work()
    planned(topology, finished, work)
    return work


def test_the_fast_check_skips_what_an_all_to_all_edge_or_a_wholly_running_vertex_reaches() -> None:
    """FLIP-147, appendix 1: "first do a fast check for each job vertex"."""
    chain = ((0, 1, A2A), (1, 2, PW), (2, 3, PW), (3, 4, A2A))
    topology = graph(SIZE, SIZE, SIZE // 2, SIZE, SIZE, edges=chain)
    assert worked(topology, {}) == Work(vertices_skipped=4, subtasks_examined=0)
    assert worked(topology, {"0": [1, 2, 3]}) == Work(vertices_skipped=4, subtasks_examined=0)
    assert worked(topology, {"3": [1]}) == Work(vertices_skipped=4, subtasks_examined=0)


def test_finished_vertices_and_edges_from_them_cost_nothing() -> None:
    topology = graph(SIZE, SIZE // 2, SIZE, edges=((0, 2, A2A), (1, 2, PW)))
    finished = {"0": list(range(SIZE)), "1": list(range(SIZE // 2))}
    assert worked(topology, finished) == Work(vertices_skipped=2, subtasks_examined=0)


def test_pointwise_edges_between_vertices_of_one_size_are_followed_in_one_step() -> None:
    topology = graph(SIZE, SIZE, edges=((0, 1, PW),))
    assert worked(topology, {"0": [0]}) == Work(vertices_skipped=0, subtasks_examined=0)


@pytest.mark.parametrize("sizes", [(SIZE, 300), (300, SIZE)])
def test_pointwise_edges_between_vertices_of_unequal_size_take_a_step_for_each_of_the_smaller(
    sizes: tuple[int, int],
) -> None:
    topology = graph(*sizes, edges=((0, 1, PW),))
    assert worked(topology, {"0": [0]}) == Work(vertices_skipped=0, subtasks_examined=300)


@given(st.data())
def test_the_steps_grow_with_subtasks_and_edges_never_with_their_product(data: st.DataObject) -> None:
    """FLIP-147, appendix 1: "the overall time complexity would be O(n)"."""
    topology = data.draw(topologies())
    work = Work()
    calculate(topology, data.draw(subsets(topology)), after_tasks_finish=True, work=work)
    size = {vertex.uid: vertex.parallelism for vertex in topology.vertices}
    pointwise = [edge for edge in topology.edges if edge.kind is PW]
    assert work.subtasks_examined <= sum(min(size[edge.source], size[edge.target]) for edge in pointwise)
    assert work.vertices_skipped <= len(topology.vertices)


def test_ten_times_the_subtasks_are_ten_times_the_steps() -> None:
    def steps(size: int) -> int:
        topology = graph(3 * size, 2 * size, size, edges=((0, 1, PW), (1, 2, PW), (0, 2, PW)))
        return worked(topology, {"0": [0], "1": [0]}).subtasks_examined

    assert steps(1_000) == 10 * steps(100) == 100 * steps(10) > 0


def test_the_counter_counts_what_is_really_done() -> None:
    """Calls into the graph's code, generators resumed included, against the steps that the plan owns up to."""
    topology = graph(3_000, 2_000, 900, 2_500, edges=((0, 1, PW), (1, 2, PW), (2, 3, PW), (0, 3, PW)))
    finished = ended(topology, {uid: list(range(0, topology.vertex(uid).parallelism, 2)) for uid in "0123"})
    calls, work = 0, Work()

    def count(frame: FrameType, what: str, _: object) -> None:
        nonlocal calls
        calls += what == "call" and "rekindle" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        calculate(topology, finished, after_tasks_finish=True, work=work)
    finally:
        sys.setprofile(None)

    assert work.subtasks_examined == 2_000 + 900 + 900 + 2_500
    assert work.subtasks_examined <= calls <= 4 * work.subtasks_examined
