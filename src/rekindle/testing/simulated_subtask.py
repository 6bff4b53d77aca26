"""A subtask as a simulated driver runs it: its query, and what it remembers of it. All of it is volatile."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.testing.simulated_batches import next_batch
from rekindle.testing.simulated_files import SimulatedRecord, TaskFiles
from rekindle.testing.simulated_run import SimulatedRun, Steps


@dataclass(slots=True)
class SimulatedQuery:
    """The running query of a task."""

    live: bool = False
    #: the batch that is being run
    batch: Steps | None = None
    #: True once the end of the inputs was reported
    reported: bool = False
    #: the places in channels when it last reported that it has caught up; None: it has not
    caught_up: Mapping[SubtaskId, int] | None = None
    #: in a run of what is available now: source → how much of it that is; None: it has not looked yet
    until: dict[str, int] | None = None


@dataclass(slots=True)
class SimulatedSubtask:
    """One subtask in one run."""

    run: SimulatedRun
    id: SubtaskId
    #: last batch that it knows to be recorded
    last: int
    query: SimulatedQuery = field(default_factory=SimulatedQuery)
    #: producer → how many of its batches may be read
    allowed: dict[SubtaskId, int] = field(default_factory=dict)
    #: its sources give no more
    stopped: bool = False

    @property
    def files(self) -> TaskFiles:
        """The folder of the subtask."""
        return self.run.world.tasks[self.id]

    def run_query(self) -> None:
        """Let the query do one step of its batch."""
        query, files = self.query, self.files
        if query.batch is None:
            ended = files.sources and files.sources_ended_at(self.last)
            if ended and (not query.reported or self.run.faults.strike(0.02)):
                query.reported = True
                self.run.post(self.id, e.SourcesEnded(task=self.id))
            if self.run.available is not None and self._has_caught_up(self.run.available):
                query.caught_up = files.at(self.last).read
                self.run.post(self.id, e.CaughtUp(task=self.id, batch=self.last, read=query.caught_up))
            query.batch = self._batch()
        if next(query.batch, self) is self:
            query.batch = None

    def _has_caught_up(self, available: random.Random) -> bool:
        """Return whether to report that nothing is left of what was there when the query first looked."""
        files, query, record = self.files, self.query, self.files.at(self.last)
        if not files.producers and None not in files.sources.values():
            return False  # its end is near
        if query.until is None:
            there = {uid: record.positions[uid] + available.choice((0, 3, 8)) for uid in files.sources}
            query.until = {uid: there[uid] if size is None else size for uid, size in files.sources.items()}
        has_read = all(record.positions[uid] >= place for uid, place in query.until.items())
        has_read = has_read and all(record.read[producer] >= place for producer, place in self.allowed.items())
        is_over = has_read and (record.is_still or self.last < 0)
        return is_over and (query.caught_up != record.read or available.random() < 0.02)

    def _batch(self) -> Steps:
        files, rows_each = self.files, self.run.faults.chance.randint(1, 4)
        if files.committed > self.last:
            # What another driver let Spark commit meanwhile is not run again, but reported as if it were.
            self.last = files.committed
            self.tell()
        if files.committed == self.last:
            until = {} if self.stopped else self.query.until or files.sources
            record = next_batch(self.run.world, self.id, self.last, rows_each, self.allowed, until)
            before = files.at(self.last)
            if record is None and self.run.available is not None and self.last >= 0 and not before.is_still:
                record = before.stilled()
            if record is None:
                return
            yield
            if not self.record(record):
                return
        yield
        self.tell()
        yield
        self.spark_commits()

    def record(self, record: SimulatedRecord) -> bool:
        """Create the next batch record, or adopt the one that is there if it is of the same batch."""
        if self.run.is_fenced():
            return False
        if self.files.create(self.last + 1, record) != record:
            self.query = SimulatedQuery()
            # As BATCH_REPLAY_MISMATCH is: only another run, which reads the storage again, continues from there.
            reason = "another driver has recorded another batch"
            self.run.post(self.id, e.TaskFailed(task=self.id, reason=reason, permanent=True))
            return False
        self.last += 1
        return True

    def tell(self) -> None:
        """Report the last record; a replayed one is reported again."""
        record, sizes = self.files.records[self.last], self.files.sources
        unread = any(size is not None and record.positions[uid] < size for uid, size in sizes.items())
        backlog = unread and None in sizes.values()
        self.run.post(self.id, e.BatchRecorded(task=self.id, batch=self.last, read=record.read, backlog=backlog))

    def spark_commits(self) -> None:
        """Let Spark commit what is recorded."""
        self.files.committed = max(self.files.committed, self.last)

    def kill_query(self) -> None:
        """Let the query die by itself; that is noticed late, and sometimes twice."""
        self.query = SimulatedQuery()
        self.run.post("watch", e.TaskFailed(task=self.id, reason="the query died"))
        if self.run.faults.strike(0.2):
            self.run.post("late", e.TaskFailed(task=self.id, reason="the query died"))
