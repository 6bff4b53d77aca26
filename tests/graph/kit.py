"""Random topologies, for tests of what is decided about them."""

from __future__ import annotations

from hypothesis import strategies as st

from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Edge, EdgeKind, Topology, Vertex

A2A, PW = EdgeKind.ALL_TO_ALL, EdgeKind.POINTWISE
KINDS = st.sampled_from([A2A, PW])


def graph(*parallelism: int, edges: tuple[tuple[int, int, EdgeKind], ...] = ()) -> Topology:
    """Vertices "0", "1", … of the given parallelism."""
    return Topology(
        tuple(Vertex(uid=str(index), parallelism=size) for index, size in enumerate(parallelism)),
        tuple(Edge(str(source), str(target), kind) for source, target, kind in edges),
    )


@st.composite
def topologies(draw: st.DrawFn, most: int = 6) -> Topology:
    """Up to `most` vertices without a circle, named so that their order is not the alphabet's."""
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=most))
    names = draw(st.permutations([chr(ord("a") + index) for index in range(len(sizes))]))
    pairs = [(source, target) for target in range(len(sizes)) for source in range(target)]
    edges = draw(st.lists(st.tuples(st.sampled_from(pairs), KINDS), max_size=9)) if pairs else []
    vertices = [Vertex(uid=name, parallelism=size) for name, size in zip(names, sizes, strict=True)]
    return Topology(
        tuple(draw(st.permutations(vertices))),
        tuple(Edge(names[source], names[target], kind) for (source, target), kind in edges),
    )


@st.composite
def subsets(draw: st.DrawFn, topology: Topology) -> dict[str, SubtaskSet]:
    """Some subtasks of some vertices; often none or all of one."""
    chosen = {}
    for vertex in topology.vertices:
        size = vertex.parallelism
        some = st.lists(st.integers(0, 1), min_size=size, max_size=size).map(lambda flags: SubtaskSet(bytes(flags)))
        drawn = draw(st.one_of(some, st.sampled_from([SubtaskSet.none(size), SubtaskSet.every(size)]), st.none()))
        if drawn is not None:
            chosen[vertex.uid] = drawn
    return chosen
