"""Part of `make bench-growth`: what the control plane of a job does as its subtasks become many. No Spark.

The state machine of a job (`rekindle.protocol`) is given the events of a driver, one by one: a start, a batch of each
subtask, a checkpoint that each subtask acknowledges, the end. Three tasks follow each other, with POINTWISE channels.
An event is over when the commands that answer it are there. What carries commands out is not part of it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import JobState

TASKS = ("read", "count", "write")
INTERVAL_MS = 10_000
TICKS = 100
"""Events that bring time alone: a driver that waits has some twenty a second."""


class Control:
    """A job and a driver that carries out each command at once."""

    def __init__(self, subtasks: int) -> None:
        each = max(round(subtasks / len(TASKS)), 1)
        inputs = ("rows", *TASKS)
        graph = JobGraph(
            name="growth",
            sources=(Source(uid="rows", bounded=True),),
            tasks=tuple(Task(uid=uid, inputs=(inputs[at],), parallelism=each) for at, uid in enumerate(TASKS)),
            sinks=(Sink(uid="out", task=TASKS[-1]),),
        )
        self.subtasks = graph.subtasks()
        self.job = JobMachine(graph, Config(checkpoint_interval_ms=INTERVAL_MS))
        self.batch = -1
        self.now_ms = 0
        self.events = 0

    def hear(self, events: Iterable[e.Event]) -> None:
        """Give events to the job, and those that follow from its commands, until nothing more follows."""
        waiting = deque(events)
        while waiting:
            self.events += 1
            for command in self.job.handle(waiting.popleft()):
                done = _DONE.get(type(command))
                if done is not None:
                    waiting.append(done(self, command))

    def start(self) -> None:
        """Start the job and each task."""
        self.hear([e.JobStarted(now_ms=0)])

    def tick(self) -> None:
        """Let a little time pass, in which nothing happens."""
        for _ in range(TICKS):
            self.now_ms += 1
            self.hear([e.Ticked(now_ms=self.now_ms)])

    def record(self) -> None:
        """Record a batch of each subtask, which reads the batch of the one before."""
        self.batch += 1
        producers = dict(zip(TASKS[1:], TASKS, strict=False))
        for task in self.subtasks:
            before = producers.get(task.task)
            read = {SubtaskId(before, task.subtask): self.batch + 1} if before else {}
            self.hear([e.BatchRecorded(task=task, batch=self.batch, read=read)])

    def checkpoint(self) -> None:
        """Let the time for a checkpoint come, and carry it out."""
        before = self.job.coordinator.settlement.completed.latest or 0
        self.now_ms += INTERVAL_MS + 1
        self.hear([e.Ticked(now_ms=self.now_ms)])
        assert self.job.coordinator.settlement.completed.latest == before + 1

    def end(self) -> None:
        """End the sources: all that follows, to the result."""
        self.hear(e.SourcesEnded(task=task) for task in self.subtasks if task.task == TASKS[0])
        assert self.job.state is JobState.FINISHED, self.job.state


_DONE: dict[type[c.Command], Callable[[Control, Any], e.Event]] = {
    c.StartTask: lambda _, one: e.TaskStarted(task=one.task),
    c.FinishTask: lambda control, one: e.TaskFinished(task=one.task, batch=control.batch),
    c.CloseTask: lambda _, one: e.TaskClosed(task=one.task),
    c.TakeSnapshot: lambda _, one: e.SnapshotTaken(task=one.task, checkpoint=one.checkpoint, batch=one.batch),
    c.WriteManifest: lambda _, one: e.ManifestWritten(checkpoint=one.checkpoint),
    c.CommitTransactions: lambda _, one: e.TransactionsCommitted(checkpoint=one.permit.checkpoint),
    c.RecordResult: lambda _, __: e.ResultRecorded(),
}
"""Commands that are answered → the event that follows once they are carried out."""

PHASES: dict[str, Callable[[Control], None]] = {
    "start": Control.start,
    "a batch of each": Control.record,
    "a checkpoint": Control.checkpoint,
    "a hundred ticks": Control.tick,
    "the end": Control.end,
}


def measure(subtasks: int) -> dict[str, float]:
    """Return phase → seconds, for a job with about so many subtasks; and the number of events."""
    control, found = Control(subtasks), dict[str, float]()
    for phase, act in PHASES.items():
        began = time.perf_counter()
        act(control)
        found[phase] = time.perf_counter() - began
    return {**found, "events": control.events}
