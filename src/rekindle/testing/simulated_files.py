"""The files in the folders of a simulated job: batch records, ends, snapshots and manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.ids import SubtaskId

Row = tuple[str, int, tuple[str, ...]]
"""A row: its source, its position there, and the tasks it went through."""

HELD = 2
"""Rows that the state of a task holds back until newer ones, or a flush, push them out: an open window."""


@dataclass(frozen=True, slots=True)
class SimulatedRecord:
    """A batch record: rows put out, position in each source and channel, and rows held back after it."""

    rows: tuple[Row, ...]
    positions: Mapping[str, int]
    #: producer → how many of its batches were read
    read: Mapping[SubtaskId, int]
    held: tuple[Row, ...]
    #: True if it read nothing: what followed from the batch before it, of which windows were over
    is_still: bool = False

    def flushed(self) -> SimulatedRecord:
        """Return the batch after it that reads nothing and puts out all that is held back."""
        return SimulatedRecord(self.held, self.positions, self.read, ())

    def stilled(self) -> SimulatedRecord:
        """Return the batch after it that reads nothing and puts out what is over of all that is held back."""
        return SimulatedRecord(self.held[:1], self.positions, self.read, self.held[1:], is_still=True)


@dataclass(frozen=True, slots=True)
class SimulatedEnd:
    """The end marker of a subtask."""

    batch: int
    drained: bool


@dataclass(slots=True)
class TaskFiles:
    """The folder of a subtask."""

    #: source → rows in it; None: it never ends
    sources: Mapping[str, int | None]
    producers: tuple[SubtaskId, ...] = ()
    records: list[SimulatedRecord] = field(default_factory=list)
    #: last batch that Spark has committed
    committed: int = -1
    end: SimulatedEnd | None = None
    drain_begun: bool = False
    #: takes its time over each batch, so that channels fill up in front of it
    slow: bool = False

    @property
    def batch(self) -> int:
        """The last batch that counts, -1 for none; one that a driver that slept put after the end does not."""
        return len(self.records) - 1 if self.end is None else self.end.batch

    @property
    def last(self) -> SimulatedRecord:
        """The last record, or the one from which a task begins."""
        return self.at(self.batch)

    def at(self, batch: int) -> SimulatedRecord:
        """Return the record of a batch; for -1 the record from which a task begins."""
        if batch >= 0:
            return self.records[batch]
        return SimulatedRecord((), dict.fromkeys(self.sources, 0), dict.fromkeys(self.producers, 0), ())

    def create(self, batch: int, record: SimulatedRecord) -> SimulatedRecord:
        """Create a batch record; return the one that is there."""
        if len(self.records) == batch:
            self.records.append(record)
        return self.records[batch]

    def sources_ended_at(self, batch: int) -> bool:
        """Return True if all rows of all sources are in a record up to `batch`."""
        positions = self.at(batch).positions
        return all(size is not None and positions[uid] >= size for uid, size in self.sources.items())


@dataclass(frozen=True, slots=True)
class SimulatedSnapshot:
    """A subtask's share of a checkpoint."""

    batch: int
    end: SimulatedEnd | None
    #: producer → how many of its batches were read, as of that batch
    read: Mapping[SubtaskId, int] = field(default_factory=dict)
    #: producer → places in flight
    in_flight: Mapping[SubtaskId, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimulatedManifest:
    """A completed checkpoint."""

    #: run that made it
    run: int
    snapshots: Mapping[SubtaskId, SimulatedSnapshot]
    #: batches to commit
    transactions: tuple[tuple[SubtaskId, int], ...]

    @property
    def drained(self) -> bool:
        """True if a task in it was ended by a drain, so that a start continues it only when that is asked for."""
        return any(snapshot.end is not None and snapshot.end.drained for snapshot in self.snapshots.values())

    def needs_no_state(self, task: str) -> bool:
        """Return True if nothing starts a task again: all of it has finished, and no drain ended it."""
        ends = [snapshot.end for subtask, snapshot in self.snapshots.items() if subtask.task == task]
        return all(end is not None and not end.drained for end in ends)
