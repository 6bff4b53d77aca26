"""The durable world of a simulated job: what would lie in its storage and its sinks, in memory.

Everything in here survives a crash of the driver, nothing else does. Each write is one step, so that a crash may fall
between any two. The world knows no protocol: it does what it is told and keeps a history of it, which
`rekindle.testing.invariants` judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e

Row = tuple[str, int]
"""A row: its source and its position there."""

HELD = 2
"""Rows that the state of a task holds back until newer ones, or a flush, push them out: an open window."""


@dataclass(frozen=True, slots=True)
class Record:
    """A batch record: rows put out, position in each source and rows held back after it."""

    rows: tuple[Row, ...]
    positions: Mapping[str, int]
    held: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The end marker of a subtask."""

    batch: int
    drained: bool


@dataclass(slots=True)
class TaskFiles:
    """The folder of a subtask."""

    #: source → rows in it; None: it never ends
    sources: Mapping[str, int | None]
    records: list[Record] = field(default_factory=list)
    #: last batch that Spark has committed
    committed: int = -1
    end: End | None = None
    drain_begun: bool = False

    @property
    def last(self) -> Record:
        """The last record, or where a task begins."""
        return self.records[-1] if self.records else Record((), dict.fromkeys(self.sources, 0), ())

    @property
    def inputs_ended(self) -> bool:
        """Whether all rows of all sources are in a record."""
        return all(size is not None and self.last.positions[uid] >= size for uid, size in self.sources.items())

    def read(self, rows_each: int) -> None:
        """Record a batch of up to `rows_each` new rows of every source."""
        before, positions = self.last, dict(self.last.positions)
        new: list[Row] = []
        for uid, size in self.sources.items():
            until = positions[uid] + rows_each if size is None else min(positions[uid] + rows_each, size)
            new += [(uid, position) for position in range(positions[uid], until)]
            positions[uid] = until
        rows = (*before.held, *new)
        self.records.append(Record(rows[:-HELD], positions, rows[-HELD:]))

    def flush(self) -> None:
        """Record a batch that puts out all that is held back."""
        self.records.append(Record(self.last.held, self.last.positions, ()))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A subtask's share of a checkpoint."""

    batch: int
    end: End | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A completed checkpoint."""

    snapshots: Mapping[SubtaskId, Snapshot]
    #: batches to commit
    transactions: tuple[tuple[SubtaskId, int], ...]


@dataclass(frozen=True, slots=True)
class ManifestCreated:
    """Fact: a manifest is durable."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """Fact: the rows of a batch are visible in the sink; `named`: a durable manifest named it at that moment."""

    checkpoint: int
    task: SubtaskId
    batch: int
    named: bool


@dataclass(frozen=True, slots=True)
class Discarded:
    """Fact: old checkpoints were deleted; `newest`: the newest of all was among them."""

    newest: bool


@dataclass(frozen=True, slots=True)
class ResultDurable:
    """Fact: a result is durable; `uncommitted`: batches that Spark had committed and the sinks had not."""

    state: str
    uncommitted: tuple[tuple[SubtaskId, int], ...]


@dataclass(frozen=True, slots=True)
class DriverDied:
    """Fact: the driver was killed."""


Entry = tuple[int, object]
"""Number of the run, and an event it heard, a command it gave, or a fact."""


@dataclass(slots=True)
class World:
    """Everything durable, and the history of how it came about."""

    tasks: dict[SubtaskId, TaskFiles]
    manifests: dict[int, Manifest] = field(default_factory=dict)
    #: batches whose rows the sink shows
    visible: set[tuple[SubtaskId, int]] = field(default_factory=set)
    sink: Counter[Row] = field(default_factory=Counter)
    savepoints: dict[str, int] = field(default_factory=dict)
    results: dict[int, c.RecordResult] = field(default_factory=dict)
    run: int = 0
    history: list[Entry] = field(default_factory=list)

    def note(self, thing: object) -> None:
        """Write something into the history."""
        self.history.append((self.run, thing))

    def facts(self, now_ms: int) -> e.JobStarted:
        """Begin the next run: what a driver reads from the storage, by the rules of the driver."""
        self.run += 1
        latest = max(self.manifests, default=None)
        snapshots = {} if latest is None else self.manifests[latest].snapshots
        tasks = {}
        for task, files in self.tasks.items():
            seen = task in snapshots and snapshots[task].end is not None
            drained = files.end is not None and files.end.drained
            ended = files.end is not None and not seen
            tasks[task] = e.RestoredTask(closed=seen, ended=ended, drained=drained)
        draining = any(files.drain_begun and files.end is None for files in self.tasks.values())
        return e.JobStarted(
            now_ms=now_ms,
            next_checkpoint=(latest or 0) + 1,
            latest_checkpoint=latest,
            tasks=tasks,
            draining=draining,
        )

    def create_manifest(self, number: int, manifest: Manifest) -> None:
        """Make a checkpoint complete."""
        self.manifests.setdefault(number, manifest)
        self.note(ManifestCreated(number))

    def commit(self, number: int, task: SubtaskId, batch: int) -> None:
        """Show a batch in the sink; again is harmless."""
        named = number in self.manifests and (task, batch) in self.manifests[number].transactions
        self.note(BatchCommitted(number, task, batch, named))
        if (task, batch) not in self.visible:
            self.visible.add((task, batch))
            self.sink.update(self.tasks[task].records[batch].rows)

    def discard_older(self, keep: int) -> None:
        """Delete all manifests but the newest `keep`."""
        newest = max(self.manifests, default=None)
        for number in sorted(self.manifests, reverse=True)[keep:]:
            del self.manifests[number]
        self.note(Discarded(newest is not None and newest not in self.manifests))

    def record_result(self, result: c.RecordResult) -> None:
        """Make durable how the run ended."""
        batches = ((task, batch) for task, files in self.tasks.items() for batch in range(files.committed + 1))
        self.results[self.run] = result
        self.note(ResultDurable(result.state, tuple(one for one in batches if one not in self.visible)))

    def rows_read(self) -> Iterable[Row]:
        """Every row that is in a record."""
        for files in self.tasks.values():
            for uid, position in files.last.positions.items():
                yield from ((uid, index) for index in range(position))
