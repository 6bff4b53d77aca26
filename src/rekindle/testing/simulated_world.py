"""The durable world of a simulated job: what would lie in its storage and its sinks, in memory.

Everything in here survives a crash of the driver, nothing else does. Each write is one step, so that a crash may fall
between any two. The world knows no protocol: it does what it is ordered and keeps a history of it, which
`rekindle.testing.invariants` judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_facts import BatchCommitted, Discarded, ManifestCreated, ResultDurable
from rekindle.testing.simulated_files import HELD, Record, Row, SimulatedManifest, TaskFiles

Entry = tuple[int, object]
"""Number of the run, and an event it heard, a command it gave, or a fact."""


@dataclass(slots=True)
class World:
    """Everything durable, and the history of how it came about."""

    graph: JobGraph
    tasks: dict[SubtaskId, TaskFiles]
    #: producer → consuming task → the consumers that its rows are dealt out to
    consumers: Mapping[SubtaskId, Mapping[str, tuple[SubtaskId, ...]]]
    manifests: dict[int, SimulatedManifest] = field(default_factory=dict)
    #: number that no checkpoint has or will have → the run that used it up
    void: dict[int, int] = field(default_factory=dict)
    #: checkpoint, task and batch of everything that a manifest has ever named
    named: set[tuple[int, SubtaskId, int]] = field(default_factory=set)
    #: batches whose rows the sink shows
    visible: set[tuple[SubtaskId, int]] = field(default_factory=set)
    sink: Counter[Row] = field(default_factory=Counter)
    #: a sink that goes by numbers: it knows the newest checkpoint that it has committed, and no batches
    table: Counter[Row] = field(default_factory=Counter)
    table_upto: int = 0
    savepoints: dict[str, int] = field(default_factory=dict)
    #: the checkpoint of another world that this one continues
    opened_from: int | None = None
    results: dict[int, c.RecordResult] = field(default_factory=dict)
    run: int = 0
    history: list[Entry] = field(default_factory=list)

    def note(self, run: int, thing: object) -> None:
        """Write something into the history."""
        self.history.append((run, thing))

    def facts(self, now_ms: int) -> e.JobStarted:
        """Begin the next run: what a driver reads from the storage, by the rules of the driver."""
        self.run += 1
        self.fence_checkpoints()
        latest = max(self.manifests, default=None)
        snapshots = {} if latest is None else self.manifests[latest].snapshots
        tasks = {}
        for task, files in self.tasks.items():
            # What a start has opened from a checkpoint has none of its own yet that would say so.
            seen = latest != self.opened_from and task in snapshots and snapshots[task].end is not None
            drained = files.end is not None and files.end.drained
            ended = files.end is not None and not seen
            named = snapshots[task].batch if task in snapshots else -1
            tasks[task] = e.RestoredTask(
                committed=named, closed=seen, ended=ended, drained=drained, batch=files.batch, read=files.last.read
            )
        draining = any(files.drain_begun and files.end is None for files in self.tasks.values())
        return e.JobStarted(
            now_ms=now_ms,
            next_checkpoint=self.last_number + 1,
            latest_checkpoint=latest,
            tasks=tasks,
            draining=draining,
        )

    def fence_checkpoints(self) -> None:
        """Use up the next number: a driver that may only be paused could be about to create its manifest."""
        if any(run not in self.results for run in range(1, self.run)):
            self.void[self.last_number + 1] = self.run

    @property
    def last_number(self) -> int:
        """The highest number that is used, 0 for none."""
        return max((*self.manifests, *self.void), default=0)

    def use_up(self, run: int, number: int) -> bool:
        """Let a number have no checkpoint; False where another run has used it."""
        if number in self.manifests:
            return self.manifests[number].run == run
        return self.void.setdefault(number, run) == run

    def create_manifest(self, number: int, manifest: SimulatedManifest) -> None:
        """Make a checkpoint complete."""
        self.manifests.setdefault(number, manifest)
        self.named |= {(number, task, batch) for task, batch in manifest.transactions}
        self.note(manifest.run, ManifestCreated(number))

    def commit(self, run: int, number: int, task: SubtaskId, batch: int) -> None:
        """Show a batch in the sink; again is harmless."""
        records = self.tasks[task].records
        self.note(
            run, BatchCommitted(number, task, batch, (number, task, batch) in self.named and batch < len(records))
        )
        if (task, batch) not in self.visible:
            self.visible.add((task, batch))
            self.sink.update(row for record in records[batch : batch + 1] for row in record.rows)

    def commit_by_number(self, number: int, batches: Iterable[tuple[SubtaskId, int]]) -> None:
        """Show batches in the table, all at once, unless it has the checkpoint or a later one already."""
        if number > self.table_upto:
            self.table_upto = number
            for task, batch in batches:
                self.table.update(self.tasks[task].records[batch].rows)

    def batch(
        self, task: SubtaskId, after: int, rows_each: int, readable: Mapping[SubtaskId, int], sources: bool
    ) -> Record | None:
        """A batch of up to `rows_each` new rows of every source and that many batches of every channel, as far as it
        is readable; None where there is nothing to read."""
        files = self.tasks[task]
        before = files.at(after)
        positions, read = dict(before.positions), dict(before.read)
        new: list[Row] = []
        for uid, size in files.sources.items() if sources else ():
            until = positions[uid] + rows_each if size is None else min(positions[uid] + rows_each, size)
            new += [(uid, position, (task.task,)) for position in range(positions[uid], until)]
            positions[uid] = until
        for producer in files.producers:
            until = min(read[producer] + rows_each, readable.get(producer, 0))
            consumers = self.consumers[producer][task.task]
            for record in self.tasks[producer].records[read[producer] : until]:
                new += [
                    (uid, position, (*via, task.task))
                    for uid, position, via in record.rows
                    if consumers[position % len(consumers)] == task
                ]
            read[producer] = max(until, read[producer])
        if positions == before.positions and read == before.read:
            return None
        rows = (*before.held, *new)
        return Record(rows[:-HELD], positions, read, rows[-HELD:])

    def record(self, task: SubtaskId, batch: int, record: Record) -> Record:
        """Create a batch record; returns the one that is there."""
        records = self.tasks[task].records
        if len(records) == batch:
            records.append(record)
        return records[batch]

    def forked(self, number: int) -> World:
        """Return another world that continues a checkpoint of this one, its sink showing what that one has committed.

        What has finished for good has no query there: Spark has committed nothing of it.
        """
        manifest = self.manifests[number]
        snapshots = manifest.snapshots
        tasks = {
            task: TaskFiles(
                files.sources,
                files.producers,
                files.records[: snapshots[task].batch + 1],
                -1 if manifest.needs_no_state(task.task) else snapshots[task].batch,
                snapshots[task].end,
            )
            for task, files in self.tasks.items()
        }
        fork = World(self.graph, tasks, self.consumers, table_upto=number, opened_from=number)
        fork.create_manifest(number, self.manifests[number])
        for task, files in tasks.items():
            for batch, record in enumerate(files.records):
                fork.visible.add((task, batch))
                fork.sink.update(record.rows)
                fork.table.update(record.rows)
        return fork

    def discard_older(self, run: int, keep: int, pinned: Collection[int]) -> None:
        """Delete all manifests but the newest `keep` and those that are `pinned`."""
        newest = max(self.manifests, default=None)
        for number in sorted(self.manifests, reverse=True)[keep:]:
            if number not in pinned:
                del self.manifests[number]
        oldest = min(self.manifests, default=0)
        self.void = {number: by for number, by in self.void.items() if number > oldest}
        self.note(run, Discarded(newest is not None and newest not in self.manifests))

    def record_result(self, run: int, result: c.RecordResult, last: Mapping[SubtaskId, int]) -> None:
        """Make durable how a run ended; `last`: the last batch of each task that the run knows of."""
        batches = ((task, batch) for task, until in last.items() for batch in range(until + 1))
        self.results[run] = result
        self.note(run, ResultDurable(result.state, tuple(one for one in batches if one not in self.visible)))

    def rows_expected(self) -> Iterable[Row]:
        """Return every row that was read, after every task it has to go through."""
        after: dict[str, set[Row]] = {}
        topology = self.graph.topology
        for uid in topology.order:
            after[uid] = {
                (source, index, (uid,))
                for task, files in self.tasks.items()
                if task.task == uid
                for source, position in files.last.positions.items()
                for index in range(position)
            }
            for edge in topology.inputs_of(uid):
                after[uid] |= {(source, index, (*via, uid)) for source, index, via in after[edge.source]}
            yield from after[uid]
