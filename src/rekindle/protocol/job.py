"""The job: one door, `handle(event) -> commands`.

Theory of operation
-------------------

`handle` does three things: it checks that the event is legal (if not, it raises, with nothing changed), lets its
handler change the state, and then runs the *state-triggered* rules until nothing more follows:

1. a checkpoint has settled → its request is answered;
2. a task's data has ended, its restart is due, or its final checkpoint is complete → order what follows (`scheduler`);
3. every open task waits → one checkpoint at once, for all of them (FLIP-147; FLIP-45 for a stop);
4. every task is closed and nothing is left to commit → the result is recorded, and only then reported;
5. a checkpoint is due, late, or to be overtaken, a commit is to be tried again → do it (`coordinator`).

Ending. A natural end, a drain and a stop differ in two places only: whether a task is ordered to finish or to suspend,
and the name of the result. A stop without a savepoint uses the job's mode: if that is unaligned, or the time of an
aligned one is up, no task continues to read. An order to end that meets a failure is repeated after the restart delay.
A plain stop whose checkpoint fails is given up and the job continues, except the tasks that had finished by themselves.
A drain, whose flush cannot be taken back, is carried through. A stop that asks for a savepoint ends with the checkpoint
of that savepoint, no earlier; it reads all that is in the channels first, unless it is asked not to. Cancel records its
result first and asks no task.

A run of what is available now stops like that, without being asked, as soon as each task has ended or has caught up:
all that was there is read, through all tasks, and nothing more follows from it. It waits for that however long that is.

A batch run is a job like any other whose tasks have one batch each, all of their input. It has one checkpoint, the
final one, that commits everything; there is no place before it where it could be stopped (FLIP-45: a stop ends with a
checkpoint), so of the requests it grants cancel alone, and periodic checkpoints are not taken.

This module does not know Spark, storage, sinks, threads or the clock.
"""

from __future__ import annotations

from dataclasses import replace

from rekindle.config import Config
from rekindle.errors import ProtocolError
from rekindle.graph.job_graph import JobGraph
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.handlers import HANDLERS, LATE_HANDLERS
from rekindle.protocol.job_parts import JobParts
from rekindle.protocol.requests import HeardRequests
from rekindle.protocol.rules import follow
from rekindle.protocol.states import JOB_EVENTS, TASK_STEPS
from rekindle.protocol.story import Story

_Commands = tuple[c.Command, ...]

_REQUESTS = (e.CheckpointRequested, e.StopRequested, e.CancelRequested)


class JobMachine(JobParts):
    """The state machine of one run of a job."""

    def __init__(self, graph: JobGraph, config: Config, *, batch: bool = False) -> None:
        super().__init__(graph, config, batch=batch)
        self._heard = HeardRequests()
        self.story = Story()

    def handle(self, event: e.Event) -> _Commands:
        """Take in one fact; return the commands that follow, in order.

        Raises:
            ProtocolError: ``ILLEGAL_EVENT``; the state is unchanged.
        """
        handlers = LATE_HANDLERS if self.state.terminal else HANDLERS
        too_late = self.exited or (self.state.terminal and type(event) not in handlers)
        request = event.request if isinstance(event, _REQUESTS) else None
        if too_late or request in self._heard:
            return ()
        self._check(event)
        if request is not None:
            self._heard.hear(request)
        step = self.story.next_step()
        commands = [*handlers[type(event)](self, event)]
        if isinstance(event, e.TaskEvent):
            if not isinstance(event, e.SnapshotTaken):  # if it settles a checkpoint, that touches all
                self.tasks.states.touch(event.task)
        elif not isinstance(event, e.Ticked):
            self.tasks.states.touch_all()
        commands += follow(self)
        for command in commands:
            if isinstance(command, c.TakeSnapshot):
                self.tasks.snapshots(command.task, command.checkpoint)
        numbered = tuple(replace(command, cause=step) for command in commands)
        self.story.tell(event, numbered)
        return numbered

    def _check(self, event: e.Event) -> None:
        legal = JOB_EVENTS.get(self.state, e.ALL)
        if type(event) not in legal:
            raise self._illegal(event, f"job {self.name}", self.state.value, [kind.__name__ for kind in legal])
        named, states = event.tasks if isinstance(event, e.JobStarted) else (), self.tasks.states
        for task in (event.task,) if isinstance(event, e.TaskEvent) else named:
            if task not in states:
                raise self._illegal(event, str(task), "no task of this job", [str(known) for known in states])
        if isinstance(event, e.TaskEvent) and type(event) in TASK_STEPS:
            status, steps = states[event.task].status, TASK_STEPS[type(event)]
            if status not in steps:
                raise self._illegal(event, str(event.task), status.value, [before.value for before in steps])

    def _illegal(self, event: e.Event, subject: str, state: str, legal: list[str]) -> ProtocolError:
        return ProtocolError(
            "ILLEGAL_EVENT",
            event=type(event).__name__,
            subject=subject,
            state=state,
            legal=", ".join(legal),
            story=str(self.story),
        )
