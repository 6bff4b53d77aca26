"""Checkpoint plans: whom a checkpoint triggers when some subtasks have finished.

A case has ``vertices``: ``[parallelism, [finished subtasks]]`` each, ``edges``: ``[source, target, "A2A" or "PW"]`` by
index, and says what it expects: ``trigger``, vertex → subtasks, and ``fullyFinished``, a list of vertices. A refused
plan triggers no task; where a case names a ``reason``, it has to be the refusal's.
"""

from __future__ import annotations

from typing import Any

from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Edge, EdgeKind, Topology, Vertex
from rekindle.protocol.checkpoint_plan import CheckpointPlan, calculate

EDGE_KINDS = {"A2A": EdgeKind.ALL_TO_ALL, "PW": EdgeKind.POINTWISE}
"""An edge as cases write it."""


def check(case: dict[str, Any]) -> tuple[bool, object]:
    """Plan the case's graph. ``feature: false`` switches checkpoints after tasks have finished off."""
    topology = Topology(
        tuple(Vertex(uid=str(index), parallelism=size) for index, (size, _) in enumerate(case["vertices"])),
        tuple(Edge(str(source), str(target), EDGE_KINDS[kind]) for source, target, kind in case["edges"]),
    )
    finished = {str(index): SubtaskSet.of(size, ended) for index, (size, ended) in enumerate(case["vertices"])}
    planned = calculate(topology, finished, after_tasks_finish=case.get("feature", True))
    actual: dict[str, Any]
    if isinstance(planned, CheckpointPlan):
        actual = {
            "trigger": {uid: list(subtasks) for uid, subtasks in planned.to_trigger.items()},
            "fullyFinished": [int(uid) for uid in sorted(planned.fully_finished, key=int)],
        }
        rest = {uid: ~subtasks for uid, subtasks in finished.items() if not subtasks.is_full}
        whole = planned.to_wait_for == rest
    else:
        actual = {"trigger": {}, "fullyFinished": [int(uid) for uid, ended in finished.items() if ended.is_full]}
        if "reason" in case:
            actual["reason"] = planned.name
        whole = True
    expected = {key: case[key] for key in actual if key in case}
    return whole and bool(expected) and {**actual, **expected} == actual, actual
