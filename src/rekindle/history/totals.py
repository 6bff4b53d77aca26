"""The output of the subtasks of a job, over all of its runs: batches and rows, and rows that wait to be committed.

Rows are counted by the batch records. A driver that dies has shown less than it recorded, so the next run of the same
lineage looks at the records in between: no row is missed, and none counts twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from rekindle.errors import StorageError
from rekindle.graph.changes import renames
from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import CheckpointStats, Failure, Status, TaskStatusDocument

_MOST_APART = 10_000
"""Batches of a subtask that are counted one by one until they are committed; of more the oldest two count as one."""


class Totals:
    """The counts of a job, of which this run has its part.

    Args:
        before: each subtask as the last status that an earlier run has written shows it, see `taken_over`.
    """

    def __init__(self, storage: BatchDocuments, run: Run, before: Mapping[SubtaskId, TaskStatusDocument]) -> None:
        self._storage = storage
        self._run = run
        #: subtask → batches, and rows that went out; None where none were counted
        self.batches = {task: shown.batches for task, shown in before.items()}
        self.rows_out: dict[SubtaskId, int | None] = {task: shown.rows_out for task, shown in before.items()}
        #: subtask → the last batch that is counted
        self._counted = {task: shown.batch for task, shown in before.items()}
        #: rows of each batch that no checkpoint has committed
        self._waiting: dict[SubtaskId, dict[int, int]] = {}
        #: checkpoint → the last batch of each subtask that it commits
        self._covered: dict[int, dict[SubtaskId, int]] = {}

    def started(self, event: e.JobStarted) -> None:
        """Count what was recorded since the last status, where this run continues the same records."""
        for task, restored in event.tasks.items():
            counted = self._counted.get(task, -1)
            self._counted[task] = restored.batch
            if self._run.lineage == self._run.run:
                continue
            for batch in range(min(counted, restored.committed) + 1, restored.batch + 1):
                rows = self._rows_of(task, batch)
                if batch > counted:
                    self._count(task, rows)
                if batch > restored.committed:
                    self._wait(task, batch, rows)

    def recorded(self, event: e.BatchRecorded) -> None:
        """Count a batch, once."""
        if event.batch > self._counted.get(event.task, -1):
            self._counted[event.task] = event.batch
            self._count(event.task, event.rows_out)
            self._wait(event.task, event.batch, event.rows_out)

    def covers(self, checkpoint: int, transactions: Mapping[SubtaskId, tuple[int, int]]) -> None:
        """Note that a checkpoint is about to name these batches."""
        self._covered[checkpoint] = {task: last for task, (_, last) in transactions.items()}

    def committed(self, checkpoint: int) -> None:
        """Note that what a checkpoint has named is committed; earlier checkpoints are committed too, or have failed."""
        for number in [number for number in self._covered if number < checkpoint]:
            del self._covered[number]
        for task, last in self._covered.pop(checkpoint, {}).items():
            waiting = self._waiting.get(task, {})
            self._waiting[task] = {batch: rows for batch, rows in waiting.items() if batch > last}

    def waiting(self, task: SubtaskId) -> int | None:
        """Return the number of rows of a subtask that wait to be committed; None where none are counted."""
        return None if self.rows_out.get(task) is None else sum(self._waiting.get(task, {}).values())

    def _count(self, task: SubtaskId, rows: int | None) -> None:
        self.batches[task] = self.batches.get(task, 0) + 1
        if rows is not None:
            self.rows_out[task] = (self.rows_out.get(task) or 0) + rows

    def _wait(self, task: SubtaskId, batch: int, rows: int | None) -> None:
        waiting = self._waiting.setdefault(task, {})
        if rows:
            waiting[batch] = rows
        if len(waiting) > _MOST_APART:
            oldest, second, *_ = waiting
            waiting[second] += waiting.pop(oldest)

    def _rows_of(self, task: SubtaskId, batch: int) -> int | None:
        folder = layout.subtask(self._storage.job, task.task, task.subtask, self._run.lineage)
        with suppress(StorageError):
            record = self._storage.record(folder, batch)
            return record.rows_out if record is not None else None
        return None


def taken_over(
    last: Status | None, graph: JobGraph, subtasks: Collection[SubtaskId]
) -> dict[SubtaskId, TaskStatusDocument]:
    """Return each subtask as the last status of an earlier run shows it.

    A task that was renamed takes over the counts of its old uid, and the first subtask of a task those of subtasks that
    are no more.
    """
    shown = sorted(last.tasks if last else (), key=lambda one: one.subtask)
    now = {old: new for new, old in renames(graph, {one.uid for one in shown}).items()}
    found: dict[SubtaskId, TaskStatusDocument] = {}
    for one in shown:
        task = SubtaskId(now.get(one.uid, one.uid), one.subtask)
        task = task if task in subtasks else SubtaskId(task.task, 0)
        first = found.get(task)
        found[task] = one if first is None else _together(first, one)
    return found


def _together(first: TaskStatusDocument, other: TaskStatusDocument) -> TaskStatusDocument:
    return replace(
        first,
        rows_in=sum_of((first.rows_in, other.rows_in)),
        rows_of_sources=sum_of((first.rows_of_sources, other.rows_of_sources)),
        rows_out=sum_of((first.rows_out, other.rows_out)),
        batches=first.batches + other.batches,
    )


def sum_of(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the counts that are not None; None: there are none."""
    found = [count for count in counts if count is not None]
    return sum(found) if found else None


def earlier_failures(last: Status | None, run: Run) -> tuple[Failure | None, int]:
    """Return the last failure, and the restarts, of the earlier runs of this process."""
    return (last.failure, last.restarts) if last is not None and run.since is not None else (None, 0)


def earlier_stats(last: Status | None) -> tuple[CheckpointStats, ...]:
    """Return the checkpoints that are shown from run to run; one that was in progress when a driver died has failed."""
    return tuple(
        replace(stats, status="failed", failure="the driver ended") if stats.status == "in_progress" else stats
        for stats in (last.history if last else ())
    )
