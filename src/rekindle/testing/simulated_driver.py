"""A driver and its queries, simulated: carries out the protocol's commands on a `World`, one small step at a time.

All of it is volatile: a crash is simply letting go of it. As in the real driver, one loop feeds the protocol; orders to
a task and the work on sinks continue beside it, each in a lane of its own, in order. Which lane moves next is chance.
What goes wrong is asked of `Faults`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.testing.simulated_world import (
    Record,
    SealedFromNothing,
    SimulatedEnd,
    SimulatedManifest,
    SimulatedSnapshot,
    World,
)

Steps = Iterator[None]
"""Work in steps: a crash may fall at each."""

JobFactory = Callable[[JobGraph, Config], JobMachine]


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
class SimulatedQuery:
    """The running query of a task."""

    live: bool = False
    #: the batch that is being run
    batch: Steps | None = None
    #: whether the end of the inputs was reported
    reported: bool = False


@dataclass(slots=True)
class SimulatedDriver:
    """One run of the job."""

    world: World
    job: JobMachine
    faults: Faults
    now_ms: int
    queries: dict[SubtaskId, SimulatedQuery] = field(default_factory=dict)
    #: lane → work on it, in order
    lanes: dict[object, deque[Steps]] = field(default_factory=dict)
    #: where events come from → those not delivered yet, in order
    inbox: dict[object, deque[e.Event]] = field(default_factory=dict)
    #: commands of the last event that are not carried out yet
    todo: deque[c.Command] = field(default_factory=deque)
    #: checkpoint → snapshots
    gathered: dict[int, dict[SubtaskId, SimulatedSnapshot]] = field(default_factory=dict)
    #: task → last batch that it knows to be recorded
    last: dict[SubtaskId, int] = field(default_factory=dict)
    #: every number up to this one is used
    used_upto: int = 0
    #: checkpoints that were given up
    aborted: set[int] = field(default_factory=set)
    #: task → producer → how many of its batches may be read
    allowed: dict[SubtaskId, dict[SubtaskId, int]] = field(default_factory=dict)
    #: what is to be kept, as ordered last
    retention: c.DiscardOlder | None = None
    #: tasks whose sources give no more
    stopped: set[SubtaskId] = field(default_factory=set)
    run: int = 0
    #: engines that have died in a row before this run
    engine_failures: int = 0
    #: its engine is gone
    lost: bool = False
    #: how it has left its run to the next, where it has
    failed_over: c.FailOver | None = None
    #: requests that were heard and not answered
    unanswered: dict[str, e.Event] = field(default_factory=dict)
    #: it was paused after it had looked at the fence: its next write does not look again
    has_looked: bool = False
    exited: bool = False

    def begin(self) -> None:
        """Read the storage and tell the protocol."""
        facts = replace(self.world.facts(self.now_ms), engine_failures=self.engine_failures)
        self.run = self.world.run
        self.used_upto = facts.next_checkpoint - 1
        self.last = {task: files.batch for task, files in self.world.tasks.items()}
        self.allowed = {task: {} for task in self.world.tasks}
        self.queries = {task: SimulatedQuery() for task in self.world.tasks}
        self.hear(facts)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def post(self, source: object, event: e.Event) -> None:
        """An event that the loop will hear some time."""
        self.inbox.setdefault(source, deque()).append(event)

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
            ended = files.sources and files.sources_ended_at(self.last[task])
            if ended and (not query.reported or self.faults.strike(0.02)):
                query.reported = True
                self.post(task, e.SourcesEnded(task=task))
            query.batch = self._batch(task)
        if next(query.batch, self) is self:
            query.batch = None

    def _batch(self, task: SubtaskId) -> Steps:
        files, rows_each = self.world.tasks[task], self.faults.chance.randint(1, 4)
        if files.committed > self.last[task]:
            # What another driver let Spark commit meanwhile is not run again, but reported as if it were.
            self.last[task] = files.committed
            self._tell(task)
        if files.committed == self.last[task]:
            record = self.world.batch(task, self.last[task], rows_each, self.allowed[task], task not in self.stopped)
            if record is None:
                return
            yield
            if not self._record(task, record):
                return
        yield
        self._tell(task)
        yield
        self._spark_commits(task)

    def _record(self, task: SubtaskId, record: Record) -> bool:
        """Create the next batch record, or adopt the one that is there if it is of the same batch."""
        if self._is_fenced():
            return False
        if self.world.record(task, self.last[task] + 1, record) != record:
            self.queries[task] = SimulatedQuery()
            # As BATCH_REPLAY_MISMATCH is: only another run, which reads the storage again, continues from there.
            reason = "another driver has recorded another batch"
            self.post(task, e.TaskFailed(task=task, reason=reason, permanent=True))
            return False
        self.last[task] += 1
        return True

    def _tell(self, task: SubtaskId) -> None:
        """Report the last record; a replayed one is reported again."""
        last = self.last[task]
        self.post(task, e.BatchRecorded(task=task, batch=last, read=self.world.tasks[task].records[last].read))

    def _spark_commits(self, task: SubtaskId) -> None:
        files = self.world.tasks[task]
        files.committed = max(files.committed, self.last[task])

    def kill_query(self, task: SubtaskId) -> None:
        """A query dies by itself; that is noticed late, and sometimes twice."""
        self.queries[task] = SimulatedQuery()
        self.post("watch", e.TaskFailed(task=task, reason="the query died"))
        if self.faults.strike(0.2):
            self.post("late", e.TaskFailed(task=task, reason="the query died"))

    def kill_engine(self, *, replaceable: bool) -> None:
        """All queries die with their engine; some of that is noticed before the engine's own death."""
        self.lost = True
        for task, query in self.queries.items():
            if query.live and self.faults.chance.random() < 0.5:
                self.post("watch", e.TaskFailed(task=task, reason="the query died"))
            query.live, query.batch = False, None
        self.post("engine", e.EngineDied(reason="killed", replaceable=replaceable))

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
        if self.lost:
            self._fails_without_engine(task)
            return
        self.queries[task] = SimulatedQuery(live=True)
        yield
        self.post(task, e.TaskStarted(task=task))

    def _hold(self, task: SubtaskId) -> Steps:
        query = self.queries[task]
        while query.batch is not None:
            if next(query.batch, self) is self:
                query.batch = None
            yield
        self.queries[task] = SimulatedQuery()

    def _suspend(self, command: c.SuspendTask) -> Steps:
        yield from self._hold(command.task)
        if (yield from self._replay(command.task)):
            self.post(command.task, e.TaskSuspended(task=command.task, batch=self.last[command.task]))

    def _fails_without_engine(self, task: SubtaskId) -> None:
        self.post(task, e.TaskFailed(task=task, reason="there is no engine", permanent=False))

    def _finish(self, command: c.FinishTask) -> Steps:
        task, files = command.task, self.world.tasks[command.task]
        if files.end is None:
            if command.drain:
                if self._is_fenced():
                    return
                files.drain_begun = True
                yield
            yield from self._hold(task)
            if not (yield from self._replay(task)):
                return
            if files.at(self.last[task]).held:
                if self.lost:
                    self._fails_without_engine(task)
                    return
                if not self._record(task, files.flushed(self.last[task])):
                    return
                yield
                if not (yield from self._replay(task)):
                    return
            if self.faults.strike(0.05):
                self.post(task, e.TaskFailed(task=task, reason="finish() raised"))
                return
            if self._is_fenced():
                return
            files.end = SimulatedEnd(self.last[task], command.drain)
            yield
        self.post(task, e.TaskFinished(task=task, batch=files.end.batch, drained=files.end.drained))

    def _replay(self, task: SubtaskId) -> Generator[None, None, bool]:
        """Let Spark commit what is recorded; False where it would have to and is gone."""
        if self.last[task] >= 0:
            self._tell(task)
        yield
        if self.lost and self.world.tasks[task].committed < self.last[task]:
            self._fails_without_engine(task)
            return False
        self._spark_commits(task)
        yield
        return True

    def _close(self, command: c.CloseTask) -> Steps:
        yield
        self.queries[command.task] = SimulatedQuery()
        self.post(command.task, e.TaskClosed(task=command.task))

    def _allow(self, command: c.AllowReading) -> None:
        self.allowed[command.task][command.producer] = command.upto

    def _kill(self, command: c.KillTask) -> None:
        self.queries[command.task] = SimulatedQuery()

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _snapshot(self, command: c.TakeSnapshot) -> None:
        task, number = command.task, command.checkpoint
        if self.faults.strike(0.03):
            self.post("checkpoint", e.SnapshotDeclined(task=task, checkpoint=number, detail="it said no"))
            return
        self._on(("snapshot", task), self._gather(command))

    def _gather(self, command: c.TakeSnapshot) -> Steps:
        files, task, number = self.world.tasks[command.task], command.task, command.checkpoint
        while files.committed < command.batch and not (files.end and files.end.batch == command.batch):
            if number in self.aborted:
                return
            yield
        # An end that came after the snapshot was ordered belongs to the next one.
        end = files.end if files.end and files.end.batch == command.batch else None
        taken = SimulatedSnapshot(command.batch, end, command.read, command.in_flight)
        self.gathered.setdefault(number, {})[task] = taken
        self.post("checkpoint", e.SnapshotTaken(task=task, checkpoint=number, batch=command.batch))

    def _manifest(self, command: c.WriteManifest) -> SimulatedManifest:
        gathered = self.gathered.get(command.checkpoint, {})
        finished = {task: self._finished(task) for task in command.finished}
        transactions = tuple(
            (task, batch) for task, (first, last) in command.transactions.items() for batch in range(first, last + 1)
        )
        return SimulatedManifest(self.run, {**gathered, **finished}, transactions)

    def _finished(self, task: SubtaskId) -> SimulatedSnapshot:
        files = self.world.tasks[task]
        return SimulatedSnapshot(files.batch, files.end, files.last.read)

    def _write_manifest(self, command: c.WriteManifest) -> None:
        if self._is_fenced():
            return
        number, manifest = command.checkpoint, self._manifest(command)
        passed_over = all(self.world.use_up(self.run, other) for other in range(self.used_upto + 1, number))
        taken = number in self.world.void or self.world.manifests.get(number, manifest) != manifest
        if taken or not passed_over:
            self.post("checkpoint", e.ManifestFailed(checkpoint=number, detail="its number is taken"))
            return
        if self.faults.strike(0.05):
            if self.faults.chance.random() < 0.5:
                self.world.create_manifest(number, manifest)  # it arrived, only the answer was lost
            self.post("checkpoint", e.ManifestFailed(checkpoint=number, detail="the storage timed out"))
            return
        self.world.create_manifest(number, manifest)
        self.used_upto = number
        if not self._is_fenced():
            self.post("checkpoint", e.ManifestWritten(checkpoint=number))

    def _commit(self, number: int) -> Steps:
        yield
        # Without a manifest a driver could commit what it knows of; it is not for the driver to find that wrong.
        manifest = self.world.manifests.get(number)
        if manifest is None and self.run != self.world.run:
            self.post("sinks", e.CommitFailed(checkpoint=number, detail="a newer run has deleted its manifest"))
            return
        everything = tuple((task, batch) for task, last in self.last.items() for batch in range(last + 1))
        transactions = manifest.transactions if manifest else everything
        for task, batch in transactions:
            if self.faults.strike(0.02):
                self.post("sinks", e.CommitFailed(checkpoint=number, detail="the sink is away"))
                return
            self.world.commit(self.run, number, task, batch)
            yield
        self.world.commit_by_number(number, transactions)
        self.post("sinks", e.TransactionsCommitted(checkpoint=number))

    def _seal(self, command: c.SealSavepoint) -> Steps:
        for _ in range(self.faults.chance.choice((1, 1, 30, 200))):
            yield
            if command.checkpoint not in self.world.manifests and not self.exited:
                self.world.note(self.run, SealedFromNothing(command.checkpoint, fenced=self.run != self.world.run))
        if self.faults.strike(0.4):
            self.post("savepoints", e.SavepointFailed(checkpoint=command.checkpoint, detail="the folder is full"))
            return
        path = f"{command.directory}/{self.world.run}-{command.checkpoint}"
        self.world.savepoints[path] = command.checkpoint
        yield
        self.post("savepoints", e.SavepointSealed(checkpoint=command.checkpoint, path=path))

    def _discard_older(self, command: c.DiscardOlder) -> None:
        self.retention = command
        self._on("retention", self._discard())

    def _discard(self) -> Steps:
        yield
        command = self.retention  # the last one, if others have come since this was ordered
        if command is not None and not self._is_fenced():
            self.world.discard_older(self.run, command.keep, command.pinned)

    def _is_fenced(self) -> bool:
        """Whether a newer run exists; one that was paused after its look finds out too late."""
        looked, self.has_looked = self.has_looked, False
        return self.run != self.world.run and not looked

    # -- the end ------------------------------------------------------------------------------------------------------

    def _result(self, command: c.RecordResult) -> None:
        if self._is_fenced():
            return
        self.world.record_result(self.run, command, self.last)
        self.post("loop", e.ResultRecorded())

    def _answer(self, command: c.AnswerRequest) -> None:
        self.unanswered.pop(command.request, None)

    def _fail_over(self, command: c.FailOver) -> None:
        self.failed_over = command

    def _exit(self, command: c.Exit) -> None:
        self.exited = True


_CARRY_OUT: dict[type[c.Command], Callable[[SimulatedDriver, Any], None]] = {
    c.StartTask: lambda driver, command: driver._order(command, driver._start),
    c.SuspendTask: lambda driver, command: driver._order(command, driver._suspend),
    c.FinishTask: lambda driver, command: driver._order(command, driver._finish),
    c.CloseTask: lambda driver, command: driver._order(command, driver._close),
    c.KillTask: SimulatedDriver._kill,
    c.TakeSnapshot: SimulatedDriver._snapshot,
    c.WriteManifest: SimulatedDriver._write_manifest,
    c.CommitTransactions: lambda driver, command: driver._on("sinks", driver._commit(command.permit.checkpoint)),
    c.SealSavepoint: lambda driver, command: driver._on("savepoints", driver._seal(command)),
    c.AbortCheckpoint: lambda driver, command: driver.aborted.add(command.checkpoint),
    c.AllowReading: SimulatedDriver._allow,
    c.StopSources: lambda driver, command: driver.stopped.add(command.task),
    c.DiscardOlder: SimulatedDriver._discard_older,
    c.RecordResult: SimulatedDriver._result,
    c.AnswerRequest: SimulatedDriver._answer,
    c.ReportFailure: lambda driver, command: None,
    c.FailOver: SimulatedDriver._fail_over,
    c.Exit: SimulatedDriver._exit,
}
"""Command → how it is carried out."""
