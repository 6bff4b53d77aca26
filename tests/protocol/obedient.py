"""A world that does what it is told, at once: a whole life of a job in a few lines, and a log of it.

What a test wants to look at closely it holds up: commands of a kind in `keep` are not answered until the test does so,
and a task in `slow` reads what it may only when it is told to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Source, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import TaskStatus

_Command = TypeVar("_Command", bound=c.Command)


def graph(parallelism: Mapping[str, int] | None = None, **tasks: str) -> JobGraph:
    """Tasks by uid and what each reads, by spaces: names of tasks, and whatever else is a source of the job.

    `parallelism`: of tasks that have more than one subtask.
    """
    inputs = {uid: tuple(names.split()) for uid, names in tasks.items()}
    sources = dict.fromkeys(uid for names in inputs.values() for uid in names if uid not in tasks)
    return JobGraph(
        name="bids",
        sources=tuple(Source(uid=uid, bounded=True) for uid in sources),
        tasks=tuple(
            Task(uid=uid, inputs=names, parallelism=(parallelism or {}).get(uid, 1)) for uid, names in inputs.items()
        ),
    )


class Obedient:
    """A job that has started, and the world around it.

    Args:
        slow: subtasks that read nothing until `read` is called for them.
        keep: kinds of commands that are not answered.
        facts: what the storage says when the job starts.
        config: settings; checkpoints are aligned, and none periodic, unless these say otherwise.
    """

    def __init__(
        self,
        of: JobGraph,
        *,
        slow: Iterable[SubtaskId] = (),
        keep: Iterable[type[c.Command]] = (),
        facts: dict[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.job = JobMachine(of, Config(**{"checkpoint_interval_ms": 0, "checkpoint_mode": "aligned", **config}))
        self.slow = set(slow)
        self.keep = set(keep)
        #: everything heard and said, in order
        self.log: list[e.Event | c.Command] = []
        start = e.JobStarted(now_ms=0, **(facts or {}))
        self.batches = {task: fact.batch for task, fact in start.tasks.items()}
        self.allowed: dict[SubtaskId, dict[SubtaskId, int]] = {}
        self.read_so_far = {task: dict(fact.read) for task, fact in start.tasks.items()}
        #: task → after each batch of this run, how much it had read of each channel
        self.reads: dict[SubtaskId, list[dict[SubtaskId, int]]] = {}
        self.hear(start)

    def hear(self, *events: e.Event) -> None:
        """Tell the job, and after each event do whatever it says until it says nothing more."""
        for heard in events:
            todo = deque([heard])
            while todo:
                event = todo.popleft()
                self.log.append(event)
                for command in self.job.handle(event):
                    self.log.append(command)
                    answer = _ANSWERS.get(type(command))
                    if answer is not None and type(command) not in self.keep:
                        todo.extend(answer(self, command))

    def tick(self, after_ms: int) -> None:
        """Let time pass."""
        self.hear(e.Ticked(now_ms=self.job.now_ms + after_ms))

    def write(self, *tasks: SubtaskId) -> None:
        """Each records a batch of its sources."""
        for task in tasks:
            self.hear(self._batch(task, {}))

    def read(self, task: SubtaskId) -> None:
        """A slow task reads all that it may in one batch."""
        self.hear(*self._read(task))

    def said(self, kind: type[_Command]) -> list[_Command]:
        """Every command of a kind so far, in order."""
        return [one for one in self.log if isinstance(one, kind)]

    def status(self, task: SubtaskId) -> TaskStatus:
        return self.job.tasks.states[task].status

    # -- what the world does ------------------------------------------------------------------------------------------

    def _batch(self, task: SubtaskId, read: dict[SubtaskId, int]) -> e.Event:
        self.batches[task] = self.batches.get(task, -1) + 1
        self.reads.setdefault(task, []).append({**self.read_so_far.get(task, {}), **read})
        return e.BatchRecorded(task=task, batch=self.batches[task], read=read)

    def _read(self, task: SubtaskId) -> Iterable[e.Event]:
        before, allowed = self.read_so_far.setdefault(task, {}), self.allowed.get(task, {})
        new = {producer: upto for producer, upto in allowed.items() if upto > before.get(producer, 0)}
        before.update(new)
        return [self._batch(task, new)] if new else []

    def _allow(self, command: c.AllowReading) -> Iterable[e.Event]:
        self.allowed.setdefault(command.task, {})[command.producer] = command.upto
        return [] if command.task in self.slow else self._read(command.task)

    def _finish(self, command: c.FinishTask) -> Iterable[e.Event]:
        flushed = self._batch(command.task, {})
        last = self.batches[command.task]
        return [flushed, e.TaskFinished(task=command.task, batch=last, drained=command.drain)]

    def _suspend(self, command: c.SuspendTask) -> Iterable[e.Event]:
        return [e.TaskSuspended(task=command.task, batch=self.batches.get(command.task, -1))]


_ANSWERS: dict[type[c.Command], Callable[[Obedient, Any], Iterable[e.Event]]] = {
    c.StartTask: lambda world, said: [e.TaskStarted(task=said.task)],
    c.AllowReading: Obedient._allow,
    c.FinishTask: Obedient._finish,
    c.SuspendTask: Obedient._suspend,
    c.TakeSnapshot: lambda world, said: [e.SnapshotTaken(task=said.task, checkpoint=said.checkpoint, batch=said.batch)],
    c.WriteManifest: lambda world, said: [e.ManifestWritten(checkpoint=said.checkpoint)],
    c.CommitTransactions: lambda world, said: [e.TransactionsCommitted(checkpoint=said.permit.checkpoint)],
    c.SealSavepoint: lambda world, said: [
        e.SavepointSealed(checkpoint=said.checkpoint, path=f"{said.directory}/{said.checkpoint}")
    ],
    c.CloseTask: lambda world, said: [e.TaskClosed(task=said.task)],
    c.RecordResult: lambda world, said: [e.ResultRecorded()],
}
"""Command → what is reported of it."""
