"""The tasks of a job: what each is to do now, when its data has ended, when it may be closed.

Theory of operation
-------------------

A task's data ends when all its inputs have: the sources chained into it (`SourcesEnded`, or a stop that ends them where
they stand) and its channels, once their producers have ended and all of it was read (EndOfData is aligned). The worst
of these ends is its own (`Ended`): finished if all were finished, suspended as soon as one was. So an end passes
through the graph from the sources on, and no task has to hear of it (FLIP-147, "Final Checkpoint and Stopping Job
With Savepoint"). A plain stop whose checkpoint is unaligned does not wait for that: every task is held where it is, and
what lies in the channels is named by the checkpoint.

A task that has ended waits. It is closed when a checkpoint is complete whose snapshot of it was taken after its end
(any one will do; FLIP-147: 42, 43, 44) and when its consumers have read all that it wrote, so that barriers can still
be put after that. To end it has read all its channels, and with them every barrier in them: a task that waits has no
snapshot still to take, only answers that are on their way.

This module does not know checkpoints beyond their numbers, requests, or how a job ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.barriers import Barriers
from rekindle.protocol.ending import Ended, Stop, TaskState
from rekindle.protocol.restarts import Restarts
from rekindle.protocol.states import ORDER_STEPS, TASK_STEPS, TaskStatus

_MAY_END = (TaskStatus.STARTING, TaskStatus.RUNNING)


class Tasks:
    """Every subtask of a job."""

    def __init__(self, graph: JobGraph, barriers: Barriers, config: Config) -> None:
        self._barriers = barriers
        has_sources = {task.uid: bool(graph.sources_of(task)) for task in graph.tasks}
        self.states = {
            task: TaskState(status=TaskStatus.STARTING, has_sources=has_sources[task.task], restarts=Restarts(config))
            for task in graph.subtasks()
        }

    def step(self, event: e.TaskEvent) -> TaskState:
        """Take the step that the table has for this event."""
        state = self.states[event.task]
        state.status = TASK_STEPS[type(event)][state.status]
        return state

    def ended(self, event: e.TaskSuspended | e.TaskFinished, how: Ended) -> bool:
        """Take in that a task has ended its data. Return False where it had before: what it did first counts."""
        before = self.states[event.task].status
        state = self.step(event)
        if state.status is not TaskStatus.WAITING or before is TaskStatus.WAITING:
            return False
        state.end(how)
        return True

    def restart(self, task: SubtaskId, at_ms: int) -> None:
        """Let a task that has failed be started again at this time."""
        self.states[task].restart_ms = at_ms

    def statuses(self) -> dict[SubtaskId, TaskStatus]:
        """Where each stands."""
        return {task: state.status for task, state in self.states.items()}

    def ends(self) -> set[Ended | None]:
        """Return how they have ended their data."""
        return {state.ended for state in self.states.values()}

    def sources_ended(self, task: SubtaskId) -> None:
        """Note that everything of a task's sources is in a batch record."""
        self.states[task].sources_ended = True

    def kill(self) -> Iterator[c.Command]:
        """Interrupt every one, whatever it does."""
        return (c.KillTask(task=task) for task in self.states)

    def kill_open(self) -> Iterator[c.Command]:
        """Interrupt those that are not closed."""
        return (c.KillTask(task=task) for task, state in self.states.items() if state.status is not TaskStatus.CLOSED)

    # -- starting -----------------------------------------------------------------------------------------------------

    def restore(self, task: SubtaskId, fact: e.RestoredTask) -> None:
        """Take in what the storage says of a task; `settle_restored` follows when all are taken in."""
        state = self.states[task]
        if fact.closed or fact.ended:
            state.status, state.covered = TaskStatus.WAITING, fact.closed
            state.ended = Ended.DRAINED if fact.drained else Ended.FINISHED

    def settle_restored(self) -> None:
        """Who had finished, is known to have by a checkpoint, and was read to its end, is closed: it is not started."""
        for task, state in self.states.items():
            if state.covered and self._acknowledged(task):
                state.status = TaskStatus.CLOSED
        for task, state in self.states.items():
            if state.status is TaskStatus.CLOSED:
                self._barriers.closed(task)

    # -- what to do now -----------------------------------------------------------------------------------------------

    def begin(self, stop: Stop | None) -> Iterator[c.Command]:
        """The first order to each that is not over."""
        for task, state in self.states.items():
            if state.status is TaskStatus.STARTING:
                yield self.order(task, stop)

    def order(self, task: SubtaskId, stop: Stop | None) -> c.Command:
        """Let an open task run, or end as it must."""
        state = self.states[task]
        state.restart_ms = state.ended = state.final_from = None
        state.covered = False
        how = self._ending_of(task, stop)
        if how is not None:
            return self._end(task, how)
        return self._ordered(c.StartTask(task=task))

    def orders(self, now_ms: int, stop: Stop | None) -> Iterator[c.Command]:
        """Order tasks whose data has ended to end, and repeat the orders to those whose restart is due."""
        for task, state in self.states.items():
            if state.status in _MAY_END:
                how = self._ending_of(task, stop)
                if how is not None:
                    yield self._end(task, how)
            elif state.restart_ms is not None and state.restart_ms <= now_ms:
                yield self.order(task, stop)

    def fail_over(self, at_ms: int) -> None:
        """Have each that is at work start again, from its records. Who waits or is closed has nothing to start."""
        for state in self.states.values():
            after = TASK_STEPS[e.TaskFailed][state.status]
            if after is TaskStatus.RESTARTING and after is not state.status:
                state.status, state.restart_ms = after, at_ms

    def stop_sources(self, stop: Stop, now_ms: int) -> Iterator[c.Command]:
        """A stop begins: sources end where they stand, channels are read on. No task waits for a restart any more."""
        self.hurry(now_ms)
        for task, state in self.states.items():
            open_sources = state.has_sources and not state.sources_ended
            if open_sources and state.status in _MAY_END and self._ending_of(task, stop) is None:
                yield c.StopSources(task=task)

    def hurry(self, now_ms: int) -> None:
        """Let no task wait for its restart any more."""
        for state in self.states.values():
            if state.status is TaskStatus.RESTARTING:
                state.restart_ms = now_ms

    def go_on(self) -> Iterator[c.Command]:
        """A stop was given up: tasks that it held run again. Those that had finished by themselves keep waiting."""
        for task, state in self.states.items():
            if state.ended is Ended.SUSPENDED:
                yield self.order(task, None)

    def _end(self, task: SubtaskId, how: Ended) -> c.Command:
        if how is Ended.SUSPENDED:
            return self._ordered(c.SuspendTask(task=task))
        return self._ordered(c.FinishTask(task=task, drain=how is Ended.DRAINED))

    def _ordered(self, command: c.TaskCommand) -> c.TaskCommand:
        """Take the step that the table has for this order."""
        state = self.states[command.task]
        state.status = ORDER_STEPS[type(command)][state.status]
        return command

    def _ending_of(self, task: SubtaskId, stop: Stop | None) -> Ended | None:
        """Return how a task has to end its data now; None while it continues."""
        state = self.states[task]
        ends = set[Ended | None]()
        if state.has_sources:
            ends.add(Ended.FINISHED if state.sources_ended else _end_by(stop))
        for producer in self._barriers.producers(task):
            read = self._barriers.has_read(task, producer)
            ends.add(self.states[producer].ended if read else None)
        if None not in ends:
            return max((how for how in ends if how is not None), key=list(Ended).index)
        return Ended.SUSPENDED if stop is not None and stop.unaligned else None

    # -- ending -------------------------------------------------------------------------------------------------------

    def snapshots(self, task: SubtaskId, checkpoint: int) -> None:
        """A snapshot was ordered: the first one after a task's end is the one it waits for."""
        state = self.states[task]
        if state.status is TaskStatus.WAITING and state.final_from is None:
            state.final_from = checkpoint

    def completed(self, checkpoint: int, batches: Mapping[SubtaskId, int]) -> bool:
        """A checkpoint is complete and committed: whose end it has seen need not wait for another, and who has got on
        since the last one has not failed in a row. (One after the same batch says nothing of a task that fails in the
        next.) Return True if any has got on."""
        for state in self.states.values():
            if state.final_from is not None and state.final_from <= checkpoint:
                state.covered = True
        got_on = {task: batch for task, batch in batches.items() if batch > self.states[task].checkpointed}
        for task, batch in got_on.items():
            self.states[task].checkpointed = batch
            self.states[task].restarts.progressed()
        return bool(got_on)

    def closable(self) -> Iterator[c.Command]:
        """Close all tasks that may be closed, at the same time."""
        for task, state in self.states.items():
            if state.status is TaskStatus.WAITING and state.covered and self._acknowledged(task):
                yield self._ordered(c.CloseTask(task=task))

    def _acknowledged(self, task: SubtaskId) -> bool:
        """Whether its consumers need nothing more of it: they have read all, or the job ends with a checkpoint that
        names what they have not."""
        consumers = ((consumer, self.states[consumer]) for consumer in self._barriers.consumers(task))
        return all(
            self._barriers.has_read(consumer, task) or (state.ended is Ended.SUSPENDED and state.covered)
            for consumer, state in consumers
        )


def _end_by(stop: Stop | None) -> Ended | None:
    """How a stop ends a source that has not ended by itself."""
    if stop is None:
        return None
    return Ended.DRAINED if stop.drain else Ended.SUSPENDED
