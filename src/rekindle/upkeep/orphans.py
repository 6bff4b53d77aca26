"""The orphans of a storage, which nothing names: attempts that failed, what a kill left of a deletion or of a write.

Only what this version knows by its place is taken for an orphan: other people's files are left out, and so is what the
sinks stage, which each sink clears up itself. All of it is of a job that does not run. A run that begins meanwhile uses
names and numbers of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from rekindle.storage import layout, read_layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.sources import SplitRead
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store
from rekindle.storage.savepoint import is_own_segment
from rekindle.upkeep.findings import Orphan
from rekindle.upkeep.references import Sizes

_ATTEMPT = re.compile(r"(?P<folder>.*/tasks/[^/]+/\d+/\d+)/(?P<attempt>segments/(?P<batch>\d+)-[^/]+)/.+")
_READ = re.compile(r"(?P<reads>.*/tasks/[^/]+/\d+/\d+/reads/[^/]+)/(?P<attempt>\d+-[^/]+)/.+")
_ROW = re.compile(r"(?P<marks>.*/marks/[^/]+)/rows/(?P<name>[^/]+)")
_OF_SPARK = re.compile(r".*/spark/(.*/)?\.[^/]+\.tmp")
_OF_JOB = re.compile(r"(?P<job>.+)-(\d{9}-[0-9a-f]{6}|(?P<adopted>adopted-[0-9a-f]{8}))")
"""Name of a savepoint, or of one by which a job adopts a query."""


def orphans_of(storage: JobStorage, manifests: Iterable[Manifest], sizes: Sizes) -> Iterator[Orphan]:
    """Yield what nothing of a job names, once and without what is below another."""
    lineage = storage.lineage()
    needed = {manifest.lineage for manifest in manifests} | ({lineage.lineage} if lineage else set())
    folders = [*_lineages(storage, needed), *_checkpoints(storage, sizes)]
    single = [
        *_outputs(storage, sizes),
        *_of_reads(storage, sizes),
        *_of_batch_sources(storage, sizes),
        *_rows(storage, sizes),
        *_of_spark(sizes),
    ]
    seen: set[str] = set()
    in_order = sorted(sizes)
    for path, reason in [*folders, *single]:
        if not _is_in(path, seen):
            seen.add(path)
            yield Orphan(path, sizes.get(path, 0) + _bytes_below(path, sizes, in_order), reason)
    for entry in storage.store.unfinished(layout.job(storage.job)):
        if not _is_in(entry.path, seen):
            yield Orphan(entry.path, entry.size_bytes, "a write that was cut short has left it")


def unfinished_savepoints(store: Store, jobs: Mapping[str, bool]) -> Iterator[Orphan]:
    """Yield the savepoints for which no place was given that are none: not finished, or half deleted.

    Args:
        jobs: job of this storage → True if it runs: then it may be making what is no savepoint yet. A job of another
            storage may run, too. One that is to adopt a query need not be there yet.
    """
    for name in store.names(layout.SAVEPOINTS):
        folder, match = f"{layout.SAVEPOINTS}/{name}", _OF_JOB.fullmatch(name)
        if match is None:
            continue
        begun = store.exists(layout.disposed(folder))
        runs = jobs.get(match["job"], match["adopted"] is None)
        if begun or (not runs and is_unfinished(store, folder)):
            size = sum(entry.size_bytes for entry in store.walk(folder))
            yield Orphan(folder, size, "its deletion has begun" if begun else "it was not finished, or is being made")


def unfinished_copies(store: Store) -> Iterator[Orphan]:
    """Yield what is no job, and has the mark of a copy: the copy was cut off, or is under way."""
    for name in store.names(""):
        if store.exists(layout.copied(name)) and is_unfinished(store, layout.job(name)):
            size = sum(entry.size_bytes for entry in store.walk(layout.job(name)))
            reason = "a copy of a job from another storage, which was not finished, or is being made"
            yield Orphan(layout.job(name), size, reason)


def is_unfinished(store: Store, folder: str) -> bool:
    """Return whether a folder is no savepoint and no job: not finished, or half deleted."""
    return store.exists(layout.disposed(folder)) or not (
        store.exists(layout.manifest(folder)) or store.exists(layout.identity(folder))
    )


Found = tuple[str, str]
"""A path, and why nothing needs it."""


def _lineages(storage: JobDocuments, needed: set[int]) -> Iterator[Found]:
    store, above = storage.store, layout.tasks(storage.job)
    for uid in store.names(above):
        for part in store.names(f"{above}/{uid}"):
            folder = f"{above}/{uid}/{part}"
            for name in store.names(folder):
                if name.isdigit() and int(name) not in needed:
                    yield f"{folder}/{name}", "no checkpoint is of that lineage, and the job is in another"


def _checkpoints(storage: JobDocuments, sizes: Sizes) -> Iterator[Found]:
    above = layout.checkpoints(storage.job)
    for name in storage.store.names(above):
        if layout.manifest(f"{above}/{name}") not in sizes:
            yield f"{above}/{name}", "a checkpoint without a manifest is none"


def _outputs(storage: BatchDocuments, sizes: Sizes) -> Iterator[Found]:
    """Yield attempts at batches that no record names.

    Files without rows, which a record does not name, belong to their batch and go with it. So does the one attempt at a
    batch that had no rows at all; where there are two, one has failed, and none is needed.
    """
    attempts: dict[str, dict[str, int]] = defaultdict(dict)
    for path in sizes:
        if match := _ATTEMPT.fullmatch(path):
            attempts[match["folder"]][match["attempt"]] = int(match["batch"])
    for folder, batch_of in attempts.items():
        records = [record for batch in storage.records(folder) if (record := storage.record(folder, batch))]
        named = {segment.path.rpartition("/")[0] for record in records for segment in record.segments}
        tries = Counter(batch_of.values())
        empty = {record.batch for record in records if not record.segments and tries[record.batch] == 1}
        for attempt, batch in sorted(batch_of.items()):
            if attempt not in named and batch not in empty:
                yield f"{folder}/{attempt}", "no batch record names it"


def _of_batch_sources(storage: BatchDocuments, sizes: Sizes) -> Iterator[Found]:
    above = f"{layout.job(storage.job)}/sources"
    for uid in storage.store.names(above):
        frozen = storage.frozen_files(uid)
        named = {f"{above}/{uid}/{one.path}" for one in (frozen.files if frozen else ()) if is_own_segment(one.path)}
        segments = f"{above}/{uid}/segments/"
        yield from ((path, "no list names it") for path in sizes if path.startswith(segments) and path not in named)


def _of_reads(storage: JobDocuments, sizes: Sizes) -> Iterator[Found]:
    """Yield rows that were read of custom sources, and that no document names."""
    attempts: dict[str, set[str]] = defaultdict(set)
    for path in sizes:
        if match := _READ.fullmatch(path):
            attempts[match["reads"]].add(match["attempt"])
    for folder, found in attempts.items():
        documents = (storage.read(read_layout.split_read(folder, one), SplitRead) for one in storage.numbers(folder))
        named = {file.path.partition("/")[0] for document in documents if document for file in document.files}
        yield from ((f"{folder}/{attempt}", "no read names it") for attempt in sorted(found - named))


def _rows(storage: JobDocuments, sizes: Sizes) -> Iterator[Found]:
    """Yield watermark rows that no admission names."""
    rows: dict[str, list[str]] = defaultdict(list)
    for path in sizes:
        if match := _ROW.fullmatch(path):
            rows[match["marks"]].append(path)
    for marks, paths in rows.items():
        log = layout.admissions(marks)
        named = b"\n".join(storage.store.read(f"{log}/{name}") for name in storage.store.names(log))
        for path in paths:
            if path.rpartition("/")[2].encode() not in named:
                yield path, "no admission names it"


def _of_spark(sizes: Sizes) -> Iterator[Found]:
    return ((path, "a write of Spark's that was cut short has left it") for path in sizes if _OF_SPARK.fullmatch(path))


def _is_in(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is one of these, or below one."""
    while path and path not in folders:
        path = path.rpartition("/")[0]
    return bool(path)


def _bytes_below(folder: str, sizes: Sizes, in_order: Sequence[str]) -> int:
    """Return the bytes of what is below a folder; in order, its paths come one after the other."""
    after = (in_order[at] for at in range(bisect_left(in_order, f"{folder}/"), len(in_order)))
    below = takewhile(lambda path: path.startswith(f"{folder}/"), after)
    return sum(sizes[path] for path in below)
