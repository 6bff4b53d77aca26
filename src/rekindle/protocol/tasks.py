"""The tasks of a job: the status of each, how its data has ended, and the checkpoint that covers that.

Theory of operation
-------------------

A task that has ended its data waits. It may be closed when a checkpoint is complete whose snapshot of it was taken
after its end (any one; FLIP-147: 42, 43, 44) and when its consumers have read all that it wrote, so that barriers can
still be put after that. Before it ends, it has read all its channels, with every barrier in them: a task that waits has
no snapshot still to take, only answers that are on their way.

The orders to a task are in `scheduler`. This module does not know checkpoints beyond their numbers, requests, or
how a job ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.barriers import Barriers
from rekindle.protocol.ending import Ended, TaskState
from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import TASK_STEPS, TaskStatus
from rekindle.protocol.subtask_states import SubtaskStates


class Tasks:
    """Every subtask of a job."""

    def __init__(self, graph: JobGraph, barriers: Barriers, config: Config) -> None:
        self._barriers = barriers
        with_sources = {task.uid for task in graph.tasks if graph.sources_of(task)}
        with_sinks = {sink.task for sink in graph.sinks}
        states = {
            subtask: TaskState(
                status=TaskStatus.STARTING,
                has_sources=subtask.task in with_sources,
                has_sinks=subtask.task in with_sinks,
                restarts=Restarts(config),
            )
            for subtask in graph.subtasks()
        }
        self.states = SubtaskStates(states, barriers)

    def step(self, event: e.TaskEvent) -> TaskState:
        """Move a task to the status that the table has for this event; return its state."""
        state = self.states[event.task]
        self.states.become(event.task, TASK_STEPS[type(event)][state.status])
        return state

    def failed(self, event: e.TaskFailed) -> TaskState:
        """Move a task that has failed to its status; return its state. What it had recorded is no progress any more."""
        state = self.step(event)
        state.progress_after = max(state.progress_after, self._barriers.batches[event.task])
        state.caught_up = None
        return state

    def ended(self, event: e.TaskSuspended | e.TaskFinished, how: Ended) -> bool:
        """Note that a task has ended its data. Return False if it had before: the first time counts."""
        before = self.states[event.task].status
        state = self.step(event)
        if state.status is not TaskStatus.WAITING or before is TaskStatus.WAITING:
            return False
        state.end(how)
        return True

    def ends(self) -> set[Ended | None]:
        """Return the ways in which the subtasks have ended their data; None in it: some have not."""
        return {state.ended for state in self.states.values()}

    def sources_ended(self, task: SubtaskId) -> None:
        """Note that everything of a task's sources is in a batch record."""
        self.states[task].sources_ended = True

    def have_caught_up(self) -> bool:
        """Return True if no task has anything left to do with what was there, and some sources have no end.

        The word of a task counts once its producers have caught up and it had read all that they had written by then.
        """
        states = self.states.values()
        has_endless = any(one.has_sources and not one.sources_ended and one.ended is None for one in states)
        return has_endless and all(map(self._has_caught_up, self.states))

    def _has_caught_up(self, task: SubtaskId) -> bool:
        state = self.states[task]
        if state.ended is not None:
            return True
        at, producers = state.caught_up, (channel.producer for channel in self._barriers.inputs(task))
        return at is not None and all(at.read.get(one, 0) > self._last_to_read(one) for one in producers)

    def _last_to_read(self, producer: SubtaskId) -> int:
        """Return the batch of a task that its consumers have to read: its last, or that with which it caught up."""
        at = self.states[producer].caught_up
        return self._barriers.batches[producer] if at is None else at.batch

    # -- starting -----------------------------------------------------------------------------------------------------

    def restore(self, task: SubtaskId, fact: e.RestoredTask) -> None:
        """Take in the state of a subtask in the storage; `settle_restored` follows when all are taken in."""
        state = self.states[task]
        state.progress_after = fact.batch
        if fact.closed or fact.ended:
            self.states.become(task, TaskStatus.WAITING)
            state.covered = fact.closed
            state.ended = Ended.DRAINED if fact.drained else Ended.FINISHED

    def settle_restored(self) -> None:
        """Close the subtasks that had finished, as a checkpoint says, and were read to their end."""
        for task, state in self.states.items():
            if state.covered and self.is_acknowledged(task):
                self.states.become(task, TaskStatus.CLOSED)
        for task, state in self.states.items():
            if state.status is TaskStatus.CLOSED:
                self._barriers.closed(task)

    # -- ending -------------------------------------------------------------------------------------------------------

    def snapshots(self, task: SubtaskId, checkpoint: int) -> None:
        """Note that a snapshot was ordered: a task that has ended waits for the first one after its end."""
        state = self.states[task]
        if state.status is TaskStatus.WAITING and state.final_from is None:
            state.final_from = checkpoint

    def completed(self, checkpoint: int, batches: Mapping[SubtaskId, int]) -> bool:
        """Note that a checkpoint is complete and committed. Return True if any task has made progress.

        A task whose end it covers waits for no other checkpoint. A task with new batches in it has made progress: its
        failures are no longer in a row. A checkpoint of batches from before its last failure proves nothing: the next
        batch may fail again.
        """
        for state in self.states.values():
            if state.final_from is not None and state.final_from <= checkpoint:
                state.covered = True
        got_on = {task: batch for task, batch in batches.items() if batch > self.states[task].progress_after}
        for task, batch in got_on.items():
            self.states[task].progress_after = batch
            self.states[task].restarts.progressed()
        return bool(got_on)

    def is_acknowledged(self, task: SubtaskId) -> bool:
        """Return whether the consumers of a task need no more of it.

        They have read all, or are held by a stop whose checkpoint names the data that they have not read.
        """
        consumers = ((channel, self.states[channel.consumer]) for channel in self._barriers.outputs(task))
        return all(
            channel.is_read or (state.ended is Ended.SUSPENDED and state.covered) for channel, state in consumers
        )
