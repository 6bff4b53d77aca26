"""The documents of one job as a monitor reads them: what cannot change is read once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from rekindle.errors import StorageError
from rekindle.monitoring.carried import carried_over
from rekindle.monitoring.remembered_logs import RememberedLogs
from rekindle.monitoring.sign_of_life import Pulse
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.codec import Document, decode
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import JobDescription, Result, Run
from rekindle.storage.documents.status import AT_WORK, CREATED, LOST, RUNNING, Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import is_alive
from rekindle.storage.port import NotFound, Store

SILENT = "SILENT"
"""State of a job whose driver seems to run and gives no sign of life."""

_RUN = re.compile(r"(\d+)\.json")
_DOCUMENTS = 8
"""Documents of a job that are remembered as long as their bytes do not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The present state of a job, with the documents that tell it."""

    state: str
    #: None: no run has started, or the heartbeat alone was read
    run: Run | None = None
    #: of that run; or of the one before it, with what is true over all runs (`carried_over`)
    status: Status | None = None
    result: Result | None = None
    #: there is a heartbeat that is damaged; then `status` is None
    unreadable: bool = False

    @property
    def description(self) -> JobDescription | None:
        """The graph of the run; None: it runs, or ran, with an older version, which recorded none."""
        return self.run.description if self.run else None

    @property
    def begun(self) -> Run | Status | None:
        """The document that says who drives the job, or did; None: no run has started."""
        return self.run or (None if self.state == CREATED else self.status)

    @property
    def heartbeat(self) -> Status | None:
        """The heartbeat of the run in force; None: it has not beaten yet."""
        begun, status = self.begun, self.status
        return status if begun is not None and status is not None and status.run == begun.run else None

    @property
    def version(self) -> str:
        """The version of Rekindle that drives the job, or did; empty: it is not known."""
        if self.run is not None:
            return self.run.description.version if self.run.description else ""
        return self.status.version if self.status else ""

    @property
    def at_work(self) -> bool:
        """Return True if rates and times of the heartbeat are those of now."""
        return self.state in AT_WORK

    @property
    def has_driver(self) -> bool:
        """Return True if a driver seems to be there."""
        return self.at_work or self.state == SILENT


class ReadAgain(JobStorage):
    """The documents of a job that are read again and again: bytes that have not changed are not decoded again."""

    def __init__(self, store: Store, job: str) -> None:
        super().__init__(store, job)
        #: path → digest of its bytes, and what they say
        self._read: dict[str, tuple[bytes, object]] = {}

    def read(self, path: str, kind: type[Document]) -> Document | None:
        """Return the document at `path`, None where there is none."""
        try:
            data = self.store.read(path)
        except NotFound:
            self._read.pop(path, None)
            return None
        digest = blake2b(data, digest_size=16).digest()
        found = self._read.get(path)
        if found is not None and found[0] == digest and isinstance(found[1], kind):
            return found[1]
        document = decode(data, kind, f"{self.store.location.rstrip('/')}/{path}")
        if len(self._read) >= _DOCUMENTS:
            self._read.clear()
        self._read[path] = (digest, document)
        return document


class JobFacts:
    """The documents of the job with the id `identity`, until another one takes its name."""

    def __init__(
        self, storage: CheckpointDocuments, identity: str, now_ms: Callable[[], int], elapsed_ms: Callable[[], int]
    ) -> None:
        self.storage = storage
        self.identity = identity
        self.logs = RememberedLogs(storage, elapsed_ms)
        #: its heartbeat looks old: only a second look after so long shows whether it is silent; 0: it does not
        self.doubtful_ms = 0
        #: time since its heartbeat was seen to be replaced, ms; None: it was not yet
        self.still_ms: int | None = None
        self._pulse = Pulse(storage.store, now_ms, elapsed_ms)
        #: documents that were read; replaced as a whole where one is gone: other threads may just be looking it up
        self._runs: dict[int, Run] = {}
        self._results: dict[int, Result] = {}
        self._manifests: dict[int, Manifest | None] = {}

    def now(self) -> Now:
        """Read where the job stands, as `JobStorage.state` finds it, with the finer word of the heartbeat."""
        return self._now(self.storage.status())

    def at_a_glance(self, status: Status | None) -> Now:
        """Read the same by a heartbeat: of a run that it shows to be over or at work, nothing else.

        Who claims the next run takes that back before. In a directory, where reads cost nothing, a look whether there
        is a next run comes first, and of a run that is not over all is read.
        """
        if status is None:
            return self._now(status)
        store = self.storage.store
        if store.pace > 1:
            is_clear = status.result is not None or self.is_well(status)
        else:
            is_clear = status.result is not None and not store.exists(layout.run(self.storage.job, status.run + 1))
        if not is_clear:
            return self._now(status)
        return Now(state=(status.result or status).state, status=status, result=status.result)

    def is_well(self, status: Status) -> bool:
        """Return True if a heartbeat alone shows a run at work: it is young, its process not known to be gone."""
        if status.state not in AT_WORK or status.newest is None or is_alive(status) is False:
            return False
        is_well = not self._pulse.is_silent(status) and not self._pulse.doubtful_ms
        if is_well:
            self.doubtful_ms, self.still_ms = 0, self._pulse.still_ms
        return is_well

    def _now(self, status: Status | None) -> Now:
        run = self._run_in_force(status)
        if run is None:
            return Now(state=CREATED, status=status)
        driver = self.storage.sign_of(run, status)
        self.doubtful_ms = 0
        # In this order: a driver writes its result and then ends, so one that is dead has written it or never will.
        alive = is_alive(driver)
        result = self.result(run.run)
        if result is not None:
            state = result.state
        elif alive is False:
            state = LOST
        elif self._pulse.is_silent(driver):
            state = SILENT
        else:
            self.still_ms = self._pulse.still_ms
            state = driver.state if isinstance(driver, Status) else RUNNING
            self.doubtful_ms = self._pulse.doubtful_ms
        unreadable = status is None and self.storage.store.exists(layout.status(self.storage.job))
        shown = None if status is None else carried_over(status, run)
        return Now(state=state, run=run, status=shown, result=result, unreadable=unreadable)

    def _run_in_force(self, status: Status | None) -> Run | None:
        """Return the newest run. Where lists are paid for, it is that of the heartbeat unless there is a next one."""
        if status is not None and self.storage.store.pace > 1:
            found = self.storage.run(status.run)
            if found is not None and self.storage.run(status.run + 1) is None:
                return found
        return self.storage.latest_run()

    def result(self, run: int) -> Result | None:
        """Read how a run ended."""
        known = self._results
        if run not in known:
            found = self.storage.result(run)
            if found is None:
                return None
            known[run] = found
        return known[run]

    def runs(self) -> list[Run]:
        """Read all runs, the newest first."""
        names = self.storage.store.names(layout.runs(self.storage.job))
        numbers = sorted((int(match[1]) for name in names if (match := _RUN.fullmatch(name))), reverse=True)
        known, results = self._runs, self._results
        read = ((number, known.get(number) or self.storage.run(number)) for number in numbers)
        self._runs = runs = {number: run for number, run in read if run is not None}
        self._results = {number: results[number] for number in numbers if number in results}
        return [*runs.values()]

    def kept(self) -> list[int]:
        """Return the numbers of checkpoints whose folder is there, and of those that no checkpoint may have."""
        numbers, known = self.storage.numbers_used(), self._manifests
        self._manifests = {number: known[number] for number in numbers if number in known}
        return numbers

    def manifest(self, checkpoint: int) -> Manifest | None:
        """Read the manifest of a checkpoint; None where there is none that can be read."""
        known = self._manifests
        if checkpoint not in known:
            try:
                known[checkpoint] = self.storage.manifest(checkpoint)
            except StorageError as error:
                if error.code not in ("OBJECT_CORRUPT", "FORMAT_NEWER"):
                    raise
                return None
        return known[checkpoint]
