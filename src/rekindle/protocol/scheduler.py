"""The scheduler: the orders to each task, and the time at which a failed task starts again.

Theory of operation
-------------------

A task's data ends when all its inputs have: the sources chained into it (`SourcesEnded`, or a stop that ends them at
once) and its channels, once their producers have ended and all of it was read (EndOfData is aligned). The worst
of these ends is its own (`Ended`): finished if all were finished, suspended as soon as one was. So an end passes
through the graph from the sources on, and no task has to hear of it (FLIP-147, "Final Checkpoint and Stopping Job
With Savepoint"). A plain stop whose checkpoint is unaligned does not wait for that: every task is held where it is, and
what lies in the channels is named by the checkpoint.

This module does not know checkpoints, requests, or how a job ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.barriers import Barriers
from rekindle.protocol.ending import Ended, Stop
from rekindle.protocol.states import ORDER_STEPS, TASK_STEPS, TaskStatus
from rekindle.protocol.tasks import Tasks

_MAY_END = (TaskStatus.STARTING, TaskStatus.RUNNING)


class Scheduler:
    """The orders to the tasks of a job."""

    def __init__(self, tasks: Tasks, barriers: Barriers) -> None:
        self._tasks, self._barriers = tasks, barriers
        #: tasks that wait for a restart, with some that wait no more
        self._restarting = set[SubtaskId]()

    def begin(self, stop: Stop | None) -> Iterator[c.Command]:
        """Yield the first order to each task that has not ended."""
        for task, state in self._tasks.states.items():
            if state.status is TaskStatus.STARTING:
                yield self.order(task, stop)

    def order(self, task: SubtaskId, stop: Stop | None) -> c.Command:
        """Order an open task to run, or to end if its inputs have ended or a stop requires it."""
        state = self._tasks.states[task]
        self._restarting.discard(task)
        state.restart_ms = state.ended = state.final_from = state.caught_up = None
        state.covered = False
        how = self._ending_of(task, stop)
        if how is not None:
            return self._end(task, how)
        return self._ordered(c.StartTask(task=task))

    def due(self, now_ms: int) -> list[SubtaskId]:
        """Return the tasks to look at: those that were touched, or whose restart is due, in the order of the graph."""
        for task in self._restarting:
            restart_ms = self._tasks.states[task].restart_ms
            if restart_ms is not None and restart_ms <= now_ms:
                self._tasks.states.touch(task)
        return self._tasks.states.take_touched()

    def orders(self, tasks: Iterable[SubtaskId], now_ms: int, stop: Stop | None) -> Iterator[c.Command]:
        """Order those of these tasks to end whose data has ended; repeat the orders to those whose restart is due."""
        for task in tasks:
            state = self._tasks.states[task]
            if state.status in _MAY_END:
                how = self._ending_of(task, stop)
                if how is not None:
                    yield self._end(task, how)
            elif state.restart_ms is not None and state.restart_ms <= now_ms:
                yield self.order(task, stop)

    def fail_over(self, at_ms: int) -> None:
        """Restart each running task from its batch records; a task that waits or is closed has nothing to start."""
        for task, state in self._tasks.states.items():
            after = TASK_STEPS[e.TaskFailed][state.status]
            if after is TaskStatus.RESTARTING and after is not state.status:
                self._tasks.states.become(task, after)
                self.restart(task, at_ms)

    def stop_sources(self, stop: Stop, now_ms: int) -> Iterator[c.Command]:
        """Yield the orders that begin a stop: sources end at once, channels are still read. Restarts become due."""
        self.hurry(now_ms)
        for task, state in self._tasks.states.items():
            open_sources = state.has_sources and not state.sources_ended
            if open_sources and state.status in _MAY_END and self._ending_of(task, stop) is None:
                yield c.StopSources(task=task)

    def hurry(self, now_ms: int) -> None:
        """Make all restarts that tasks wait for due at once."""
        for task, state in self._tasks.states.items():
            if state.status is TaskStatus.RESTARTING:
                self.restart(task, now_ms)

    def go_on(self) -> Iterator[c.Command]:
        """Let tasks run again that were held by a stop that is given up; tasks that had finished keep waiting."""
        for task, state in self._tasks.states.items():
            if state.ended is Ended.SUSPENDED:
                yield self.order(task, None)

    def restart(self, task: SubtaskId, at_ms: int) -> None:
        """Let a task that has failed be started again at this time."""
        self._tasks.states[task].restart_ms = at_ms
        self._restarting.add(task)

    def closable(self, tasks: Iterable[SubtaskId]) -> Iterator[c.Command]:
        """Close those of these tasks that may be closed, at the same time."""
        for task in tasks:
            state = self._tasks.states[task]
            if state.status is TaskStatus.WAITING and state.covered and self._tasks.is_acknowledged(task):
                yield self._ordered(c.CloseTask(task=task))

    def kill(self) -> Iterator[c.Command]:
        """Interrupt every task, in any status."""
        return (c.KillTask(task=task) for task in self._tasks.states)

    def kill_open(self) -> Iterator[c.Command]:
        """Interrupt the tasks that are not closed."""
        return (
            c.KillTask(task=task) for task, state in self._tasks.states.items() if state.status is not TaskStatus.CLOSED
        )

    def _end(self, task: SubtaskId, how: Ended) -> c.Command:
        if how is Ended.SUSPENDED:
            return self._ordered(c.SuspendTask(task=task))
        return self._ordered(c.FinishTask(task=task, drain=how is Ended.DRAINED))

    def _ordered(self, command: c.TaskCommand) -> c.TaskCommand:
        """Take the step that the table has for this order."""
        before = self._tasks.states[command.task].status
        self._tasks.states.become(command.task, ORDER_STEPS[type(command)][before])
        return command

    def _ending_of(self, task: SubtaskId, stop: Stop | None) -> Ended | None:
        """Return how a task has to end its data now; None while it continues."""
        held = Ended.SUSPENDED if stop is not None and stop.unaligned else None
        state, ends = self._tasks.states[task], list[Ended]()
        if state.has_sources:
            how = Ended.FINISHED if state.sources_ended else _end_by(stop)
            if how is None:
                return held
            ends.append(how)
        for channel in self._barriers.inputs(task):
            how = self._tasks.states[channel.producer].ended
            if how is None or not channel.is_read:
                return held  # the others need not be looked at
            ends.append(how)
        return max(ends, key=list(Ended).index)


def _end_by(stop: Stop | None) -> Ended | None:
    """Return how a stop ends a source that has not ended by itself; None: there is no stop."""
    if stop is None:
        return None
    return Ended.DRAINED if stop.drain else Ended.SUSPENDED
