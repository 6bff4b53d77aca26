"""Who takes part in a checkpoint (FLIP-147, appendix 1).

Without channels every subtask is a root: whoever has not finished is triggered, waited for and committed to. Looked at
in one step of the protocol, so no status changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.ids import SubtaskId
from rekindle.protocol.reasons import Reason
from rekindle.protocol.states import TaskStatus

_TAKES_PART = (TaskStatus.RUNNING, TaskStatus.WAITING)


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The subtasks of one checkpoint."""

    #: not finished: triggered and waited for
    to_trigger: tuple[SubtaskId, ...]
    #: had finished before: recorded as such, without state
    finished: tuple[SubtaskId, ...]


def plan(statuses: Mapping[SubtaskId, TaskStatus], *, after_tasks_finish: bool) -> CheckpointPlan | Reason:
    """The plan of a checkpoint triggered now, or the reason why none can be."""
    finished = tuple(task for task, status in statuses.items() if status is TaskStatus.CLOSED)
    open_tasks = tuple(task for task, status in statuses.items() if status is not TaskStatus.CLOSED)
    if not open_tasks:
        return Reason.ALL_TASKS_FINISHED
    if finished and not after_tasks_finish:
        return Reason.TASKS_FINISHED_FEATURE_OFF
    if any(statuses[task] not in _TAKES_PART for task in open_tasks):
        return Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
    return CheckpointPlan(open_tasks, finished)
