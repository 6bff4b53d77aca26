"""The subtasks that take part in a checkpoint (FLIP-147, "Triggering Checkpoints After Tasks Finished", appendix 1).

Theory of operation
-------------------

A barrier reaches a subtask from its producers. So a checkpoint has to be *triggered* at the roots of the part that
still runs: at each subtask that has not finished and whose producers have all finished. Each subtask that has not
finished is *waited for*, and ordered to commit. A plan is made in one step of the protocol, so no subtask finishes
meanwhile. A subtask that finishes between the plan and its trigger fails the checkpoint (`coordinator`).

To ask each subtask for each that feeds it would take quadratic time over ALL_TO_ALL edges. But there one producer that
runs decides for all consumers. So a vertex is first looked at as a whole, the *fast check*: none of it is a root if
some producer runs over an ALL_TO_ALL edge, or if all do over a POINTWISE one. What is left are POINTWISE edges from
vertices that have finished in part. They are followed for the whole vertex at once (`Topology.fed_by`), in at most as
many steps as their smaller side has subtasks, in one step where both sides have as many. All in all that is linear in
subtasks and edges between vertices; `Work` counts it.

This module does not know what a trigger is, when it is sent, or what becomes of a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Edge, EdgeKind, Topology
from rekindle.ids import SubtaskId
from rekindle.protocol.reasons import Reason
from rekindle.protocol.states import TaskStatus

Subtasks = Mapping[str, SubtaskSet]
"""Vertex uid → subtasks of it."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The subtasks of one checkpoint. Vertices with none in a role are left out of it."""

    #: the roots: not finished, and fed by finished subtasks only
    to_trigger: Subtasks
    #: subtasks that had finished before: recorded as such, without state
    finished: Subtasks
    #: subtasks that have not finished: all must acknowledge, and commit; empty for a checkpoint that is refused
    to_wait_for: Subtasks = field(default_factory=dict)

    @property
    def fully_finished(self) -> tuple[str, ...]:
        """The vertices all of whose subtasks had finished: stored as such, not started on a restore."""
        return tuple(uid for uid, subtasks in self.finished.items() if subtasks.is_full)


@dataclass(slots=True)
class Work:
    """The number of steps that a plan took: tests check with it that the fast paths are taken."""

    #: vertices of which no subtask was looked at: all had finished, or the fast check said that there is no root
    vertices_skipped: int = 0
    #: steps over single subtasks, in following POINTWISE edges between vertices of unequal parallelism
    subtasks_examined: int = 0


def calculate(
    topology: Topology,
    finished: Subtasks,
    running: Subtasks | None = None,
    *,
    after_tasks_finish: bool,
    work: Work | None = None,
) -> CheckpointPlan | Reason:
    """Return the plan of a checkpoint triggered now, or the reason why there can be none.

    Args:
        finished: subtasks that have finished; vertices without any may be left out.
        running: subtasks that run, and can be triggered and waited for; None: all that have not finished.
        after_tasks_finish: the feature flag; if False, a finished subtask is a reason to refuse.
        work: counter for the steps; None: they are not counted.

    Raises:
        ValueError: a set has another number of subtasks than its vertex.
    """
    everyone = {uid: SubtaskSet.every(topology.vertex(uid).parallelism) for uid in topology.order}
    left = {uid: everyone[uid] - finished[uid] if uid in finished else everyone[uid] for uid in topology.order}
    if not any(left.values()):
        return Reason.ALL_TASKS_FINISHED
    if any(finished.values()) and not after_tasks_finish:
        return Reason.TASKS_FINISHED_FEATURE_OFF
    if running is not None and any(
        left[uid] - running.get(uid, SubtaskSet.none(everyone[uid].parallelism)) for uid in topology.order
    ):
        return Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
    work = work or Work()
    return CheckpointPlan(
        to_trigger=_some({uid: _roots(topology, uid, left, work) for uid in topology.order}),
        finished=_some({uid: finished[uid] for uid in topology.order if uid in finished}),
        to_wait_for=_some(left),
    )


def plan_of(
    topology: Topology, statuses: Mapping[SubtaskId, TaskStatus], *, after_tasks_finish: bool
) -> CheckpointPlan | Reason:
    """Return the plan of a checkpoint for subtasks with these statuses, or the reason why there can be none."""

    def those(*wanted: TaskStatus) -> Subtasks:
        flags = {vertex.uid: bytearray(vertex.parallelism) for vertex in topology.vertices}
        for task, status in statuses.items():
            flags[task.task][task.subtask] = status in wanted
        return {uid: SubtaskSet(bytes(members)) for uid, members in flags.items()}

    finished, running = those(TaskStatus.CLOSED), those(TaskStatus.RUNNING, TaskStatus.WAITING)
    return calculate(topology, finished, running, after_tasks_finish=after_tasks_finish)


def named(subtasks: Subtasks) -> tuple[SubtaskId, ...]:
    """Return the ids of these subtasks."""
    return tuple(SubtaskId(uid, index) for uid, members in subtasks.items() for index in members)


def _roots(topology: Topology, uid: str, left: Subtasks, work: Work) -> SubtaskSet:
    """Return the subtasks of a vertex that have not finished and are fed by finished ones only."""
    roots = left[uid]
    inputs = [edge for edge in topology.inputs_of(uid) if left[edge.source]]
    if not roots or any(_reaches_all(edge, left[edge.source]) for edge in inputs):
        work.vertices_skipped += 1
        return SubtaskSet.none(roots.parallelism)
    for edge in inputs:
        producers = left[edge.source]
        if producers.parallelism != roots.parallelism:
            work.subtasks_examined += min(producers.parallelism, roots.parallelism)
        roots -= topology.fed_by(edge, producers)
    return roots


def _reaches_all(edge: Edge, producers: SubtaskSet) -> bool:
    """Return whether the running producers of an edge feed all consumers: the fast check."""
    return edge.kind is EdgeKind.ALL_TO_ALL or producers.is_full


def _some(subtasks: Subtasks) -> Subtasks:
    return {uid: members for uid, members in subtasks.items() if members}
