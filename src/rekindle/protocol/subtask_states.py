"""The state of each subtask, and which subtasks to look at.

To find what follows from an event, the rules look only at the subtasks that it has *touched*: its own, and those that
write to it or read it. An event that is about no subtask, except one that only brings time, touches all of them, and so
does a checkpoint that settles. So an event takes as long in a job of ten thousand subtasks as in one of ten.

This module does not know what follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rekindle.ids import SubtaskId
from rekindle.protocol.barriers import Barriers
from rekindle.protocol.ending import TaskState
from rekindle.protocol.states import TaskStatus


class SubtaskStates(dict[SubtaskId, TaskState]):
    """A dict: subtask → its state, in the order of the graph. Its subtasks stay the same."""

    def __init__(self, states: Mapping[SubtaskId, TaskState], barriers: Barriers) -> None:
        super().__init__(states)
        self._barriers = barriers
        self._order = {task: number for number, task in enumerate(states)}
        self._held = Counter(state.status for state in states.values())
        self._touched = set[SubtaskId]()

    def become(self, task: SubtaskId, status: TaskStatus) -> None:
        """Move a subtask to another status."""
        state = self[task]
        self._held[state.status] -= 1
        self._held[status] += 1
        state.status = status
        self._touched.add(task)

    def statuses(self) -> dict[SubtaskId, TaskStatus]:
        """Return the status of each subtask."""
        return {task: state.status for task, state in self.items()}

    def held(self) -> set[TaskStatus]:
        """Return every status that some subtask has."""
        return {status for status, subtasks in self._held.items() if subtasks}

    def touch(self, task: SubtaskId) -> None:
        """Note that something has happened to a subtask: orders may follow for it and for its neighbours."""
        self._touched.add(task)
        self._touched.update(channel.producer for channel in self._barriers.inputs(task))
        self._touched.update(channel.consumer for channel in self._barriers.outputs(task))

    def touch_all(self) -> None:
        """Note that something has happened from which orders for any subtask may follow."""
        self._touched.update(self)

    def take_touched(self) -> list[SubtaskId]:
        """Return the subtasks that were touched since the last call, in the order of the graph."""
        touched, self._touched = self._touched, set()
        return sorted(touched, key=self._order.__getitem__)
