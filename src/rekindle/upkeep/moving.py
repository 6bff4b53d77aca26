"""Copy a job from one store to another, so that it can be resumed there.

Each object is compared with its original once it is written. What makes a job of the copy comes last:

1. ``copied.json``, the mark. While no ``job.json`` of the same id is beside it, no start takes the folder for its job.
2. Whatever documents name: rows, state, Spark's logs, batch records.
3. Manifests, lineages, the documents of runs; the newest run last, so that a directory has all of it on the disk.
4. The look of ``rekindle storage check`` over all of it, and one more at the source: was the job at rest all the time?
5. ``job.json``.

A copy that was cut off is begun again by the next command: it puts its own mark in the place of the first one, takes
away what is not, or no longer, at the source, and leaves what is there already and is the same. A command that still
runs, or wakes up, sees before each write that the mark is not its own any more.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest

from rekindle.errors import ControlError, RekindleError, StorageError
from rekindle.ids import check_uid
from rekindle.sources.globs import is_glob
from rekindle.storage import layout
from rekindle.storage.codec import decode
from rekindle.storage.copying import copy_between, side_by_side
from rekindle.storage.documents.copies import CopyOf
from rekindle.storage.documents.runs import Identity
from rekindle.storage.job_documents import place
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import NotFound, Store
from rekindle.storage.reading import pieces_of
from rekindle.upkeep.check import check_job
from rekindle.upkeep.opened import kind_of
from rekindle.upkeep.rehoming import Rehoming
from rekindle.upkeep.rest import Rest, at_rest

_PIECE_BYTES = 1 << 20
_SIDE_FILE = re.compile(r"(?:.*/)?\.[^/]+\.crc")
"""Hadoop's checksum of a file; where that is written again, it would not fit any more."""

_LAST = ("manifest.create", "lineage.create", "result.create", "run.create")
"""Documents that make others count: they are copied in this order, after all else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedJob:
    """The result of a copy."""

    job: str
    #: without what says that it is a copy, and that it is a job
    files: int
    #: at the source
    size_bytes: int
    #: of the files, those that an earlier command had copied
    found: int


def copy_job(source: Store, job: str, target: Store, now_ms: int) -> CopiedJob:
    """Copy a job that is at rest; nothing is changed at the source.

    Raises:
        ControlError: ``JOB_UNKNOWN``, ``JOB_RUNNING``, ``COPY_NOT_AT_REST``, ``COPY_TARGET_TAKEN``, ``COPY_OCCUPIED``,
            ``COPY_SOURCE_CHANGED``, ``COPY_OVERTAKEN``.
        StorageError: ``JOB_NOT_WHOLE``, ``COPY_NOT_WHOLE``, ``COPY_ADDRESS_UNKNOWN``; a place is out of reach.
    """
    return _Copy(JobStorage(source, job), JobStorage(target, check_uid(job)), now_ms).run()


class _Copy:
    def __init__(self, source: JobStorage, target: JobStorage, now_ms: int) -> None:
        self._source, self._target = source, target
        self._rest: Rest = at_rest(source)
        self._identity = source.store.read(layout.identity(source.job))
        self._mark = CopyOf(
            job=source.job,
            id=decode(self._identity, Identity, layout.identity(source.job)).id,
            source=source.store.location,
            begun_ms=now_ms,
            token=secrets.token_hex(8),
        )
        self._rehoming = Rehoming(source.store, target.store, source.job)
        #: paths of what an earlier copy has left as it should be
        self._there: set[str] = set()

    def run(self) -> CopiedJob:
        self._refuse_place()
        faults = check_job(self._source).faults
        if faults:
            first, location = faults[0].message, self._source.store.location
            raise StorageError("JOB_NOT_WHOLE", job=self._source.job, storage=location, faults=len(faults), first=first)
        self._target.store.check()
        try:
            self._begin()
            for paths in self._in_order():
                side_by_side(self._put, paths)
        except (RekindleError, NotFound) as error:
            with suppress(StorageError):
                # A job that was started deletes what it does not need any more.
                self._refuse_change(error)
            if isinstance(error, NotFound):
                raise self._overtaken() from error
            raise
        faults = check_job(self._target).faults
        if faults:
            self._not_whole(faults[0].message)
        self._refuse_change()
        self._look()
        if not self._target.store.create(layout.identity(self._target.job), self._identity):
            raise self._taken()
        sizes = [self._rest.sizes[path] for paths in self._in_order() for path in paths]
        return CopiedJob(job=self._source.job, files=len(sizes), size_bytes=sum(sizes), found=len(self._there))

    # -- before anything is written -----------------------------------------------------------------------------------

    def _refuse_place(self) -> None:
        target = self._target.store.location
        if is_glob(target):
            raise StorageError("STORAGE_PATH_UNSUPPORTED", uri=target, letters="{ } [ ] * ? \\")
        inside = place(self._source.store, layout.job(self._source.job))
        if f"{target}/".startswith(f"{inside}/"):
            raise ControlError("COPY_OCCUPIED", place=target, found="the very job that is to be copied")
        if self._target.identity() is not None:
            raise self._taken()

    def _taken(self) -> ControlError:
        return ControlError("COPY_TARGET_TAKEN", job=self._target.job, storage=self._target.store.location)

    def _refuse_change(self, cause: BaseException | None = None) -> None:
        """Raise ``COPY_SOURCE_CHANGED`` where the source is not as it was."""
        try:
            same = at_rest(self._source) == self._rest
        except ControlError:
            same = False
        if not same:
            raise ControlError(
                "COPY_SOURCE_CHANGED", job=self._source.job, storage=self._source.store.location
            ) from cause

    # -- the mark -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Put the mark there, and delete what would get in its way."""
        target, path = self._target, layout.copied(self._target.job)
        found = target.read(path, CopyOf)
        if found is not None:
            self._refuse_other(found)
            target.replace(path, self._mark)
        else:
            if target.store.names(layout.job(target.job)):
                where = place(target.store, layout.job(target.job))
                raise ControlError("COPY_OCCUPIED", place=where, found="files of something else")
            if not target.create(path, self._mark):
                raise self._overtaken()
        if target.identity() is not None:
            # A start was quicker; it refuses to begin beside the mark of a copy.
            target.store.delete(path)
            raise self._taken()
        self._clear(path)

    def _refuse_other(self, found: CopyOf) -> None:
        if (found.id, found.source) != (self._mark.id, self._mark.source):
            where = place(self._target.store, layout.job(self._target.job))
            raise ControlError("COPY_OCCUPIED", place=where, found=f"an unfinished copy of a job from {found.source}")

    def _clear(self, mark: str) -> None:
        """Take away what an earlier copy has left: what says that there is something, and what is not at the source."""
        store, folder = self._target.store, layout.job(self._target.job)
        there = [entry.path for entry in store.walk(folder) if entry.path != mark]
        last = [path for path in there if kind_of(path) in _LAST]
        wanted = {path for paths in self._in_order() for path in paths}
        side_by_side(self._note_same, wanted.intersection(there).difference(last))
        others = [path for path in there if path not in self._there and path not in last]
        temporary = [entry.path for entry in store.unfinished(folder)]
        for paths in (last, [*others, *temporary]):
            if paths:
                self._look()
                store.delete_many(paths)

    def _note_same(self, path: str) -> None:
        source, written_again = self._source.store, self._rehoming.reader(path)
        if written_again is None:
            same = _same(source, self._target.store, path)
        else:
            same = self._target.store.read(path) == written_again(source.read(path))
        if same:
            self._there.add(path)

    def _look(self) -> None:
        """Raise ``COPY_OVERTAKEN`` where another command has taken over, or the copy was removed."""
        found = self._target.read(layout.copied(self._target.job), CopyOf)
        if found is None or found.token != self._mark.token:
            raise self._overtaken()

    def _overtaken(self) -> ControlError:
        return ControlError("COPY_OVERTAKEN", job=self._target.job)

    # -- each object --------------------------------------------------------------------------------------------------

    def _in_order(self) -> Iterator[list[str]]:
        """Yield the paths that are copied: those of one list after those of the lists before it."""
        job = self._source.job
        left_out = {layout.identity(job), layout.copied(job), layout.reserve(job)}
        paths = [path for path in self._rest.sizes if path not in left_out and not _SIDE_FILE.fullmatch(path)]
        kinds = {path: kind_of(path) for path in paths}
        yield [path for path in paths if kinds[path] not in _LAST]
        for kind in _LAST:
            yield [path for path in paths if kinds[path] == kind and path != self._newest_run]
        yield [path for path in paths if path == self._newest_run]

    @property
    def _newest_run(self) -> str:
        return layout.run(self._source.job, self._rest.run[0])

    def _put(self, path: str) -> None:
        if path in self._there:
            return
        self._look()
        source, target = self._source.store, self._target.store
        written_again = self._rehoming.reader(path)
        if written_again is None:
            copy_between(source, path, target, path)
            same = _same(source, target, path)
        else:
            # Created: where the job has begun to live at the target, nothing of it is written over, however late.
            data = written_again(source.read(path))
            target.create(path, data)
            same = target.read(path) == data
        if not same:
            self._look()
            self._not_whole(f"{place(target, path)} is not what was written there")

    def _not_whole(self, reason: str) -> None:
        raise StorageError("COPY_NOT_WHOLE", job=self._target.job, storage=self._target.store.location, reason=reason)


def _same(source: Store, target: Store, path: str) -> bool:
    """Return True if both have the same bytes under this path."""
    try:
        file = target.open(path)
    except NotFound:
        return False
    with source.open(path) as original, file as copy:
        pieces = zip_longest(pieces_of(original, _PIECE_BYTES), pieces_of(copy, _PIECE_BYTES))
        return all(one == other for one, other in pieces)
