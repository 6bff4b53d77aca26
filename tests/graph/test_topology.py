"""The shape of a job: what is a valid one, and who feeds whom."""

from __future__ import annotations

import sys
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import DefinitionError
from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Edge, Topology, Vertex
from tests.graph.kit import A2A, KINDS, PW, graph, subsets, topologies

SIZES = st.integers(1, 40)


def refusal(vertices: list[Vertex], *edges: Edge) -> DefinitionError:
    with pytest.raises(DefinitionError) as raised:
        Topology(tuple(vertices), edges)
    assert raised.value.next_step
    return raised.value


# --- what is a topology -----------------------------------------------------------------------------------------------


def test_vertices_and_edges_are_found_by_uid() -> None:
    topology = graph(1, 2, 3, edges=((0, 2, A2A), (1, 2, PW), (0, 2, PW)))
    assert topology.vertex("1") == Vertex(uid="1", parallelism=2)
    assert topology.inputs_of("2") == topology.edges
    assert topology.inputs_of("0") == ()
    with pytest.raises(KeyError):
        topology.vertex("3")


def test_a_topology_without_vertices_is_one() -> None:
    assert Topology(()).order == ()


def test_topologies_of_the_same_parts_are_equal() -> None:
    assert graph(1, 2, edges=((0, 1, PW),)) == graph(1, 2, edges=((0, 1, PW),))
    assert graph(1, 2, edges=((0, 1, PW),)) != graph(1, 2, edges=((0, 1, A2A),))


@given(topologies())
def test_each_vertex_comes_once_and_behind_those_it_reads_from(topology: Topology) -> None:
    assert sorted(topology.order) == sorted(vertex.uid for vertex in topology.vertices)
    for edge in topology.edges:
        assert topology.order.index(edge.source) < topology.order.index(edge.target)


def test_a_vertex_without_operators_is_a_chain_of_itself() -> None:
    assert Vertex(uid="a").chain == ("a",)
    assert Vertex(uid="a", operators=("x", "y")).chain == ("x", "y")


def test_two_vertices_of_one_uid_are_refused() -> None:
    error = refusal([Vertex(uid="a"), Vertex(uid="b"), Vertex(uid="a")])
    assert (error.code, error.parameters) == ("UID_DUPLICATE", {"uid": "a", "items": "two vertices"})


def test_an_operator_is_in_one_chain_only() -> None:
    error = refusal([Vertex(uid="a", operators=("x", "y")), Vertex(uid="b", operators=("y",))])
    assert (error.code, error.parameters) == ("UID_DUPLICATE", {"uid": "y", "items": "two operators"})


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, "2"])
def test_a_vertex_has_a_whole_number_of_subtasks_and_at_least_one(parallelism: int) -> None:
    error = refusal([Vertex(uid="a", parallelism=parallelism)])
    assert error.code == "PARALLELISM_INVALID"
    assert f"'a' asks for parallelism {parallelism}" in error.message


@pytest.mark.parametrize("edge", [Edge("a", "x", PW), Edge("x", "a", PW)])
def test_an_edge_to_or_from_nowhere_is_refused(edge: Edge) -> None:
    error = refusal([Vertex(uid="a")], edge)
    assert error.code == "EDGE_UNKNOWN"
    assert "there is no task 'x'" in error.message


def test_a_circle_is_refused_and_named() -> None:
    vertices = [Vertex(uid=uid) for uid in "abcd"]
    error = refusal(vertices, Edge("a", "b", PW), Edge("b", "c", PW), Edge("c", "b", A2A), Edge("c", "d", PW))
    assert error.code == "TASKS_CYCLIC"
    assert error.parameters["cycle"] in ("b → c → b", "c → b → c")


def test_a_vertex_that_reads_itself_is_a_circle() -> None:
    assert refusal([Vertex(uid="a")], Edge("a", "a", PW)).parameters["cycle"] == "a → a"


# --- who feeds whom ---------------------------------------------------------------------------------------------------


@given(SIZES, SIZES)
def test_pointwise_ranges_are_those_of_flink(producers: int, consumers: int) -> None:
    topology = graph(producers, consumers, edges=((0, 1, PW),))
    edge, s, t = topology.edges[0], producers, consumers
    if s >= t:
        for i in range(t):
            assert topology.producers(edge, i) == range(floor(i * s / t), floor((i + 1) * s / t))
    else:
        for p in range(s):
            assert topology.consumers(edge, p) == range(ceil(p * t / s), ceil((p + 1) * t / s))


@given(SIZES, SIZES, KINDS)
def test_producers_and_consumers_are_inverse_to_each_other(producers: int, consumers: int, kind: object) -> None:
    topology = graph(producers, consumers, edges=((0, 1, kind),))  # type: ignore[arg-type]
    edge = topology.edges[0]
    down = {(p, c) for p in range(producers) for c in topology.consumers(edge, p)}
    up = {(p, c) for c in range(consumers) for p in topology.producers(edge, c)}
    assert down == up
    assert {p for p, _ in down} == set(range(producers)), "somebody feeds nobody"
    assert {c for _, c in down} == set(range(consumers)), "somebody is fed by nobody"


@given(SIZES, SIZES)
def test_over_pointwise_edges_the_larger_side_has_one_partner_each(producers: int, consumers: int) -> None:
    topology = graph(producers, consumers, edges=((0, 1, PW),))
    edge = topology.edges[0]
    one = topology.consumers if producers >= consumers else topology.producers
    assert all(len(one(edge, subtask)) == 1 for subtask in range(max(producers, consumers)))


@given(st.data())
def test_a_set_of_producers_feeds_the_union_of_what_each_of_them_feeds(data: st.DataObject) -> None:
    topology = graph(data.draw(SIZES), data.draw(SIZES), edges=((0, 1, data.draw(KINDS)),))
    edge = topology.edges[0]
    producers = data.draw(subsets(topology)).get("0", SubtaskSet.none(topology.vertex("0").parallelism))
    union = {consumer for producer in producers for consumer in topology.consumers(edge, producer)}
    assert topology.fed_by(edge, producers) == SubtaskSet.of(topology.vertex("1").parallelism, union)


@pytest.mark.parametrize(("consumers", "fed"), [(2, {1}), (3, {1}), (4, {2}), (6, {2, 3}), (7, {3, 4})])
def test_the_second_of_three_producers_feeds_some_of_few_and_of_many(consumers: int, fed: set[int]) -> None:
    topology = graph(3, consumers, edges=((0, 1, PW),))
    found = topology.fed_by(topology.edges[0], SubtaskSet.of(3, {1}))
    assert set(found) == set(topology.consumers(topology.edges[0], 1)) == fed


def test_one_producer_feeds_every_subtask_over_an_edge_of_all_to_all_and_none_feeds_none() -> None:
    topology = graph(3, 2, edges=((0, 1, A2A),))
    assert topology.fed_by(topology.edges[0], SubtaskSet.of(3, {1})) == SubtaskSet.every(2)
    assert topology.fed_by(topology.edges[0], SubtaskSet.none(3)) == SubtaskSet.none(2)


def test_nothing_is_kept_for_a_single_subtask() -> None:
    """A graph of a million million subtasks is as small as its drawing, and who feeds whom is arithmetic."""
    topology = graph(10**12, 3 * 10**12, edges=((0, 1, PW),))
    edge = topology.edges[0]
    assert topology.consumers(edge, 10**11) == range(3 * 10**11, 3 * 10**11 + 3)
    assert topology.producers(edge, 3 * 10**12 - 1) == range(10**12 - 1, 10**12)
    assert sum(map(sys.getsizeof, (topology, topology.order))) < 1_000
