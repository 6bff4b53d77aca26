"""The documents of one job, and the facts that follow from them.

The driver writes through here, and every verb reads through here, without a JVM and while the job runs: whatever is
listed may be gone when it is read, and is then left out. A damaged document raises ``OBJECT_CORRUPT``, one of a newer
version ``FORMAT_NEWER``, both with its place.

What is written once (runs, records, manifests, answers) is created, never replaced: who loses a create adopts what is
there. This module knows which documents there are and where they lie; what follows from them for a running
job is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from rekindle.errors import ControlError, RestoreError, StorageError
from rekindle.ids import check_uid
from rekindle.storage import layout
from rekindle.storage.codec import Document, decode, encode
from rekindle.storage.documents.batch import BatchRecord, Drain, End
from rekindle.storage.documents.checkpoint import Manifest, Void
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.documents.status import Status
from rekindle.storage.liveness import is_alive
from rekindle.storage.port import NotFound, Store

CREATED = "CREATED"
"""State of a job that no driver has started yet."""

RUNNING = "RUNNING"
"""State of a job whose driver seems to be alive; its heartbeat has the finer word."""

LOST = "LOST"
"""State of a job whose driver is gone without having written a result: killed, or its machine died."""

_RESERVE_BYTES = 64 * 1024
"""More than a result takes, since others may be waiting for room too."""

_NUMBERED = re.compile(r"(\d+)(?:\.json)?")
_RESULT = re.compile(r"(\d+)\.result\.json")
_OF_RUN = re.compile(r"(\d+)(?:\.result)?\.json")
_REQUEST = re.compile(r"(.+)\.request\.json")
_ANSWER = re.compile(r"(.+)\.answer\.json")


class Control(NamedTuple):
    """What lies in the control folder of a job."""

    #: requests that have no answer yet, oldest first
    requests: tuple[Request, ...]
    #: those that are damaged or of a newer version: id → why. They too deserve an answer.
    unreadable: Mapping[str, StorageError]
    #: ids of all requests, and of all that have an answer
    asked: AbstractSet[str]
    answered: AbstractSet[str]


class JobStorage:
    """The documents of the job `job` in `store`; a ``subtask_folder`` is what `layout.subtask` returns."""

    def __init__(self, store: Store, job: str) -> None:
        self.store = store
        self.job = check_uid(job)

    # -- any document -------------------------------------------------------------------------------------------------

    def read(self, path: str, kind: type[Document]) -> Document | None:
        """The document at `path`, None where there is none."""
        return _read(self.store, path, kind)

    def create(self, path: str, document: object) -> bool:
        """Write a document that must not exist yet; False where there is one already, which stays as it is."""
        return self.store.create(path, encode(document))

    def adopt(self, path: str, document: Document) -> Document:
        """Write a document unless there is one already; returns the one that stands."""
        while not self.create(path, document):
            found = self.read(path, type(document))
            if found is not None:
                return found
        return document

    def replace(self, path: str, document: object) -> None:
        """Write a document, whether or not there is one."""
        self.store.replace(path, encode(document))

    # -- the job and its runs -----------------------------------------------------------------------------------------

    def identity(self) -> Identity | None:
        """Which job lives here; None: none does."""
        return self.read(layout.identity(self.job), Identity)

    def run(self, run: int) -> Run | None:
        """How run number `run` was started."""
        return self.read(layout.run(self.job, run), Run)

    def latest_run(self) -> Run | None:
        """The run that is in force: the one with the highest number."""
        return next(self._newest_first(layout.runs(self.job), self.run), None)

    def result(self, run: int) -> Result | None:
        """How run number `run` ended; None: it has not, or its driver was killed."""
        return self.read(layout.result(self.job, run), Result)

    def keep_reserve(self) -> None:
        """Take up room for a result, where a disk may be full one day; there is none to keep in a bucket."""
        path = layout.reserve(self.job)
        if self.store.pace == 1 and not self.store.exists(path):
            self.store.create(path, bytes(_RESERVE_BYTES))

    def record_result(self, result: Result) -> Result:
        """Write how a run ended, also on a disk that is full; returns what stands there."""
        path = layout.result(self.job, result.run)
        try:
            return self.adopt(path, result)
        except StorageError as error:
            if error.code != "STORAGE_FULL":
                raise
            self.store.delete(layout.reserve(self.job))
            return self.adopt(path, result)

    def last_begun(self, before: int | None = None) -> tuple[Run | None, Result | None]:
        """The newest run that did not end before it began, and its result; `before`: of those with lower numbers."""
        for run in self._newest_first(layout.runs(self.job), self.run):
            if before is None or run.run < before:
                result = self.result(run.run)
                if result is None or result.began:
                    return run, result
        return None, None

    def claim(self, run: Run) -> bool:
        """Become the driver: create a run, which fences all earlier ones; False where its number is taken."""
        return self.create(layout.run(self.job, run.run), run)

    def fenced_by(self, run: int) -> int | None:
        """Number of the newest run after `run`, which has taken over; None: `run` is in force."""
        newest = max(self._numbers(layout.runs(self.job)), default=run)
        return newest if newest > run else None

    def refuse_if_fenced(self, run: int) -> None:
        """Raise ControlError ``DRIVER_FENCED`` where a newer run has taken over from `run`."""
        newer = self.fenced_by(run)
        if newer is not None:
            raise ControlError("DRIVER_FENCED", run=run, job=self.job, newer=newer)

    def is_deleted(self, run: Run) -> bool:
        """Return True if the job is gone, or `run`, which was claimed, or where another job's run has its number."""
        found = self.run(run.run) if self.store.exists(layout.identity(self.job)) else None
        return found is None or found.token != run.token

    def highest_number_left(self) -> int:
        """Return the highest number of a run or lineage of which anything is left, claimed or not; 0: nothing is.

        A driver whose job was deleted writes for a moment more. What it leaves must be in no lineage of the next job.
        """
        runs = (match for name in self.store.names(layout.runs(self.job)) if (match := _OF_RUN.fullmatch(name)))
        folder = layout.tasks(self.job)
        parts = [
            f"{folder}/{uid}/{part}" for uid in self.store.names(folder) for part in self.store.names(f"{folder}/{uid}")
        ]
        return max(
            (*(int(match[1]) for match in runs), *(number for part in parts for number in self._numbers(part))),
            default=0,
        )

    def lineage(self) -> Lineage | None:
        """The lineage that is in force: the one with the highest number."""

        def read(number: int) -> Lineage | None:
            return self.read(layout.lineage(self.job, number), Lineage)

        return next(self._newest_first(layout.lineages(self.job), read), None)

    def status(self) -> Status | None:
        """The last heartbeat, of whichever run; a damaged one tells nothing and counts for none."""
        try:
            return self.read(layout.status(self.job), Status)
        except StorageError as error:
            if error.code != "OBJECT_CORRUPT":
                raise
            return None

    def driver(self) -> Run | Status | None:
        """The latest sign of life of the run in force, for `is_alive`: its heartbeat; before the first, its start."""
        run, status = self.latest_run(), self.status()
        return status if run and status and status.run == run.run else run

    def state(self, earlier: Run | Status | None = None) -> str:
        """The job's state in one word: the result of the run in force, else ``RUNNING`` or ``LOST``; or ``CREATED``.

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

    # -- sources and subtasks -----------------------------------------------------------------------------------------

    def frozen_files(self, source: str) -> FrozenFiles | None:
        """The frozen list of the bounded source `source`."""
        return self.read(layout.frozen_files(self.job, source), FrozenFiles)

    def records(self, subtask_folder: str) -> list[int]:
        """Numbers of the batches that have a record, ascending."""
        return self._numbers(layout.batches(subtask_folder))

    def record(self, subtask_folder: str, batch: int) -> BatchRecord | None:
        """The record of a batch."""
        return self.read(layout.batch(subtask_folder, batch), BatchRecord)

    def last_record(self, subtask_folder: str) -> BatchRecord | None:
        """The record of the highest batch: where the subtask durably stands."""

        def read(batch: int) -> BatchRecord | None:
            return self.record(subtask_folder, batch)

        return next(self._newest_first(layout.batches(subtask_folder), read), None)

    def end(self, subtask_folder: str) -> End | None:
        """Set once the subtask has finished its operator logic (EndOfData)."""
        return self.read(layout.end(subtask_folder), End)

    def drain(self, subtask_folder: str) -> Drain | None:
        """Set once a drain has begun on the subtask."""
        return self.read(layout.drain(subtask_folder), Drain)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def manifest(self, checkpoint: int) -> Manifest | None:
        """The manifest of a completed checkpoint; without one a checkpoint does not exist."""
        return _manifest(self.store, layout.checkpoint(self.job, checkpoint))

    def checkpoints(self) -> list[int]:
        """Numbers of the completed checkpoints, newest first; whether their manifests can be read is not looked at."""
        return [number for number in reversed(self.numbers_used()) if self._is_complete(number)]

    def _is_complete(self, checkpoint: int) -> bool:
        try:
            return self.manifest(checkpoint) is not None
        except StorageError as error:
            if error.code not in ("OBJECT_CORRUPT", "FORMAT_NEWER"):
                raise
            return True

    def numbers_used(self) -> list[int]:
        """Numbers that a checkpoint has, or that none may have any more, ascending."""
        return self._numbers(layout.checkpoints(self.job))

    def use_up(self, checkpoint: int, run: int) -> int:
        """Let no checkpoint have a number any more, unless one has it already; returns the run that has used it.

        Numbers are used without a gap, so a driver that was about to use this one, or a later one, comes too late.
        """
        path = layout.manifest(layout.checkpoint(self.job, checkpoint))
        if self.create(path, Void(checkpoint=checkpoint, run=run)):
            return run
        found = self.read(path, _Taken)
        return found.run if found is not None else 0

    def fence_checkpoints(self, run: int) -> None:
        """Let no driver that only seems to be dead complete a checkpoint any more.

        Nothing is done where every earlier run has ended: it then writes none.

        Raises:
            ControlError: ``DRIVER_FENCED``, a newer run has taken over.
        """
        found = self.store.names(layout.runs(self.job))
        ended = {int(match[1]) for name in found if (match := _RESULT.fullmatch(name))}
        if ended.issuperset(number for number in self._numbers(layout.runs(self.job)) if number < run):
            return
        used = 0
        while used != run:
            # If a driver that was thought dead is quicker, its checkpoint counts, and so does the number after it.
            number = max(self.numbers_used(), default=0) + 1
            # After the list: a newer run that is not seen here has used no number of it, so it is met at this one.
            self.refuse_if_fenced(run)
            used = self.use_up(number, run)

    def manifests(self) -> list[Manifest]:
        """The manifests of all completed checkpoints, newest first."""
        return [*self._newest_first(layout.checkpoints(self.job), self.manifest)]

    def newest_manifest(self) -> Manifest | None:
        """The manifest of the newest completed checkpoint, of whichever lineage."""
        return next(self._newest_first(layout.checkpoints(self.job), self.manifest), None)

    def latest_manifest(self, lineage: int) -> Manifest | None:
        """The manifest of the newest checkpoint completed in `lineage`."""
        manifests = self._newest_first(layout.checkpoints(self.job), self.manifest)
        return next((manifest for manifest in manifests if manifest.lineage == lineage), None)

    # -- requests and answers -----------------------------------------------------------------------------------------

    def control(self, heard: Collection[str] = ()) -> Control:
        """What lies in the control folder; requests that were `heard` are not read again."""
        names = self.store.names(layout.control(self.job))
        asked = {match[1] for name in names if (match := _REQUEST.fullmatch(name))}
        answered = {match[1] for name in names if (match := _ANSWER.fullmatch(name))}
        found = {request_id: self._request(request_id) for request_id in sorted(asked - answered - {*heard})}
        requests = (request for request in found.values() if isinstance(request, Request))
        return Control(
            requests=tuple(sorted(requests, key=lambda request: (request.created_ms, request.id))),
            unreadable={one: error for one, error in found.items() if isinstance(error, StorageError)},
            asked=frozenset(asked),
            answered=frozenset(answered),
        )

    def answer(self, answer: Answer) -> Answer:
        """Answer a request, durably; the first answer stands and is returned."""
        return self.adopt(layout.answer(self.job, answer.id), answer)

    def answer_to(self, request_id: str) -> Answer | None:
        """The answer to a request, once there is one."""
        return self.read(layout.answer(self.job, request_id), Answer)

    def forget_request(self, request_id: str) -> None:
        """Delete a request that has an answer, and then the answer."""
        self.store.delete(layout.request(self.job, request_id))
        self.store.delete(layout.answer(self.job, request_id))

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def forget_checkpoints(self, checkpoints: Sequence[int]) -> None:
        """Delete checkpoints, their manifests first: what is left half-way is no checkpoint."""
        folders = [layout.checkpoint(self.job, checkpoint) for checkpoint in checkpoints]
        self.store.delete_many([layout.manifest(folder) for folder in folders])
        self.store.delete_trees(layout.checkpoints(self.job), [folder.rpartition("/")[2] for folder in folders])

    def forget_job(self) -> None:
        """Delete everything of the job, its identity last: one forgotten half-way is listed, to be forgotten again."""
        folder = layout.job(self.job)
        for path in (f"{folder}/{name}" for name in self.store.names(folder)):
            if path != layout.identity(self.job):
                self.store.delete_tree(path)
        self.store.delete_tree(folder)

    # -- what lies in folders -----------------------------------------------------------------------------------------

    def _numbers(self, folder: str) -> list[int]:
        found = (_NUMBERED.fullmatch(name) for name in self.store.names(folder))
        return sorted(int(match[1]) for match in found if match)

    def _newest_first(self, folder: str, read: Callable[[int], Document | None]) -> Iterator[Document]:
        """Read the numbered documents of `folder` one by one, as far as they are asked for."""
        for number in reversed(self._numbers(folder)):
            document = read(number)
            if document is not None:
                yield document

    def _request(self, request_id: str) -> Request | StorageError | None:
        path = layout.request(self.job, request_id)
        try:
            request = self.read(path, Request)
            if request and request.id != request_id:
                raise StorageError("OBJECT_CORRUPT", path=path, reason=f"it calls itself {request.id!r}")
        except StorageError as error:
            if error.code not in ("OBJECT_CORRUPT", "FORMAT_NEWER"):
                raise
            return error
        return request


def jobs(store: Store) -> list[str]:
    """Names of the jobs in a storage, sorted."""
    return [name for name in store.names("") if store.exists(layout.identity(name))]


def read_manifest(store: Store, folder: str) -> Manifest:
    """The manifest of the checkpoint or savepoint at `folder`; ``""`` where `store` is the savepoint's own folder.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``, there is none.
        StorageError: ``OBJECT_CORRUPT`` or ``FORMAT_NEWER``.
    """
    manifest = _manifest(store, folder)
    if manifest is None:
        raise RestoreError("CHECKPOINT_UNKNOWN", path=_place(store, folder))
    return manifest


class _Taken(msgspec.Struct):
    """What a manifest and what stands in the place of one have in common."""

    run: int
    void: bool = False


def _manifest(store: Store, folder: str) -> Manifest | None:
    path = layout.manifest(folder)
    try:
        data = store.read(path)
    except NotFound:
        return None
    void = decode(data, _Taken, _place(store, path)).void
    return None if void else decode(data, Manifest, _place(store, path))


def _read(store: Store, path: str, kind: type[Document]) -> Document | None:
    try:
        data = store.read(path)
    except NotFound:
        return None
    return decode(data, kind, _place(store, path))


def _place(store: Store, path: str) -> str:
    return f"{store.location.rstrip('/')}/{path}".rstrip("/")
