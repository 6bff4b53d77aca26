"""A driver and its queries, simulated: carries out the protocol's commands on a `World`, one small step at a time.

All of it is volatile: a crash is simply letting go of it. As in the real driver, one loop feeds the protocol; orders to
a task and the work on sinks continue beside it, each in a lane of its own, in order. Which lane moves next is chance.
What goes wrong is asked of `Faults`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing import simulated_checkpoints as checkpoints
from rekindle.testing import simulated_tasks as tasks
from rekindle.testing.simulated_parts import SimulatedParts, SimulatedQuery


@dataclass(slots=True)
class SimulatedDriver(SimulatedParts):
    """One run of the job."""

    def begin(self) -> None:
        """Read the storage and tell the protocol."""
        facts = replace(self.world.facts(self.now_ms), engine_failures=self.engine_failures)
        self.run = self.world.run
        self.used_upto = facts.next_checkpoint - 1
        self.last = {task: files.batch for task, files in self.world.tasks.items()}
        self.allowed = {task: {} for task in self.world.tasks}
        self.queries = {task: SimulatedQuery() for task in self.world.tasks}
        self.hear(facts)

    def hear(self, event: e.Event) -> None:
        """Give an event to the protocol."""
        self.world.note(self.run, event)
        if isinstance(event, e.CheckpointRequested | e.StopRequested | e.CancelRequested):
            self.unanswered[event.request] = event
        self.todo += self.job.handle(event)

    def moves(self) -> list[Callable[[], None]]:
        """Everything that it could do next."""
        moves: list[Callable[[], None]] = []
        if self.todo:
            moves += [self.carry_out] * 4
        else:
            moves += [partial(self.deliver, source) for source, events in self.inbox.items() if events]
        moves += [partial(self.advance, lane) for lane, work in self.lanes.items() if work]
        running = [task for task in self.queries if self.idle(task)]
        hurry = self.faults.chance.random() < 0.15
        moves += [partial(self.run_query, task) for task in running if hurry or not self.world.tasks[task].slow]
        return moves

    def carry_out(self) -> None:
        """Carry out, or hand to its lane, the next command."""
        command = self.todo.popleft()
        self.world.note(self.run, command)
        _CARRY_OUT[type(command)](self, command)

    def deliver(self, source: object) -> None:
        """Hear the next event of `source`. Facts about checkpoints may come twice, snapshots may get lost."""
        event = self.inbox[source].popleft()
        if source in ("checkpoint", "sinks", "savepoints", "control") and self.faults.strike(0.02):
            self.post("late", event)
        if isinstance(event, e.SnapshotTaken) and self.faults.strike(0.01):
            return
        self.hear(event)

    def advance(self, lane: object) -> None:
        """Do one step of the work on a lane."""
        work = self.lanes[lane]
        if next(work[0], self) is self:
            work.popleft()


_CARRY_OUT: dict[type[c.Command], Callable[[SimulatedParts, Any], None]] = {
    c.StartTask: lambda driver, command: tasks.order(driver, command, tasks.start),
    c.SuspendTask: lambda driver, command: tasks.order(driver, command, tasks.suspend),
    c.FinishTask: lambda driver, command: tasks.order(driver, command, tasks.finish),
    c.CloseTask: lambda driver, command: tasks.order(driver, command, tasks.close),
    c.KillTask: tasks.kill,
    c.TakeSnapshot: checkpoints.snapshot,
    c.WriteManifest: checkpoints.write_manifest,
    c.CommitTransactions: lambda driver, command: driver.on(
        "sinks", checkpoints.commit(driver, command.permit.checkpoint)
    ),
    c.SealSavepoint: lambda driver, command: driver.on("savepoints", checkpoints.seal(driver, command)),
    c.AbortCheckpoint: lambda driver, command: driver.aborted.add(command.checkpoint),
    c.AllowReading: tasks.allow,
    c.StopSources: lambda driver, command: driver.stopped.add(command.task),
    c.DiscardOlder: checkpoints.discard_older,
    c.RecordResult: checkpoints.result,
    c.AnswerRequest: checkpoints.answer,
    c.ReportFailure: lambda driver, command: None,
    c.FailOver: checkpoints.fail_over,
    c.Exit: checkpoints.leave,
}
"""Command → how it is carried out."""
