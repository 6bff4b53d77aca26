"""The shape of a job: vertices with parallelism, and edges between them that say which subtask feeds which.

Theory of operation
-------------------

A *vertex* is a task with its chain of operators; a *subtask* is one of its parallel parts, named by its index. An
*edge* is a channel between two vertices. Over an ALL_TO_ALL edge every producer feeds every consumer. Over a POINTWISE
edge with S producers and T consumers each consumer has its own range of producers (S ≥ T), or each producer its own
range of consumers (S < T)::

    S ≥ T    consumer i has producers ⌊i·S/T⌋ … ⌊(i+1)·S/T⌋ - 1
    S < T    producer p has consumers ⌈p·T/S⌉ … ⌈(p+1)·T/S⌉ - 1

Both lines hold for both cases if a range that would be empty is taken to have one member, which is how it is computed
here. Nothing is kept for a single subtask: producers and consumers are computed. So the size of a topology does not
depend on the parallelism.

This module does not know what a task computes, which subtasks run, or what a checkpoint is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from rekindle.errors import DefinitionError
from rekindle.graph.subtask_set import SubtaskSet


class EdgeKind(Enum):
    """The way subtasks are connected over an edge: each with its own range, or all with all."""

    POINTWISE = "POINTWISE"
    ALL_TO_ALL = "ALL_TO_ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A task: its subtasks and its operators."""

    uid: str
    parallelism: int = 1
    #: uids of the operators chained within it, in the order of the data; they keep their identity if a chain is broken
    #: up. Empty: one operator, with the vertex's uid
    operators: tuple[str, ...] = ()

    @property
    def chain(self) -> tuple[str, ...]:
        """The operators of the vertex; at least one."""
        return self.operators or (self.uid,)


@dataclass(frozen=True, slots=True)
class Edge:
    """A channel between two vertices. There may be several between the same two."""

    source: str
    target: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Topology:
    """The vertices and edges of a job, checked when it is made.

    Raises:
        DefinitionError: ``UID_DUPLICATE`` (of vertices or of operators), ``PARALLELISM_INVALID``, ``EDGE_UNKNOWN``,
            ``TASKS_CYCLIC``.
    """

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...] = ()
    #: uids of the vertices, each after all those it reads from
    order: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _vertices: dict[str, Vertex] = field(init=False, repr=False, compare=False)
    _inputs: dict[str, tuple[Edge, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        vertices = {vertex.uid: vertex for vertex in self.vertices}
        self._check_vertices()
        inputs: dict[str, tuple[Edge, ...]] = dict.fromkeys(vertices, ())
        for edge in self.edges:
            for uid in (edge.source, edge.target):
                if uid not in vertices:
                    raise DefinitionError("EDGE_UNKNOWN", source=edge.source, target=edge.target, missing=uid)
            inputs[edge.target] += (edge,)
        object.__setattr__(self, "_vertices", vertices)
        object.__setattr__(self, "_inputs", inputs)
        object.__setattr__(self, "order", self._sorted())

    def _check_vertices(self) -> None:
        for kind, uids in {
            "vertices": [vertex.uid for vertex in self.vertices],
            "operators": [operator for vertex in self.vertices for operator in vertex.chain],
        }.items():
            uid, times = next(iter(Counter(uids).most_common(1)), ("", 0))
            if times > 1:
                raise DefinitionError("UID_DUPLICATE", uid=uid, items=f"two {kind}")
        for vertex in self.vertices:
            if not isinstance(vertex.parallelism, int) or vertex.parallelism < 1:
                raise DefinitionError("PARALLELISM_INVALID", task=vertex.uid, parallelism=vertex.parallelism)

    def _sorted(self) -> tuple[str, ...]:
        sorter = TopologicalSorter({uid: [edge.source for edge in edges] for uid, edges in self._inputs.items()})
        try:
            return tuple(sorter.static_order())
        except CycleError as error:
            raise DefinitionError("TASKS_CYCLIC", cycle=" → ".join(error.args[1])) from None

    def vertex(self, uid: str) -> Vertex:
        """Return the vertex named `uid`; KeyError if there is none."""
        return self._vertices[uid]

    def inputs_of(self, uid: str) -> tuple[Edge, ...]:
        """Return the edges that lead to a vertex, in the order of their definition."""
        return self._inputs[uid]

    def producers(self, edge: Edge, subtask: int) -> range:
        """Return the subtasks of the edge's source that feed `subtask` of its target (0 ≤ subtask < parallelism)."""
        sources, targets = self._sides(edge)
        if edge.kind is EdgeKind.ALL_TO_ALL:
            return range(sources)
        first = subtask * sources // targets
        return range(first, max(first + 1, (subtask + 1) * sources // targets))

    def consumers(self, edge: Edge, subtask: int) -> range:
        """Return the subtasks of the edge's target that `subtask` of its source feeds: the inverse of `producers`."""
        sources, targets = self._sides(edge)
        if edge.kind is EdgeKind.ALL_TO_ALL:
            return range(targets)
        end = _up(subtask + 1, targets, sources)
        return range(min(end - 1, _up(subtask, targets, sources)), end)

    def fed_by(self, edge: Edge, producers: SubtaskSet) -> SubtaskSet:
        """Return the subtasks of the edge's target that at least one of `producers` feeds.

        This is the union of `consumers` over the set, in at most as many steps as the smaller side has subtasks.
        """
        sources, targets = self._sides(edge)
        if edge.kind is EdgeKind.ALL_TO_ALL:
            return SubtaskSet.every(targets) if producers else SubtaskSet.none(targets)
        flags = producers.flags
        if sources > targets:
            ranges = pairwise(subtask * sources // targets for subtask in range(targets + 1))
            return SubtaskSet(bytes(1 in flags[first:end] for first, end in ranges))
        if sources < targets:
            ranges = pairwise(_up(subtask, targets, sources) for subtask in range(sources + 1))
            parts = (bytes((fed,)) * (end - first) for fed, (first, end) in zip(flags, ranges, strict=True))
            return SubtaskSet(b"".join(parts))
        return producers

    def _sides(self, edge: Edge) -> tuple[int, int]:
        return self._vertices[edge.source].parallelism, self._vertices[edge.target].parallelism


def _up(subtask: int, consumers: int, producers: int) -> int:
    """Return ⌈subtask · consumers / producers⌉."""
    return -(-subtask * consumers // producers)
