"""A job that is played: the protocol's own, and a driver that does what it is ordered to.

Theory of operation
-------------------

`Play` takes the steps of a scenario script (`rekindle.testing.scenario`), one after the other, as words. A step is an
event for the job, or stands for several (`STEPS`), or asks something. The answer is in words too, a line for each
command.

A step that stands for several is carried out by what the driver (`played_driver.PlayedDriver`) remembers of its orders.

This module does not know files, nor how answers are written down or compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from rekindle.config import duration_ms
from rekindle.errors import ProtocolError, RestoreError
from rekindle.graph.compatibility import check_finished_state
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing import words as w
from rekindle.testing.played_driver import OF_CHECKPOINTS, PlayedDriver, about
from rekindle.testing.script_job import ScriptError, read_job

Answer = list[str]


@dataclass
class Play:
    """A script being played: a job, and a driver that does what it is ordered to."""

    driver: PlayedDriver = field(init=False)

    def define(self, name: str, lines: Sequence[str]) -> None:
        """Take in a job block."""
        graph, config = read_job(name, lines)
        if hasattr(self, "driver"):
            self.driver.redefine(graph, config)
        else:
            self.driver = PlayedDriver(graph, config)

    def step(self, words: str) -> Answer:
        """Follow one step; return what the protocol answers, a line each."""
        if not hasattr(self, "driver"):
            raise ScriptError("there is no job yet")
        for pattern, follow in STEPS.items():
            match = re.fullmatch(pattern, words)
            if match:
                return follow(self, *match.groups())
        return self._answer(self._event(words))

    # -- events -------------------------------------------------------------------------------------------------------

    def _event(self, words: str) -> e.Event:
        understood = w.read_event(words)
        if understood is None:
            known = [w.shape(phrase) for phrases in w.EVENTS.values() for phrase in phrases]
            close = get_close_matches(words, known, n=3, cutoff=0.2)
            raise ScriptError("it is not understood; is it one of these? " + " | ".join(close))
        kind, given = understood
        if kind is e.JobStarted:
            given = {"now_ms": self.driver.now_ms, "next_checkpoint": given.get("latest_checkpoint", 0) + 1, **given}
        elif kind in (e.TaskSuspended, e.TaskFinished):
            given = {"batch": self.driver.last_batch(given["task"]), **given}
        elif kind is e.SnapshotTaken:
            ordered = [one for one in self.driver.orders if isinstance(one, c.TakeSnapshot)]
            batches = {(one.task, one.checkpoint): one.batch for one in ordered}
            given = {"batch": batches.get((given["task"], given["checkpoint"]), -1), **given}
        return kind(**given)

    def _answer(self, event: e.Event) -> Answer:
        try:
            return [w.say_command(command) for command in self.driver.hear(event)]
        except ProtocolError as error:
            return [f"refused: {error.message.partition('; legal')[0]}"]

    def _give(self, *events: e.Event) -> Answer:
        """Give events to the job; return each in words, and its answer below it."""
        lines = []
        for event in events:
            lines += [f"> {w.say_event(event)}", *(f"  {line}" for line in self._answer(event))]
        return lines

    # -- steps that stand for several ---------------------------------------------------------------------------------

    def let_pass(self, span: str) -> Answer:
        return self._answer(e.Ticked(now_ms=self.driver.now_ms + duration_ms("time", span)))

    def _carry_out(self, wanted: Callable[[c.Command], bool]) -> Answer:
        """Carry out the orders that are wanted, those that follow from them included."""
        lines: Answer = []
        while orders := [order for order in self.driver.orders if wanted(order)]:
            order = orders[0]
            lines += self._give(self.driver.done(order))
            if order in self.driver.orders:
                raise ScriptError(f"this cannot be done now: {w.say_command(order)}")
        if not lines:
            raise ScriptError("there is no such order")
        return lines

    def carry_out_all(self, verb: str) -> Answer:
        return self._carry_out(lambda order: isinstance(order, _VERBS[verb]))

    def complete(self, number: str) -> Answer:
        return self._carry_out(lambda order: type(order) in OF_CHECKPOINTS and about(order)[1] == int(number))

    def carry_out_everything(self) -> Answer:
        return self._carry_out(lambda _: True)

    def read_all(self, name: str) -> Answer:
        task = w.subtask(name)
        channels = {producer: place for (consumer, producer), place in self.driver.places.items() if consumer == task}
        read = {producer: place.allowed for producer, place in channels.items() if place.allowed > place.read}
        if not read:
            raise ScriptError("there is nothing that it may read")
        return self._give(e.BatchRecorded(task=task, batch=self.driver.last_batch(task) + 1, read=read))

    # -- questions ----------------------------------------------------------------------------------------------------

    def standing(self) -> Answer:
        statuses = self.driver.job.tasks.states.statuses().items()
        said = [f"{task} is {status.value.replace('_', ' ')}" for task, status in statuses]
        return [f"the job is {self.driver.job.state.value}", *said]

    def may_start(self, number: str) -> Answer:
        """Ask the rules for a restore (`rekindle.graph.compatibility`) of the job as it is defined now."""
        finished, place = self.driver.manifests[int(number)], f"checkpoint {number}"
        try:
            check_finished_state(self.driver.graph.topology, finished, place)
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
"""Steps that are no single event: their pattern → the method that carries them out."""
