"""A driver and its queries, simulated: carries out the protocol's commands on a `World`, one small step at a time.

All of it is volatile: a crash is simply letting go of it. As in the real driver, one loop feeds the protocol; orders to
a task and the work on sinks go on beside it, each in a lane of its own, in order. Which lane moves next is chance. What
goes wrong is asked of `Faults`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rekindle.config import Config
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import Job
from rekindle.testing.simulated_world import End, Manifest, Snapshot, World

Steps = Iterator[None]
"""Work in steps: a crash may fall at each."""

JobFactory = Callable[[str, tuple[SubtaskId, ...], Config], Job]


@dataclass(slots=True)
class Faults:
    """How much may still go wrong, and when it does."""

    chance: random.Random
    left: int

    def strike(self, probability: float) -> bool:
        """Whether something goes wrong now."""
        if not self.left or self.chance.random() >= probability:
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class Query:
    """The running query of a task."""

    live: bool = False
    #: the batch that is being run
    batch: Steps | None = None
    #: whether the end of the inputs was reported
    reported: bool = False


@dataclass(slots=True)
class Driver:
    """One run of the job."""

    world: World
    job: Job
    faults: Faults
    now_ms: int
    queries: dict[SubtaskId, Query] = field(default_factory=dict)
    #: lane → work on it, in order
    lanes: dict[object, deque[Steps]] = field(default_factory=dict)
    #: where events come from → those not delivered yet, in order
    inbox: dict[object, deque[e.Event]] = field(default_factory=dict)
    #: commands of the last event that are not carried out yet
    todo: deque[c.Command] = field(default_factory=deque)
    #: checkpoint → snapshots
    gathered: dict[int, dict[SubtaskId, Snapshot]] = field(default_factory=dict)
    #: subtask → last batch that a manifest of this lineage names
    named: dict[SubtaskId, int] = field(default_factory=dict)
    exited: bool = False

    def begin(self) -> None:
        """Read the storage and tell the protocol."""
        facts = self.world.facts(self.now_ms)
        self.queries = {task: Query() for task in self.world.tasks}
        if facts.latest_checkpoint is not None:
            snapshots = self.world.manifests[facts.latest_checkpoint].snapshots
            self.named = {task: snapshot.batch for task, snapshot in snapshots.items()}
        self.hear(facts)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def post(self, source: object, event: e.Event) -> None:
        """An event that the loop will hear some time."""
        self.inbox.setdefault(source, deque()).append(event)

    def hear(self, event: e.Event) -> None:
        """Give an event to the protocol."""
        self.world.note(event)
        self.todo += self.job.handle(event)

    def carry_out(self) -> None:
        """Carry out, or hand to its lane, the next command."""
        command = self.todo.popleft()
        self.world.note(command)
        _CARRY_OUT[type(command)](self, command)

    def deliver(self, source: object) -> None:
        """Hear the next event of `source`. Facts about checkpoints may come twice, snapshots may get lost."""
        event = self.inbox[source].popleft()
        if source in ("checkpoint", "sinks", "control") and self.faults.strike(0.02):
            self.post("late", event)
        if isinstance(event, e.SnapshotTaken) and self.faults.strike(0.01):
            return
        self.hear(event)

    def advance(self, lane: object) -> None:
        """Do one step of the work on a lane."""
        work = self.lanes[lane]
        if next(work[0], self) is self:
            work.popleft()

    def _on(self, lane: object, work: Steps) -> None:
        self.lanes.setdefault(lane, deque()).append(work)

    # -- queries ------------------------------------------------------------------------------------------------------

    def idle(self, task: SubtaskId) -> bool:
        """Whether the query of `task` runs and no order to the task is being carried out."""
        return self.queries[task].live and not self.lanes.get(task)

    def run_query(self, task: SubtaskId) -> None:
        """Let a query do one step of its batch."""
        query, files = self.queries[task], self.world.tasks[task]
        if query.batch is None:
            if files.inputs_ended and files.committed == len(files.records) - 1:
                if not query.reported or self.faults.strike(0.05):
                    query.reported = True
                    self.post(task, e.InputsEnded(task=task))
                return
            query.batch = self._batch(task)
        if next(query.batch, self) is self:
            query.batch = None

    def _batch(self, task: SubtaskId) -> Steps:
        files = self.world.tasks[task]
        if files.committed == len(files.records) - 1:
            yield
            files.read(self.faults.chance.randint(1, 4))
        yield
        files.committed = len(files.records) - 1

    def kill_query(self, task: SubtaskId) -> None:
        """A query dies by itself; that is noticed late, and sometimes twice."""
        self.queries[task] = Query()
        self.post("watch", e.TaskFailed(task=task, reason="the query died"))
        if self.faults.strike(0.2):
            self.post("late", e.TaskFailed(task=task, reason="the query died"))

    # -- orders to tasks ----------------------------------------------------------------------------------------------

    def _order(self, command: c.TaskCommand, work: Callable[[Any], Steps]) -> None:
        self._on(command.task, self._answered(command.task, work(command)))

    def _answered(self, task: SubtaskId, work: Steps) -> Steps:
        yield
        if self.faults.strike(0.03):
            self.post(task, e.TaskFailed(task=task, reason="the order failed"))
            return
        yield from work

    def _start(self, command: c.StartTask) -> Steps:
        task = command.task
        if (end := self.world.tasks[task].end) is not None:
            self.post(task, e.TaskFinished(task=task, batch=end.batch, drained=end.drained))
            return
        self.queries[task] = Query(live=True)
        yield
        self.post(task, e.TaskStarted(task=task))

    def _hold(self, task: SubtaskId) -> Steps:
        query = self.queries[task]
        while query.batch is not None:
            if next(query.batch, self) is self:
                query.batch = None
            yield
        self.queries[task] = Query()

    def _suspend(self, command: c.SuspendTask) -> Steps:
        yield from self._hold(command.task)
        self.post(command.task, e.TaskSuspended(task=command.task, batch=self.world.tasks[command.task].committed))

    def _finish(self, command: c.FinishTask) -> Steps:
        task, files = command.task, self.world.tasks[command.task]
        if files.end is None:
            if command.drain:
                files.drain_begun = True
                yield
            yield from self._hold(task)
            files.committed = len(files.records) - 1
            yield
            if files.last.held:
                files.flush()
                yield
                files.committed = len(files.records) - 1
                yield
            if self.faults.strike(0.05):
                self.post(task, e.TaskFailed(task=task, reason="finish() raised"))
                return
            files.end = End(files.committed, command.drain)
            yield
        self.post(task, e.TaskFinished(task=task, batch=files.end.batch, drained=files.end.drained))

    def _close(self, command: c.CloseTask) -> Steps:
        yield
        self.queries[command.task] = Query()
        self.post(command.task, e.TaskClosed(task=command.task))

    def _kill(self, command: c.KillTask) -> None:
        self.queries[command.task] = Query()

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _snapshot(self, command: c.TakeSnapshot) -> None:
        task, number = command.task, command.checkpoint
        if self.faults.strike(0.03):
            self.post("checkpoint", e.SnapshotDeclined(task=task, checkpoint=number, detail="it said no"))
            return
        files = self.world.tasks[task]
        self.gathered.setdefault(number, {})[task] = Snapshot(files.committed, files.end)
        self.post("checkpoint", e.SnapshotTaken(task=task, checkpoint=number))

    def _manifest(self, number: int, finished_before: tuple[SubtaskId, ...] = ()) -> Manifest:
        gathered = self.gathered.get(number, {})
        finished = {task: Snapshot(-1, self.world.tasks[task].end or End(-1, False)) for task in finished_before}
        transactions = tuple(
            (task, batch)
            for task, snapshot in gathered.items()
            for batch in range(self.named.get(task, -1) + 1, snapshot.batch + 1)
        )
        return Manifest({**gathered, **finished}, transactions)

    def _write_manifest(self, command: c.WriteManifest) -> None:
        number, manifest = command.checkpoint, self._manifest(command.checkpoint, command.finished)
        if self.faults.strike(0.05):
            if self.faults.chance.random() < 0.5:
                self.world.create_manifest(number, manifest)  # it arrived, only the answer was lost
            self.post("checkpoint", e.ManifestFailed(checkpoint=number, detail="the storage timed out"))
            return
        self.world.create_manifest(number, manifest)
        self.post("checkpoint", e.ManifestWritten(checkpoint=number))

    def _commit(self, number: int) -> Steps:
        yield
        # Without a manifest a driver could commit what it has gathered; it is not for the driver to find that wrong.
        manifest = self.world.manifests.get(number) or self._manifest(number)
        for task, batch in manifest.transactions:
            if self.faults.strike(0.02):
                self.post("sinks", e.CommitFailed(checkpoint=number, detail="the sink is away"))
                return
            self.world.commit(number, task, batch)
            yield
        self.named.update({task: snapshot.batch for task, snapshot in manifest.snapshots.items()})
        self.post("sinks", e.TransactionsCommitted(checkpoint=number))

    def _seal(self, command: c.SealSavepoint) -> Steps:
        yield
        if self.faults.strike(0.2):
            self.post("sinks", e.SavepointFailed(checkpoint=command.checkpoint, detail="the folder is full"))
            return
        path = f"{command.directory}/{self.world.run}-{command.checkpoint}"
        self.world.savepoints[path] = command.checkpoint
        yield
        self.post("sinks", e.SavepointSealed(checkpoint=command.checkpoint, path=path))

    def _discard(self, keep: int) -> Steps:
        yield
        self.world.discard_older(keep)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _record(self, command: c.RecordResult) -> None:
        self.world.record_result(command)
        self.post("loop", e.ResultRecorded())

    def _exit(self, command: c.Exit) -> None:
        self.exited = True


_CARRY_OUT: dict[type[c.Command], Callable[[Driver, Any], None]] = {
    c.StartTask: lambda driver, command: driver._order(command, driver._start),
    c.SuspendTask: lambda driver, command: driver._order(command, driver._suspend),
    c.FinishTask: lambda driver, command: driver._order(command, driver._finish),
    c.CloseTask: lambda driver, command: driver._order(command, driver._close),
    c.KillTask: Driver._kill,
    c.TakeSnapshot: Driver._snapshot,
    c.WriteManifest: Driver._write_manifest,
    c.CommitTransactions: lambda driver, command: driver._on("sinks", driver._commit(command.permit.checkpoint)),
    c.SealSavepoint: lambda driver, command: driver._on("sinks", driver._seal(command)),
    c.AbortCheckpoint: lambda driver, command: None,
    c.DiscardOlder: lambda driver, command: driver._on("sinks", driver._discard(command.keep)),
    c.RecordResult: Driver._record,
    c.AnswerRequest: lambda driver, command: None,
    c.Exit: Driver._exit,
}
"""Command → how it is carried out."""
