"""A driver and its queries, simulated: carries out the protocol's commands on a `World`, one small step at a time.

All of it is volatile: a crash is simply letting go of it. As in the real driver, one loop feeds the protocol; orders to
a task and the work on sinks continue beside it, each in a lane of its own, in order. Which lane moves next is chance.
What goes wrong is asked of `Faults`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.testing import simulated_checkpoints, simulated_tasks
from rekindle.testing.simulated_engine import SimulatedEngine
from rekindle.testing.simulated_run import Lanes, SimulatedRun
from rekindle.testing.simulated_start import begin_run
from rekindle.testing.simulated_subtask import SimulatedSubtask

JobFactory = Callable[[JobGraph, Config], JobMachine]


@dataclass(slots=True)
class SimulatedDriver:
    """One run of the job."""

    run: SimulatedRun
    job: JobMachine
    engine: SimulatedEngine
    tasks: dict[SubtaskId, SimulatedSubtask] = field(default_factory=dict)
    checkpoints: simulated_checkpoints.Making = field(default_factory=simulated_checkpoints.Making)
    lanes: Lanes = field(default_factory=Lanes)
    #: commands of the last event that are not carried out yet
    todo: deque[c.Command] = field(default_factory=deque)
    #: requests that were heard and not answered
    unanswered: dict[str, e.Event] = field(default_factory=dict)
    exited: bool = False

    def begin(self) -> None:
        """Read the storage and tell the protocol."""
        world = self.run.world
        found, available_now = begin_run(world, 0), self.run.available is not None
        facts = replace(found, engine_failures=self.engine.failures, available_now=available_now)
        self.run.number = world.run
        self.checkpoints.used_upto = facts.next_checkpoint - 1
        self.tasks = {task: SimulatedSubtask(self.run, task, files.batch) for task, files in world.tasks.items()}
        self.hear(facts)

    def hear(self, event: e.Event) -> None:
        """Give an event to the protocol."""
        self.run.note(event)
        if isinstance(event, e.CheckpointRequested | e.StopRequested | e.CancelRequested):
            self.unanswered[event.request] = event
        self.todo += self.job.handle(event)

    def moves(self) -> list[Callable[[], None]]:
        """Return everything that the driver could do next."""
        moves: list[Callable[[], None]] = []
        if self.todo:
            moves += [self._carry_out] * 4
        else:
            moves += [partial(self._deliver, source) for source, events in self.run.inbox.items() if events]
        busy = self.lanes.busy()
        moves += [partial(self.lanes.advance, lane) for lane in busy]
        # While an order to a task is being carried out, its query does nothing else.
        running = [task for task in self.tasks.values() if task.query.live and task.id not in busy]
        hurry = self.run.faults.chance.random() < 0.15
        moves += [task.run_query for task in running if hurry or not task.files.slow]
        return moves

    def _carry_out(self) -> None:
        """Carry out, or hand to its lane, the next command."""
        command = self.todo.popleft()
        self.run.note(command)
        _CARRY_OUT[type(command)](self, command)

    def _deliver(self, source: object) -> None:
        """Hear the next event of `source`. Facts about checkpoints may come twice, snapshots may get lost."""
        event = self.run.inbox[source].popleft()
        if source in ("checkpoint", "sinks", "savepoints", "control") and self.run.faults.strike(0.02):
            self.run.post("late", event)
        if isinstance(event, e.SnapshotTaken) and self.run.faults.strike(0.01):
            return
        self.hear(event)


_CARRY_OUT: dict[type[c.Command], Callable[[SimulatedDriver, Any], None]] = {
    c.StartTask: lambda driver, command: simulated_tasks.order(driver, command, simulated_tasks.start),
    c.SuspendTask: lambda driver, command: simulated_tasks.order(driver, command, simulated_tasks.suspend),
    c.FinishTask: lambda driver, command: simulated_tasks.order(driver, command, simulated_tasks.finish),
    c.CloseTask: lambda driver, command: simulated_tasks.order(driver, command, simulated_tasks.close),
    c.KillTask: simulated_tasks.kill,
    c.TakeSnapshot: simulated_checkpoints.snapshot,
    c.WriteManifest: simulated_checkpoints.write_manifest,
    c.CommitTransactions: lambda driver, command: driver.lanes.put(
        "sinks", simulated_checkpoints.commit(driver, command.permit.checkpoint)
    ),
    c.SealSavepoint: lambda driver, command: driver.lanes.put(
        "savepoints", simulated_checkpoints.seal(driver, command)
    ),
    c.AbortCheckpoint: lambda driver, command: driver.checkpoints.aborted.add(command.checkpoint),
    c.AllowReading: simulated_tasks.allow,
    c.StopSources: simulated_tasks.stop_sources,
    c.DiscardOlder: simulated_checkpoints.discard_older,
    c.RecordResult: simulated_checkpoints.result,
    c.AnswerRequest: simulated_checkpoints.answer,
    c.ReportFailure: lambda driver, command: None,
    c.FailOver: simulated_checkpoints.fail_over,
    c.Exit: simulated_checkpoints.leave,
}
"""Command → the function that carries it out."""
