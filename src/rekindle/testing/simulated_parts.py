"""What a simulated driver consists of: its lanes, its queries, and what it remembers. All of it is volatile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.testing.faults import Faults
from rekindle.testing.simulated_files import Record, SimulatedSnapshot
from rekindle.testing.simulated_world import World

Steps = Iterator[None]
"""Work in steps: a crash may fall at each."""

JobFactory = Callable[[JobGraph, Config], JobMachine]


@dataclass(slots=True)
class SimulatedQuery:
    """The running query of a task."""

    live: bool = False
    #: the batch that is being run
    batch: Steps | None = None
    #: whether the end of the inputs was reported
    reported: bool = False


@dataclass(slots=True)
class SimulatedParts:
    """The state of one run of the job, and its queries."""

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

    def post(self, source: object, event: e.Event) -> None:
        """An event that the loop will hear some time."""
        self.inbox.setdefault(source, deque()).append(event)

    def on(self, lane: object, work: Steps) -> None:
        self.lanes.setdefault(lane, deque()).append(work)

    def is_fenced(self) -> bool:
        """Whether a newer run exists; one that was paused after its look finds out too late."""
        looked, self.has_looked = self.has_looked, False
        return self.run != self.world.run and not looked

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
            self.tell(task)
        if files.committed == self.last[task]:
            record = self.world.batch(task, self.last[task], rows_each, self.allowed[task], task not in self.stopped)
            if record is None:
                return
            yield
            if not self.record(task, record):
                return
        yield
        self.tell(task)
        yield
        self.spark_commits(task)

    def record(self, task: SubtaskId, record: Record) -> bool:
        """Create the next batch record, or adopt the one that is there if it is of the same batch."""
        if self.is_fenced():
            return False
        if self.world.record(task, self.last[task] + 1, record) != record:
            self.queries[task] = SimulatedQuery()
            # As BATCH_REPLAY_MISMATCH is: only another run, which reads the storage again, continues from there.
            reason = "another driver has recorded another batch"
            self.post(task, e.TaskFailed(task=task, reason=reason, permanent=True))
            return False
        self.last[task] += 1
        return True

    def tell(self, task: SubtaskId) -> None:
        """Report the last record; a replayed one is reported again."""
        last = self.last[task]
        self.post(task, e.BatchRecorded(task=task, batch=last, read=self.world.tasks[task].records[last].read))

    def spark_commits(self, task: SubtaskId) -> None:
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
