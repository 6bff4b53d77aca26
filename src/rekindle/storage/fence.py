"""The fence of a job: its driver is that of the run with the highest number, as long as the job is there."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from dataclasses import replace

from rekindle.errors import ControlError, StorageError
from rekindle.storage import layout
from rekindle.storage.bell import ring
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import AT_WORK, LOST, Status
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.port import NotFound, Store

LIST_S = 600.0
"""Seconds for which one list of the runs is good, where a list is paid for: until then the next number is looked for.

Each claim takes the number after the newest, so that number is there before any other. It is deleted after 200 more.
"""

_OF_RUN = re.compile(r"(\d+)(?:\.result)?\.json")


class Fence(JobDocuments):
    """The guard that keeps out a driver whose job another one has taken over, or whose job was deleted."""

    def __init__(self, store: Store, job: str) -> None:
        super().__init__(store, job)
        self._listed_s = float("-inf")

    def claim(self, run: Run) -> bool:
        """Become the driver: create a run, which fences all earlier ones; False where its number is taken."""
        self.take_back(run.run)
        claimed = self.create(layout.run(self.job, run.run), run)
        if claimed:
            ring(self.store, self.job, f"run {run.run}")
        return claimed

    def take_back(self, run: int) -> None:
        """Take out of an earlier heartbeat how its run ended, or that it is at work: that says nothing of `run`."""
        try:
            status = self.read(layout.status(self.job), Status)
        except StorageError as error:
            if error.code != "OBJECT_CORRUPT":
                raise
            return
        if status is None or status.run >= run:
            return
        state = LOST if status.state in AT_WORK else status.state
        taken_back = replace(status, state=state, result=None)
        if taken_back != status:
            self.replace(layout.status(self.job), taken_back)

    def newer_than(self, run: int) -> int | None:
        """Return the number of the newest run after `run`, which has taken over; None where `run` is in force."""
        now_s = time.monotonic()
        if self.store.pace > 1 and now_s - self._listed_s < LIST_S and not self._is_there(run + 1):
            return None
        newest = max(self.numbers(layout.runs(self.job)), default=run)
        self._listed_s = now_s
        return newest if newest > run else None

    def _is_there(self, run: int) -> bool:
        try:
            self.store.read(layout.run(self.job, run))
        except NotFound:
            return False
        return True

    def check(self, run: int) -> None:
        """Raise ControlError ``DRIVER_FENCED`` where a newer run has taken over from `run`."""
        newer = self.newer_than(run)
        if newer is not None:
            raise ControlError("DRIVER_FENCED", run=run, job=self.job, newer=newer)

    def is_deleted(self, run: Run) -> bool:
        """Return True if the job is gone, or its claimed `run` is, or a run of another job has the number of `run`."""
        found = self.read(layout.run(self.job, run.run), Run) if self.store.exists(layout.identity(self.job)) else None
        return found is None or found.token != run.token

    def forget(self, keep: int, needed: Collection[int]) -> None:
        """Delete how runs began and ended, except the newest `keep`, those that are `needed`, and the one after each.

        So who knows a run that is there sees at the next number whether it is the newest. Their beginnings go first: a
        run without an end would look like one that was killed.
        """
        numbers = sorted({*self._numbers_left()})
        doomed = [number for number in numbers[: max(len(numbers) - keep, 0)] if not {number, number - 1} & {*needed}]
        self.store.delete_many([layout.run(self.job, number) for number in doomed])
        self.store.delete_many([layout.result(self.job, number) for number in doomed])

    def highest_number_left(self) -> int:
        """Return the highest number of a run or lineage of which anything is left, claimed or not; 0: nothing is.

        A driver whose job was deleted writes for a moment more. What it leaves must be in no lineage of the next job.
        """
        folder = layout.tasks(self.job)
        parts = [
            f"{folder}/{uid}/{part}" for uid in self.store.names(folder) for part in self.store.names(f"{folder}/{uid}")
        ]
        return max(
            (*self._numbers_left(), *(number for part in parts for number in self.numbers(part))),
            default=0,
        )

    def _numbers_left(self) -> Iterator[int]:
        """Yield the numbers of the runs of which a beginning or an end is left: once for each of the two."""
        found = (_OF_RUN.fullmatch(name) for name in self.store.names(layout.runs(self.job)))
        return (int(match[1]) for match in found if match)
