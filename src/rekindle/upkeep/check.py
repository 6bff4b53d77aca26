"""Look through a storage: open every document, follow every reference, and find what nothing refers to.

It only reads, also while jobs run: what they delete meanwhile with the checkpoint that needed it is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rekindle.errors import ControlError
from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments, newest_checkpoint, read_manifest
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import RUNNING, Status
from rekindle.storage.job_storage import JobStorage, jobs
from rekindle.storage.origin import Origin, copied_bytes
from rekindle.storage.port import Store
from rekindle.storage.run_documents import RunDocuments
from rekindle.storage.second_look import silent_drivers
from rekindle.upkeep.findings import Findings, Orphan
from rekindle.upkeep.opened import open_all
from rekindle.upkeep.orphans import is_unfinished, orphans_of, unfinished_copies, unfinished_savepoints
from rekindle.upkeep.references import Sizes, check_named, check_reads, check_records
from rekindle.upkeep.rest import newest_run

_UNREADABLE = "UNREADABLE"
"""State of a job whose runs cannot be read."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings in a storage."""

    jobs: Sequence[Findings]
    savepoints: Sequence[Findings]
    #: of the storage itself, beside those of its jobs
    orphans: Sequence[Orphan]

    @property
    def whole(self) -> bool:
        """True if nothing is wrong."""
        return not any(one.faults for one in (*self.jobs, *self.savepoints))

    @property
    def every_orphan(self) -> list[Orphan]:
        """Return all that nothing refers to."""
        return [*(orphan for one in self.jobs for orphan in one.orphans), *self.orphans]


def check_storage(store: Store, job: str | None = None, *, waits: bool = False) -> Checked:
    """Check the jobs of a storage and the savepoints in it; or one job alone.

    Args:
        waits: True to wait for a sign of life of drivers on other machines; else each counts as running.

    Raises:
        ControlError: ``JOB_UNKNOWN``.
        StorageError: it cannot be read.
    """
    if job is not None:
        if JobStorage(store, job).identity() is None:
            raise ControlError("JOB_UNKNOWN", job=job, storage=store.location)
        return Checked(_checked(store, [job], waits), [], [])
    found = _checked(store, jobs(store), waits)
    orphans = list(unfinished_savepoints(store, {one.name: one.state == RUNNING for one in found}))
    orphans += unfinished_copies(store)
    broken = {orphan.path for orphan in orphans}
    folders = [f"{layout.SAVEPOINTS}/{name}" for name in store.names(layout.SAVEPOINTS)]
    there = [one for one in folders if one not in broken and store.exists(layout.manifest(one))]
    return Checked(found, [check_savepoint(store, folder) for folder in there], orphans)


def _checked(store: Store, names: Sequence[str], waits: bool) -> list[Findings]:
    storages = [JobStorage(store, name) for name in names]
    silent = silent_drivers(storages) if waits else {}
    return [check_job(storage, silent.get(storage.job)) for storage in storages]


def check_job(storage: JobStorage, silent: Run | Status | None = None) -> Findings:
    """Check a job that there is.

    What is wrong is looked at twice: a job that runs writes between two lists, and so does Spark after a run, in a
    session that lives longer than it.

    Args:
        silent: see `Findings`.
    """
    found, manifests, sizes = _look_at(storage, silent)
    if found.faults:
        before = {(fault.path, fault.code) for fault in found.faults}
        found, manifests, sizes = _look_at(storage, silent)
        found.faults = [fault for fault in found.faults if (fault.path, fault.code) in before]
    # Where a document cannot be read, what it names is not known.
    if not found.faults and found.state != RUNNING:
        with found.noting(layout.job(storage.job)):
            found.orphans = [*orphans_of(storage, manifests, sizes)]
    return found


def _look_at(storage: JobStorage, silent: Run | Status | None) -> tuple[Findings, list[Manifest], dict[str, int]]:
    """Return what one look finds, except orphans, with the manifests and the sizes by which these are found."""
    found = Findings(storage.job, _UNREADABLE, silent=silent)
    with found.noting(layout.runs(storage.job)):
        found.run = newest_run(storage)
        found.state = storage.state(silent)
    completed = _completed(storage, found)  # before the list: a job that runs completes others meanwhile
    sizes = {entry.path: entry.size_bytes for entry in storage.store.walk(layout.job(storage.job))}
    found.files, found.size_bytes = len(sizes), sum(sizes.values())
    open_all(storage.store, sizes, found)
    manifests = _check_checkpoints(storage, sizes, found)
    if completed > (newest_checkpoint(storage) or 0):
        found.missing(layout.manifest(layout.checkpoint(storage.job, completed)), "a start of the job")
    _check_last(storage, manifests, sizes, found)
    return found, manifests, sizes


def check_savepoint(store: Store, folder: str) -> Findings:
    """Check the savepoint in the folder `folder`.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``, there is none.
    """
    found = Findings(folder.rpartition("/")[2])
    sizes = {entry.path: entry.size_bytes for entry in store.walk(folder)}
    found.files, found.size_bytes = len(sizes), sum(sizes.values())
    open_all(store, sizes, found)
    with found.noting(layout.manifest(folder)):
        manifest = read_manifest(store, folder)
        check_named(Origin(store=store, folder=folder, manifest=manifest), sizes, found)
        there = copied_bytes(folder, sizes)
        if there < manifest.size_bytes:
            found.damaged(folder, f"it has {there} bytes, and was made with {manifest.size_bytes}")
    return found


def remove_orphans(store: Store, checked: Checked) -> list[Orphan]:
    """Delete what nothing refers to, and return it; what may be needed again by then stays.

    Raises:
        ControlError: ``JOB_RUNNING``, ``JOB_CHANGED``, of one of the jobs; then nothing was deleted.
    """
    refuse_change(store, checked)
    removed = []
    for orphan in _still_orphans(store, checked):
        store.delete_tree(orphan.path)
        removed.append(orphan)
    return removed


def _still_orphans(store: Store, checked: Checked) -> Iterator[Orphan]:
    """Yield the orphans one by one, without those of a job that starts meanwhile, and what is a job or savepoint now.

    The run that starts may use the number of a checkpoint that has no manifest.
    """
    for one in checked.jobs:
        storage = JobStorage(store, one.name)
        yield from takewhile(lambda _: newest_run(storage) == one.run, one.orphans)  # noqa: B023 # within this turn
    yield from (orphan for orphan in checked.orphans if is_unfinished(store, orphan.path))


def refuse_change(store: Store, checked: Checked) -> None:
    """Refuse to delete the orphans of a job that runs, or has run since it was looked at: it may need them.

    Raises:
        ControlError: ``JOB_RUNNING``, ``JOB_CHANGED``.
    """
    for one in checked.jobs:
        storage = JobStorage(store, one.name)
        if storage.state(one.silent) == RUNNING:
            raise ControlError("JOB_RUNNING", job=one.name)
        if one.orphans and newest_run(storage) != one.run:
            raise ControlError("JOB_CHANGED", job=one.name)


def _completed(storage: RunDocuments, found: Findings) -> int:
    """Return the number of the newest checkpoint that was completed, as the last run has recorded it; 0 for none.

    Neither retention nor `rekindle forget` deletes it before there is a newer one.
    """
    numbers = []
    with found.noting(layout.status(storage.job)):
        status = storage.status()
        numbers.append(status.latest_checkpoint if status else None)
    with found.noting(layout.runs(storage.job)):
        result = storage.result(found.run[0])
        numbers.append(result.checkpoint if result else None)
    return max((number for number in numbers if number is not None), default=0)


def _check_checkpoints(storage: CheckpointDocuments, sizes: Sizes, found: Findings) -> list[Manifest]:
    manifests = []
    for number in storage.checkpoints():
        path = layout.manifest(layout.checkpoint(storage.job, number))
        of_this = Findings(storage.job)
        with of_this.noting(path):
            manifest = storage.manifest(number)
            if manifest is None:
                continue
            check_named(Origin(store=storage.store, folder="", manifest=manifest), sizes, of_this)
            manifests.append(manifest)
        # A job that runs deletes a checkpoint first, and then what only that has named.
        if not of_this.faults or storage.store.exists(path):
            found.faults.extend(fault for fault in of_this.faults if fault not in found.faults)
    return manifests


def _check_last(storage: JobStorage, manifests: Sequence[Manifest], sizes: Sizes, found: Findings) -> None:
    lineage = None
    with found.noting(layout.lineages(storage.job)):
        lineage = storage.lineage()
    for task in lineage.subtasks() if lineage else ():
        folder = layout.subtask(storage.job, *task, lineage.lineage) if lineage else ""
        ours = (one for one in manifests if lineage and one.lineage == lineage.lineage)
        after = max((_batch_of(one, task) for one in ours), default=-1)
        check_records(storage, folder, after, sizes, found)
        check_reads(storage, folder, sizes, found)


def _batch_of(manifest: Manifest, task: SubtaskId) -> int:
    snapshot = manifest.tasks.get(task.task, {}).get(task.subtask)
    return snapshot.batch if snapshot else -1


def check_place(store: Store, parent: Store, name: str, job: str | None, *, waits: bool) -> Checked:
    """Check what lies at one place: a savepoint, or a storage.

    Args:
        store: the place.
        parent: the folder that it is in, under `name`.
        waits: see `check_storage`.
    """
    if job is None and store.exists(layout.manifest("")):
        return Checked([], [check_savepoint(parent, name)], [])
    return check_storage(store, job, waits=waits)
