"""The changes of a job's graph that a checkpoint, or a resume in place, survives.

Theory of operation
-------------------

A finished subtask is not started again, so no row may reach it any more: a restore into a graph where a running subtask
feeds a finished one would lose rows. The checkpoint says of each operator how many of its subtasks had finished. By
that, a vertex of the new graph stands at `RUNNING`, `PARTIAL` or `FULL`; one that the checkpoint does not know has yet
to run. The rules are those of Flink's VertexFinishedStateChecker, checked vertex by vertex, each after those it reads
from:

====  =================================================================================================================
rule  refused
====  =================================================================================================================
`M`   operators chained in one vertex that stand at different places
`F`   a `FULL` vertex after one that is not
`A`   a `PARTIAL` vertex after one that is not `FULL`, over ALL_TO_ALL: each of its finished subtasks is fed
`P`   a `PARTIAL` vertex after one that is `RUNNING`, over POINTWISE: its finished subtasks may be fed
====  =================================================================================================================

Of several edges between two vertices an ALL_TO_ALL one decides. Over POINTWISE a `PARTIAL` vertex after a `PARTIAL`
one passes: it is what a checkpoint of an unchanged job looks like.

This module does not know where a checkpoint lies, or how a restore is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rekindle.errors import RestoreError
from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import EdgeKind, Topology


class FinishedState(Enum):
    """The finished state of an operator, or a vertex, in a checkpoint. The value is the wording in a message."""

    #: no subtask had finished, or the checkpoint does not know the operator
    RUNNING = "had not finished"
    #: some subtasks had finished
    PARTIAL = "had finished in part"
    FULL = "had finished"

    @classmethod
    def of(cls, finished: SubtaskSet | None) -> FinishedState:
        """Return the state by the subtasks that had finished; None: the checkpoint does not know the operator."""
        if not finished:
            return cls.RUNNING
        return cls.FULL if finished.is_full else cls.PARTIAL


class RestoreRule(Enum):
    """A rule that a restore can break: its letter, and the code of its error."""

    MIXED = ("M", "FINISHED_STATE_MIXED")
    FULL = ("F", "FINISHED_BEHIND_UNFINISHED")
    ALL_TO_ALL = ("A", "PARTLY_FINISHED_ALL_TO_ALL")
    POINTWISE = ("P", "PARTLY_FINISHED_POINTWISE")

    def __init__(self, letter: str, code: str) -> None:
        self.letter = letter
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a restore of a checkpoint into a graph breaks, and the vertex at fault."""

    rule: RestoreRule
    vertex: str
    #: the vertex before it that should have finished first; None for MIXED
    predecessor: str | None = None


_S, _E = FinishedState, EdgeKind

_REFUSED: dict[tuple[FinishedState, EdgeKind, FinishedState], RestoreRule] = {
    (_S.RUNNING, _E.ALL_TO_ALL, _S.FULL): RestoreRule.FULL,
    (_S.RUNNING, _E.POINTWISE, _S.FULL): RestoreRule.FULL,
    (_S.PARTIAL, _E.ALL_TO_ALL, _S.FULL): RestoreRule.FULL,
    (_S.PARTIAL, _E.POINTWISE, _S.FULL): RestoreRule.FULL,
    (_S.RUNNING, _E.ALL_TO_ALL, _S.PARTIAL): RestoreRule.ALL_TO_ALL,
    (_S.PARTIAL, _E.ALL_TO_ALL, _S.PARTIAL): RestoreRule.ALL_TO_ALL,
    (_S.RUNNING, _E.POINTWISE, _S.PARTIAL): RestoreRule.POINTWISE,
}
"""State of the predecessor, kind of edge, state of the vertex → the rule that they break; others are accepted."""


def first_violation(topology: Topology, finished: Mapping[str, SubtaskSet]) -> Violation | None:
    """Return the first rule that a restore into this graph breaks; None: it breaks none.

    Args:
        finished: operator uid → its subtasks that had finished in the checkpoint, out of as many as it then had. An
            operator that is missing here had no finished subtask.
    """
    for uid in topology.order:
        if len({FinishedState.of(finished.get(operator)) for operator in topology.vertex(uid).chain}) > 1:
            return Violation(rule=RestoreRule.MIXED, vertex=uid)
        state = _state(topology, uid, finished)
        for predecessor, kind in _predecessors(topology, uid).items():
            rule = _REFUSED.get((_state(topology, predecessor, finished), kind, state))
            if rule is not None:
                return Violation(rule=rule, vertex=uid, predecessor=predecessor)
    return None


def _state(topology: Topology, uid: str, finished: Mapping[str, SubtaskSet]) -> FinishedState:
    """Return the state of a vertex whose operators all have the same state."""
    return FinishedState.of(finished.get(topology.vertex(uid).chain[0]))


def _predecessors(topology: Topology, uid: str) -> dict[str, EdgeKind]:
    """Return the vertices that feed a vertex → the kind of edge; of several edges an ALL_TO_ALL one decides."""
    kinds: dict[str, EdgeKind] = {}
    for edge in topology.inputs_of(uid):
        if kinds.get(edge.source) is not EdgeKind.ALL_TO_ALL:
            kinds[edge.source] = edge.kind
    return kinds


def check_finished_state(topology: Topology, finished: Mapping[str, SubtaskSet], place: str) -> None:
    """Refuse a restore into a graph where a subtask that still runs would feed one that has finished.

    Args:
        finished: as for `first_violation`.
        place: the checkpoint, for the message.

    Raises:
        RestoreError: ``FINISHED_BEHIND_UNFINISHED``, ``PARTLY_FINISHED_ALL_TO_ALL``, ``PARTLY_FINISHED_POINTWISE``,
            ``FINISHED_STATE_MIXED``.
    """
    violation = first_violation(topology, finished)
    if violation is None:
        return
    code, task, predecessor = violation.rule.code, violation.vertex, violation.predecessor
    if predecessor is not None:
        state = _state(topology, predecessor, finished).value
        raise RestoreError(code, path=place, task=task, predecessor=predecessor, state=state)
    stood = (f"{one} {FinishedState.of(finished.get(one)).value}" for one in topology.vertex(task).chain)
    raise RestoreError(code, path=place, task=task, operators=", ".join(stood))


def check_drained(drained: bool, place: str, *, allow_drained: bool) -> None:
    """Refuse to continue a drained job unless the user allows it: its windows were emitted before their time.

    Raises:
        RestoreError: ``JOB_DRAINED``.
    """
    if drained and not allow_drained:
        raise RestoreError("JOB_DRAINED", path=place)
