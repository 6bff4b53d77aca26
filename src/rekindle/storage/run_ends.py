"""The ends of a run's subtasks: those that were there when it began, and its own.

A driver that was taken for dead may wake up and record that a subtask has ended, or that a drain of it has begun. Its
successor may have read more by then, or be about to. So a run takes no notice of what appears later, and what it
records itself takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.documents.batch import Drain, End
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage


class RunEnds:
    """The ends that count in one run.

    Args:
        storage: of the job.
        run: the one in force.
        subtasks: those of its lineage.
    """

    def __init__(self, storage: JobStorage, run: Run, subtasks: Iterable[SubtaskId]) -> None:
        self._storage = storage
        self._run = run.run
        self._folders = [layout.subtask(storage.job, *subtask, run.lineage) for subtask in subtasks]
        #: folder of a subtask → its end
        self._known = {folder: end for folder in self._folders if (end := storage.end(folder)) is not None}

    def of(self, folder: str) -> End | None:
        """Return the end of a subtask; None until it has finished its operator logic (EndOfData). Reads nothing."""
        return self._known.get(folder)

    def find(self, folder: str) -> End | None:
        """Return the same, also where this run has recorded it and the answer was lost."""
        if folder not in self._known:
            found = self._storage.end(folder)
            if found is None or found.run != self._run:
                return None
            self._known[folder] = found
        return self._known[folder]

    def record(self, folder: str, end: End) -> None:
        """Record the end of a subtask.

        Raises:
            ControlError: ``DRIVER_FENCED``.
            StorageError: the storage refuses.
        """
        self._storage.fence.check(self._run)
        if not self._storage.create(layout.end(folder), end) and self.find(folder) is None:
            self._storage.replace(layout.end(folder), end)
        self._known[folder] = end

    def take_over_drains(self, now_ms: int) -> None:
        """Record that the drains that were cut short are carried through by this run; raises as `record` does."""
        for folder in self._folders:
            if folder not in self._known and self._storage.drain(folder) is not None:
                self.begin_drain(folder, now_ms)

    def begin_drain(self, folder: str, now_ms: int) -> None:
        """Record that this run drains a subtask; raises as `record` does."""
        self._storage.fence.check(self._run)
        path, drain = layout.drain(folder), Drain(run=self._run, begun_ms=now_ms)
        if not self._storage.create(path, drain):
            begun = self._storage.drain(folder)
            if begun is None or begun.run != self._run:
                self._storage.replace(path, drain)
