"""The runs of a job: the driver of each, how it ended, and the state of the job that follows."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.errors import ControlError, StorageError
from rekindle.storage import layout
from rekindle.storage.codec import Document
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.documents.status import CREATED, LOST, RUNNING, Status
from rekindle.storage.fence import Fence
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.liveness import is_alive
from rekindle.storage.port import Store
from rekindle.storage.reserve import free_reserve


class RunDocuments(JobDocuments):
    """The identity, the runs, the lineage and the heartbeat of a job."""

    def __init__(self, store: Store, job: str) -> None:
        super().__init__(store, job)
        self.fence = Fence(store, job)

    def identity(self) -> Identity | None:
        """Return the identity of the job in this folder; None where there is no job."""
        return self.read(layout.identity(self.job), Identity)

    def run(self, run: int) -> Run | None:
        """Return how run number `run` was started; None where there is no such run."""
        return self.read(layout.run(self.job, run), Run)

    def latest_run(self) -> Run | None:
        """Return the run that is in force, the one with the highest number; None where no run has started."""
        return next(self.newest_first(layout.runs(self.job), self.run), None)

    def result(self, run: int) -> Result | None:
        """Return how run number `run` ended; None where it has not, or its driver was killed."""
        return self.read(layout.result(self.job, run), Result)

    def record_result(self, result: Result) -> Result:
        """Write how a run ended, also on a disk that is full; return the result that is stored."""
        path = layout.result(self.job, result.run)
        try:
            return self.adopt(path, result)
        except StorageError as error:
            if error.code != "STORAGE_FULL":
                raise
            free_reserve(self.store, self.job)
            return self.adopt(path, result)

    def lineage(self) -> Lineage | None:
        """Return the lineage that is in force, the one with the highest number; None where there is none."""
        return next(self.lineages(), None)

    def lineages(self) -> Iterator[Lineage]:
        """Yield the lineages, the newest first."""
        return self.newest_first(
            layout.lineages(self.job), lambda number: self.read(layout.lineage(self.job, number), Lineage)
        )

    def status(self) -> Status | None:
        """Return the last heartbeat, of any run; None where there is none, or where it is damaged."""
        return self._read_sign(layout.status(self.job), Status)

    def _read_sign(self, path: str, kind: type[Document]) -> Document | None:
        try:
            return self.read(path, kind)
        except StorageError as error:
            if error.code != "OBJECT_CORRUPT":
                raise
            return None

    def driver(self) -> Run | Status | None:
        """Return the latest sign of life of the run in force, for `is_alive`."""
        run = self.latest_run()
        return self.sign_of(run, self.status()) if run is not None else None

    def sign_of(self, run: Run, status: Status | None) -> Run | Status:
        """Return the latest sign of life of a run: the job's heartbeat `status` if it is the run's, or its start's."""
        if status is not None and status.run == run.run:
            return status
        starting = self._read_sign(layout.status(self.job, begun=False), Run)
        return starting if starting is not None and starting.run == run.run else run

    def state(self, earlier: Run | Status | None = None) -> str:
        """Return the job's state: the result of the run in force, else ``RUNNING`` or ``LOST``; or ``CREATED``.

        One read can't show that a driver on another machine is dead: the answer is then ``RUNNING``. `earlier` is what
        `driver` returned `liveness.silence_ms` before.
        """
        driver = self.driver()
        if driver is None:
            return CREATED
        # In this order: a driver writes its result and then ends, so one that is dead has written it or never will.
        alive = is_alive(driver, earlier)
        result = self.result(driver.run)
        if result is not None:
            return result.state
        return LOST if alive is False else RUNNING


def check_run(storage: RunDocuments, run: int) -> None:
    """Raise ``RUN_UNKNOWN`` where a job has no run of this number."""
    if storage.run(run) is None:
        raise ControlError("RUN_UNKNOWN", run=run, job=storage.job)


def last_begun(storage: RunDocuments, before: int | None = None) -> tuple[Run | None, Result | None]:
    """Return the newest run that did not end before it began, and its result; `before`: only of lower numbers."""
    for run in storage.newest_first(layout.runs(storage.job), storage.run):
        if before is None or run.run < before:
            result = storage.result(run.run)
            if result is None or result.began:
                return run, result
    return None, None
