"""A driver that is played: does what it is ordered to once a script says so.

It remembers what was ordered and has not been answered (`orders`), so that a script may say *checkpoint 1 completes*
instead of every step of it. It remembers how far each consumer may read, and what the manifests say has finished. It
decides nothing: whatever it does, an order or the script says so. This module knows no words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.graph.subtask_set import SubtaskSet
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import JobState


@dataclass(slots=True)
class StagePlace:
    """The place of a consumer in a channel."""

    read: int = 0
    allowed: int = 0


@dataclass
class PlayedDriver:
    """The protocol's own job, and what its driver remembers."""

    graph: JobGraph
    config: Config
    job: JobMachine = field(init=False)
    #: the time, ms
    now_ms: int = 0
    #: orders that have no answer yet, in their order
    orders: list[c.Command] = field(default_factory=list)
    #: consumer and producer → place in the channel
    places: dict[tuple[SubtaskId, SubtaskId], StagePlace] = field(default_factory=dict)
    #: checkpoint → what had finished by its manifest, by operator
    manifests: dict[int, dict[str, SubtaskSet]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.job = JobMachine(self.graph, self.config)

    def redefine(self, graph: JobGraph, config: Config) -> None:
        """Let the job be another one from its next start on."""
        self.graph, self.config = graph, config

    def hear(self, event: e.Event) -> tuple[c.Command, ...]:
        """Give an event to the job, and take down what it orders."""
        if isinstance(event, e.JobStarted) and self.job.state is not JobState.CREATED:
            self.job, self.orders, self.places = JobMachine(self.graph, self.config), [], {}
        commands = self.job.handle(event)
        self.now_ms = max(self.now_ms, self.job.now_ms)
        self.orders = [order for order in self.orders if not self._is_answered(order, event)]
        self._take_down_reading(event)
        for command in commands:
            self._take_down(command)
        return commands

    def done(self, order: c.Command) -> e.Event:
        """Return the event that is heard when an order is carried out."""
        return _DONE[type(order)](self, order)

    def last_batch(self, task: SubtaskId) -> int:
        """Return the last batch of a task that the job knows of, -1 for none."""
        return self.job.coordinator.snapshots.barriers.batches.get(task, -1)

    def _is_answered(self, order: c.Command, event: e.Event) -> bool:
        good = self.done(order)
        return type(event) in (type(good), *_INSTEAD.get(type(good), ())) and about(event) == about(good)

    def _take_down(self, command: c.Command) -> None:
        if isinstance(command, c.AbortCheckpoint):
            self.orders = [one for one in self.orders if about(one)[1] != command.checkpoint]
        elif isinstance(command, c.KillTask):
            self.orders = [one for one in self.orders if about(one)[0] != command.task]
        elif isinstance(command, c.AllowReading):
            self.places.setdefault((command.task, command.producer), StagePlace()).allowed = command.upto
        elif isinstance(command, c.WriteManifest):
            self.manifests[command.checkpoint] = self._finished_operators(command)
        if type(command) in _DONE:
            self.orders.append(command)

    def _take_down_reading(self, event: e.Event) -> None:
        facts = event.tasks if isinstance(event, e.JobStarted) else {}
        if isinstance(event, e.BatchRecorded):
            facts = {event.task: e.RestoredTask(read=event.read)}
        for task, fact in facts.items():
            for producer, place in fact.read.items():
                known = self.places.setdefault((task, producer), StagePlace())
                known.read, known.allowed = place, max(place, known.allowed)

    def _finished_operators(self, manifest: c.WriteManifest) -> dict[str, SubtaskSet]:
        members: dict[str, list[int]] = {}
        for task, index in manifest.finished:
            members.setdefault(task, []).append(index)
        vertices = self.graph.topology.vertices
        return {
            operator: SubtaskSet.of(vertex.parallelism, members.get(vertex.uid, ()))
            for vertex in vertices
            for operator in vertex.chain
        }


_DONE: dict[type[c.Command], Callable[[PlayedDriver, Any], e.Event]] = {
    c.StartTask: lambda _, one: e.TaskStarted(task=one.task),
    c.SuspendTask: lambda driver, one: e.TaskSuspended(task=one.task, batch=driver.last_batch(one.task)),
    c.FinishTask: lambda driver, one: e.TaskFinished(
        task=one.task, batch=driver.last_batch(one.task), drained=one.drain
    ),
    c.CloseTask: lambda _, one: e.TaskClosed(task=one.task),
    c.TakeSnapshot: lambda _, one: e.SnapshotTaken(task=one.task, checkpoint=one.checkpoint, batch=one.batch),
    c.WriteManifest: lambda _, one: e.ManifestWritten(checkpoint=one.checkpoint),
    c.CommitTransactions: lambda _, one: e.TransactionsCommitted(checkpoint=one.permit.checkpoint),
    c.SealSavepoint: lambda _, one: e.SavepointSealed(
        checkpoint=one.checkpoint, path=f"{one.directory}/savepoint-{one.checkpoint}"
    ),
    c.RecordResult: lambda _, __: e.ResultRecorded(),
}
"""Orders that are answered → the event that is heard when they are carried out."""

OF_CHECKPOINTS = (c.TakeSnapshot, c.WriteManifest, c.CommitTransactions, c.SealSavepoint)

_INSTEAD: dict[type[e.Event], tuple[type[e.Event], ...]] = {
    e.TaskStarted: (e.TaskFailed, e.SourcesEnded, e.TaskFinished),
    e.TaskSuspended: (e.TaskFailed,),
    e.TaskFinished: (e.TaskFailed,),
    e.TaskClosed: (e.TaskFailed,),
    e.SnapshotTaken: (e.SnapshotDeclined,),
    e.ManifestWritten: (e.ManifestFailed,),
    e.TransactionsCommitted: (e.CommitFailed,),
    e.SavepointSealed: (e.SavepointFailed,),
}
"""Event that is heard when an order is carried out → the events that may be heard instead of it."""


def about(thing: c.Command | e.Event) -> tuple[SubtaskId | None, int | None]:
    """Return the subtask and the checkpoint that a command or event is about; None where there is none."""
    if isinstance(thing, c.CommitTransactions):
        return None, thing.permit.checkpoint
    if isinstance(thing, c.RecordResult):
        return None, None
    return getattr(thing, "task", None), getattr(thing, "checkpoint", None)
