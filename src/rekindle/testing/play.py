"""A job that is played: the protocol's own, and a driver that does what it is ordered to.

Theory of operation
-------------------

`Play` takes the steps of a scenario script (`rekindle.testing.scenario`), one after the other, as words. A step is an
event for the job, or stands for several (`STEPS`), or asks something. The answer is in words too, a line for each
command.

The driver remembers what was ordered and has not been answered (`orders`), so that a script may say *checkpoint 1
completes* instead of every step of it. It remembers how far each consumer may read, and what the manifests say has
finished. It decides nothing: whatever it does, an order or the script says so.

This module does not know files, nor how answers are written down or compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from rekindle.config import Config, duration_ms
from rekindle.errors import ProtocolError, RestoreError
from rekindle.graph.compatibility import check_finished_state
from rekindle.graph.job_graph import JobGraph
from rekindle.graph.subtask_set import SubtaskSet
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import JobState
from rekindle.testing import words as w
from rekindle.testing.script_job import ScriptError, read_job

Answer = list[str]


@dataclass(slots=True)
class StagePlace:
    """How far a consumer has come in a channel."""

    read: int = 0
    allowed: int = 0


@dataclass
class Play:
    """A script being played: a job, and a driver that does what it is ordered to."""

    graph: JobGraph = field(init=False)
    config: Config = field(init=False)
    job: JobMachine = field(init=False)
    #: the time, ms
    now_ms: int = 0
    #: what was ordered and has no answer yet, in order
    orders: list[c.Command] = field(default_factory=list)
    #: consumer and producer → place in the channel
    places: dict[tuple[SubtaskId, SubtaskId], StagePlace] = field(default_factory=dict)
    #: checkpoint → what had finished by its manifest, by operator
    manifests: dict[int, dict[str, SubtaskSet]] = field(default_factory=dict)

    def define(self, name: str, lines: Sequence[str]) -> None:
        """Take in a job block."""
        first = not hasattr(self, "job")
        self.graph, self.config = read_job(name, lines)
        if first:
            self.job = JobMachine(self.graph, self.config)

    def step(self, words: str) -> Answer:
        """Follow one step; what the protocol answers, a line each."""
        if not hasattr(self, "job"):
            raise ScriptError("there is no job yet")
        for pattern, follow in STEPS.items():
            match = re.fullmatch(pattern, words)
            if match:
                return follow(self, *match.groups())
        return self._answer(self._event(words))

    def tell(self, event: e.Event) -> tuple[c.Command, ...]:
        """Let the job hear an event, and take down what it orders."""
        if isinstance(event, e.JobStarted) and self.job.state is not JobState.CREATED:
            self.job, self.orders, self.places = JobMachine(self.graph, self.config), [], {}
        commands = self.job.handle(event)
        self.now_ms = max(self.now_ms, self.job.now_ms)
        self.orders = [order for order in self.orders if not self._is_answered(order, event)]
        self._take_down_reading(event)
        for command in commands:
            self._take_down(command)
        return commands

    # -- events -------------------------------------------------------------------------------------------------------

    def _event(self, words: str) -> e.Event:
        understood = w.read_event(words)
        if understood is None:
            known = [w.shape(phrase) for phrases in w.EVENTS.values() for phrase in phrases]
            close = get_close_matches(words, known, n=3, cutoff=0.2)
            raise ScriptError("it is not understood; is it one of these? " + " | ".join(close))
        kind, told = understood
        if kind is e.JobStarted:
            told = {"now_ms": self.now_ms, "next_checkpoint": told.get("latest_checkpoint", 0) + 1, **told}
        elif kind in (e.TaskSuspended, e.TaskFinished):
            told = {"batch": self.last_batch(told["task"]), **told}
        elif kind is e.SnapshotTaken:
            ordered = [one for one in self.orders if isinstance(one, c.TakeSnapshot)]
            batches = {(one.task, one.checkpoint): one.batch for one in ordered}
            told = {"batch": batches.get((told["task"], told["checkpoint"]), -1), **told}
        return kind(**told)

    def _answer(self, event: e.Event) -> Answer:
        try:
            return [w.say_command(command) for command in self.tell(event)]
        except ProtocolError as error:
            return [f"refused: {error.message.partition('; legal')[0]}"]

    def _told(self, *events: e.Event) -> Answer:
        """What several events are answered, each in its words."""
        lines = []
        for event in events:
            lines += [f"> {w.say_event(event)}", *(f"  {line}" for line in self._answer(event))]
        return lines

    def last_batch(self, task: SubtaskId) -> int:
        return self.job.coordinator.barriers.batches.get(task, -1)

    # -- orders -------------------------------------------------------------------------------------------------------

    def _is_answered(self, order: c.Command, event: e.Event) -> bool:
        good = _DONE[type(order)](self, order)
        return type(event) in (type(good), *_INSTEAD.get(type(good), ())) and _about(event) == _about(good)

    def _take_down(self, command: c.Command) -> None:
        if isinstance(command, c.AbortCheckpoint):
            self.orders = [one for one in self.orders if _about(one)[1] != command.checkpoint]
        elif isinstance(command, c.KillTask):
            self.orders = [one for one in self.orders if _about(one)[0] != command.task]
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

    # -- steps that stand for several ---------------------------------------------------------------------------------

    def let_pass(self, span: str) -> Answer:
        return self._answer(e.Ticked(now_ms=self.now_ms + duration_ms("time", span)))

    def _carry_out(self, wanted: Callable[[c.Command], bool]) -> Answer:
        """Carry out the orders that are wanted, those that follow from them included."""
        lines: Answer = []
        while orders := [order for order in self.orders if wanted(order)]:
            order = orders[0]
            lines += self._told(_DONE[type(order)](self, order))
            if order in self.orders:
                raise ScriptError(f"this cannot be done now: {w.say_command(order)}")
        if not lines:
            raise ScriptError("there is no such order")
        return lines

    def carry_out_all(self, verb: str) -> Answer:
        return self._carry_out(lambda order: isinstance(order, _VERBS[verb]))

    def complete(self, number: str) -> Answer:
        return self._carry_out(lambda order: type(order) in _OF_CHECKPOINTS and _about(order)[1] == int(number))

    def carry_out_everything(self) -> Answer:
        return self._carry_out(lambda _: True)

    def read_all(self, name: str) -> Answer:
        task = w.subtask(name)
        channels = {producer: place for (consumer, producer), place in self.places.items() if consumer == task}
        read = {producer: place.allowed for producer, place in channels.items() if place.allowed > place.read}
        if not read:
            raise ScriptError("there is nothing that it may read")
        return self._told(e.BatchRecorded(task=task, batch=self.last_batch(task) + 1, read=read))

    # -- questions ----------------------------------------------------------------------------------------------------

    def standing(self) -> Answer:
        statuses = self.job.tasks.statuses().items()
        said = [f"{task} is {status.value.replace('_', ' ')}" for task, status in statuses]
        return [f"the job is {self.job.state.value}", *said]

    def may_start(self, number: str) -> Answer:
        """Ask the rules for a restore (`rekindle.graph.compatibility`) of the job as it is defined now."""
        finished, place = self.manifests[int(number)], f"checkpoint {number}"
        try:
            check_finished_state(self.graph.topology, finished, place)
        except RestoreError as error:
            return [f"no: {error.message} [{error.code}]", error.next_step]
        return ["yes, as far as what has finished goes"]


_VERBS: dict[str, type[c.Command]] = {
    "start": c.StartTask,
    "are held": c.SuspendTask,
    "finish": c.FinishTask,
    "close": c.CloseTask,
}

STEPS: dict[str, Callable[..., Answer]] = {
    r"(\d+ \w+) pass(?:es)?": Play.let_pass,
    rf"all ({'|'.join(_VERBS)})": Play.carry_out_all,
    r"checkpoint (\d+) completes": Play.complete,
    r"all orders are carried out": Play.carry_out_everything,
    r"(\S+/\d+) reads all it may": Play.read_all,
    r"where does everything stand\?": Play.standing,
    r"may this job start from checkpoint (\d+)\?": Play.may_start,
}
"""Steps that are no single event: what they look like → what follows them."""

_DONE: dict[type[c.Command], Callable[[Play, Any], e.Event]] = {
    c.StartTask: lambda _, one: e.TaskStarted(task=one.task),
    c.SuspendTask: lambda play, one: e.TaskSuspended(task=one.task, batch=play.last_batch(one.task)),
    c.FinishTask: lambda play, one: e.TaskFinished(task=one.task, batch=play.last_batch(one.task), drained=one.drain),
    c.CloseTask: lambda _, one: e.TaskClosed(task=one.task),
    c.TakeSnapshot: lambda _, one: e.SnapshotTaken(task=one.task, checkpoint=one.checkpoint, batch=one.batch),
    c.WriteManifest: lambda _, one: e.ManifestWritten(checkpoint=one.checkpoint),
    c.CommitTransactions: lambda _, one: e.TransactionsCommitted(checkpoint=one.permit.checkpoint),
    c.SealSavepoint: lambda _, one: e.SavepointSealed(
        checkpoint=one.checkpoint, path=f"{one.directory}/savepoint-{one.checkpoint}"
    ),
    c.RecordResult: lambda _, __: e.ResultRecorded(),
}
"""Orders that are answered: what is heard when they are carried out."""

_OF_CHECKPOINTS = (c.TakeSnapshot, c.WriteManifest, c.CommitTransactions, c.SealSavepoint)

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
"""What is heard when an order is carried out → what may be heard instead of it."""


def _about(thing: c.Command | e.Event) -> tuple[SubtaskId | None, int | None]:
    """The subtask and the checkpoint that it is about."""
    if isinstance(thing, c.CommitTransactions):
        return None, thing.permit.checkpoint
    if isinstance(thing, c.RecordResult):
        return None, None
    return getattr(thing, "task", None), getattr(thing, "checkpoint", None)
