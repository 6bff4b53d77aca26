"""Restore checks: which finished states a checkpoint may have for a graph.

A case has the states ``v1`` and ``v2`` of two vertices v1 → v2, ``RUNNING``, ``PARTIAL`` (some subtasks had finished)
or ``FULL``, the kinds of the ``edges`` between them, and says what it expects: ``verdict``, ``accept`` or ``reject``,
and the letter of the ``rule`` that is broken, or null.
"""

from __future__ import annotations

from typing import Any

from rekindle.graph.compatibility import first_violation
from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Edge, Topology, Vertex
from rekindle.testing.cases.plan import EDGE_KINDS

_FINISHED = {"RUNNING": SubtaskSet.none(2), "PARTIAL": SubtaskSet.of(2, [0]), "FULL": SubtaskSet.every(2)}


def check(case: dict[str, Any]) -> tuple[bool, object]:
    """Check the case's checkpoint against its graph."""
    topology = Topology(
        (Vertex(uid="v1", parallelism=2), Vertex(uid="v2", parallelism=2)),
        tuple(Edge("v1", "v2", EDGE_KINDS[kind]) for kind in case["edges"]),
    )
    violation = first_violation(topology, {uid: _FINISHED[case[uid]] for uid in ("v1", "v2")})
    actual = {
        "verdict": "accept" if violation is None else "reject",
        "rule": None if violation is None else violation.rule.letter,
    }
    return all(case[key] == value for key, value in actual.items()), actual
