"""Check that all is there that a checkpoint or a savepoint names, and all that a job resumes from.

Sizes are compared wherever a document holds one, and the hash of Spark's plan, which a batch record holds. What the
users' own sources and sinks keep is not looked at.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from rekindle.channels.outputs import in_flight
from rekindle.ids import SubtaskId
from rekindle.progress.directory import log_numbers, read_commit, read_offsets
from rekindle.progress.files import StateFolder, files_needed, snapshot_metadata, state_folders
from rekindle.progress.partitions import SHUFFLE_PARTITIONS
from rekindle.storage import layout, read_layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.sources import FrozenFiles, SplitRead
from rekindle.storage.job_documents import read_document
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.origin import Origin
from rekindle.storage.port import NotFound, Store
from rekindle.storage.savepoint import is_own_segment
from rekindle.upkeep.findings import Findings

_OPERATOR = re.compile(r"(.+/state/\d+)/_metadata/.+")

Sizes = Mapping[str, int]
"""Path → bytes, of all that lies there."""


@dataclass(frozen=True, slots=True)
class _Needed:
    """The files that a checkpoint, a savepoint, a batch or a read needs, compared with those that are there."""

    #: name of the one that needs them
    by: str
    sizes: Sizes
    found: Findings

    def miss(self, path: str) -> None:
        """Add a fault: there is nothing at `path`."""
        self.found.missing(path, self.by)

    def compare(self, expected: Iterable[tuple[str, int]]) -> None:
        """Add a fault for each of these paths that does not lie there with these bytes."""
        for path, size in expected:
            if path not in self.sizes:
                self.miss(path)
            elif self.sizes[path] != size:
                self.found.damaged(path, f"it has {self.sizes[path]} bytes, and {self.by} knows it with {size}")


def check_named(origin: Origin, sizes: Sizes, found: Findings) -> None:
    """Look for everything that the manifest of a checkpoint or savepoint names."""
    manifest, store = origin.manifest, origin.store
    needed = _Needed(f"{'savepoint' if manifest.savepoint else 'checkpoint'} {manifest.checkpoint}", sizes, found)
    documents = JobStorage(store, manifest.job)
    if not manifest.savepoint:
        path = layout.lineage(manifest.job, manifest.lineage)
        if path not in sizes:
            needed.miss(path)
    bounded = {uid for sources in manifest.unread.values() for uid in sources}
    for uid in sorted({uid for inputs in manifest.graph.values() for uid in inputs}):
        _check_source(store, origin.source(uid), uid in bounded, needed)
    for task, batch in _subtasks(manifest):
        folder = origin.subtask(task)
        with found.noting(folder):
            segments = in_flight(manifest, task, partial(documents.record, folder))
            needed.compare((f"{folder}/{one.path}", one.size) for one in segments)
        if batch < 0:
            continue
        record = None
        with found.noting(folder):
            record = documents.record(folder, batch)
            if record is None and not manifest.savepoint:
                needed.miss(layout.batch(folder, batch))
        if manifest.mode == "streaming" and not manifest.needs_no_state(task.task):
            with found.noting(folder):
                _check_progress(store, layout.spark_progress_dir(folder), batch, record, needed)


def check_records(storage: BatchDocuments, folder: str, after: int, sizes: Sizes, found: Findings) -> None:
    """Look for what the batch records of a subtask name that no checkpoint covers: a job resumes after the last."""
    for batch in storage.records(folder):
        with found.noting(layout.batch(folder, batch)):
            record = storage.record(folder, batch)
            if record is None:
                continue
            if record.offsets and hashlib.sha256(record.offsets.encode()).hexdigest() != record.offsets_hash:
                found.damaged(layout.batch(folder, batch), "the plan in it has another hash than it says")
            if batch > after:
                segments = ((f"{folder}/{one.path}", one.size) for one in record.segments)
                _Needed(f"batch {batch}", sizes, found).compare(segments)


def check_reads(storage: BatchDocuments, folder: str, sizes: Sizes, found: Findings) -> None:
    """Look for what a subtask has read of custom sources and no batch record covers: a job that resumes admits it."""
    record = None
    with found.noting(folder):
        record = storage.last_record(folder)
    for uid in storage.store.names(read_layout.reads_of_sources(folder)):
        reads = read_layout.reads(folder, uid)
        consumed = record.inputs[uid].reads if record is not None and uid in record.inputs else 0
        for number in storage.numbers(reads):
            path = read_layout.split_read(reads, number)
            with found.noting(path):
                read = storage.read(path, SplitRead) if number >= consumed else None
                files = read.files if read is not None else ()
                expected = ((f"{reads}/{one.path}", one.size) for one in files)
                _Needed(f"read {number}", sizes, found).compare(expected)


def _subtasks(manifest: Manifest) -> Iterator[tuple[SubtaskId, int]]:
    for uid, snapshots in sorted(manifest.tasks.items()):
        for index, snapshot in sorted(snapshots.items()):
            yield SubtaskId(uid, index), snapshot.batch


def _check_source(store: Store, folder: str, bounded: bool, needed: _Needed) -> None:
    path = layout.frozen_files(folder)
    if bounded and path not in needed.sizes:
        needed.miss(path)
    with needed.found.noting(path):
        frozen = read_document(store, path, FrozenFiles)
        own = [file for file in frozen.files if is_own_segment(file.path)] if frozen else []
        needed.compare((f"{folder}/{file.path}", file.size) for file in own)


def _check_progress(store: Store, folder: str, batch: int, record: BatchRecord | None, needed: _Needed) -> None:
    """Look for what a query needs to continue after `batch`, in Spark's own directory."""
    found, sizes = needed.found, needed.sizes
    try:
        offsets = read_offsets(store, folder, batch)
    except NotFound:
        needed.miss(f"{folder}/offsets/{batch}")
        return
    if record is not None and record.offsets_hash not in ("", offsets.hash):
        found.damaged(f"{folder}/offsets/{batch}", f"it is not the plan that the record of batch {batch} is of")
    for path in files_needed(store, folder, batch):
        if f"{folder}/{path}" not in sizes:
            needed.miss(f"{folder}/{path}")
        elif sizes[f"{folder}/{path}"] == 0:
            found.damaged(f"{folder}/{path}", "it is empty")
    with found.noting(f"{folder}/commits/{batch}"):
        read_commit(store, folder, batch)
    for source, end in enumerate(offsets.sources):
        _check_source_log(store, f"{folder}/sources/{source}", end, needed)
    count = int(offsets.metadata.get("conf", {}).get(SHUFFLE_PARTITIONS, 0))
    _check_states(store, folder, batch, count, needed)


def _check_states(store: Store, folder: str, batch: int, count: int, needed: _Needed) -> None:
    """Look for the state of every operator in so many partitions."""
    folders, others = state_folders(store, folder)
    for operator in sorted({match[1] for path in others if (match := _OPERATOR.fullmatch(path))}):
        if not any(path.startswith(f"{operator}/") for path in folders):
            needed.miss(operator)
    for path, state in folders.items():
        _check_state(store, path, state, batch + 1, needed)
    partitions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in folders:
        operator, _, below = path.removeprefix(f"{folder}/state/").partition("/")
        partition, _, name = below.partition("/")
        partitions[operator, name].add(partition)
    for (operator, name), there in partitions.items():
        # Some operators have one partition, whatever the setting says.
        lacking = {str(number) for number in range(count)} - there if len(there) > 1 else set()
        for number in sorted(lacking):
            needed.miss(f"{folder}/state/{operator}/{number}/{name}".rstrip("/"))


def _check_source_log(store: Store, log: str, end: str | None, needed: _Needed) -> None:
    """Look for the log of a file source, where it has one of its own: it goes as far as the plan does."""
    try:
        offset = json.loads(end) if end is not None else None
    except ValueError:
        needed.found.damaged(log, f"{needed.by} is to continue in it after {end!r}, which is cut short")
        return
    numbers = log_numbers(store.names(log)).values()
    if isinstance(offset, dict) and numbers and offset.get("logOffset", -1) > max(numbers):
        needed.miss(f"{log}/{offset['logOffset']}")


def _check_state(store: Store, folder: str, state: StateFolder, version: int, needed: _Needed) -> None:
    """Look for the files that lead to a version of one state store."""
    start = state.snapshot_for(version)
    for number in range((start or 0) + 1, version + 1):
        if number not in state.changes:
            needed.miss(f"{folder}/{number}.*")
    if start is not None and state.snapshots[start].endswith(".zip"):
        for file in snapshot_metadata(store, state.snapshots[start]).get("sstFiles", ()):
            path, size = state.shared.get(file["dfsSstFileName"]), file.get("sizeBytes")
            if path is None:
                needed.miss(f"{folder}/SSTs/{file['dfsSstFileName']}")
            elif size is not None:
                needed.compare([(path, size)])
