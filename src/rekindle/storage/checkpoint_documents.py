"""The checkpoints of a job: their manifests, and the numbers that none may have any more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from rekindle.errors import RestoreError, StorageError
from rekindle.storage import layout
from rekindle.storage.codec import decode
from rekindle.storage.documents.checkpoint import Manifest, Void
from rekindle.storage.job_documents import place
from rekindle.storage.port import NotFound, Store
from rekindle.storage.run_documents import RunDocuments

_OF_A_JOB = re.compile(r"/([^/]+)/checkpoints/\d+$")
_RESULT = re.compile(r"(\d+)\.result\.json")


class CheckpointDocuments(RunDocuments):
    """The manifests of a job, under the numbers of their checkpoints."""

    def manifest(self, checkpoint: int) -> Manifest | None:
        """Return the manifest of a completed checkpoint; None where there is no such checkpoint."""
        return manifest_at(self.store, layout.checkpoint(self.job, checkpoint))

    def checkpoints(self) -> list[int]:
        """Return the numbers of the completed checkpoints, newest first, with those whose manifests cannot be read."""
        return [*_complete_ones(self)]

    def numbers_used(self) -> list[int]:
        """Return the numbers that a checkpoint has, or that none may have any more, ascending."""
        return self.numbers(layout.checkpoints(self.job))

    def last_used(self) -> int:
        """Return the highest number that is used; 0 for none.

        A folder without a manifest uses no number: a driver may be about to create the manifest in it.
        """
        folders = ((number, layout.checkpoint(self.job, number)) for number in reversed(self.numbers_used()))
        return next((number for number, folder in folders if self.store.exists(layout.manifest(folder))), 0)

    def use_up(self, checkpoint: int, run: int) -> int:
        """Let no checkpoint have a number any more, unless one has it already; return the run that has used the number.

        Numbers are used without a gap, so a driver that was about to use this one, or a later one, comes too late.
        """
        path = layout.manifest(layout.checkpoint(self.job, checkpoint))
        if self.create(path, Void(checkpoint=checkpoint, run=run)):
            return run
        found = self.read(path, _Taken)
        return found.run if found is not None else 0

    def fence_checkpoints(self, run: int) -> None:
        """Keep a driver that only seems to be dead from completing a checkpoint.

        Nothing is done where every earlier run has ended: such a run completes none.

        Raises:
            ControlError: ``DRIVER_FENCED``, a newer run has taken over.
        """
        found = self.store.names(layout.runs(self.job))
        ended = {int(match[1]) for name in found if (match := _RESULT.fullmatch(name))}
        if ended.issuperset(number for number in self.numbers(layout.runs(self.job)) if number < run):
            return
        used = 0
        while used != run:
            # If a driver that was thought dead is quicker, its checkpoint counts, and so does the number after it.
            number = self.last_used() + 1
            # After the look: a newer run that is not seen here has used no number of it, so it is met at this one.
            self.fence.check(run)
            used = self.use_up(number, run)

    def manifests(self) -> list[Manifest]:
        """Return the manifests of all completed checkpoints, newest first."""
        return [*self.newest_first(layout.checkpoints(self.job), self.manifest)]

    def newest_manifest(self) -> Manifest | None:
        """Return the manifest of the newest completed checkpoint, of any lineage; None where there is none."""
        return next(self.newest_first(layout.checkpoints(self.job), self.manifest), None)

    def latest_manifest(self, lineage: int) -> Manifest | None:
        """Return the manifest of the newest checkpoint completed in `lineage`; None where there is none."""
        manifests = self.newest_first(layout.checkpoints(self.job), self.manifest)
        return next((manifest for manifest in manifests if manifest.lineage == lineage), None)

    def forget_checkpoints(self, checkpoints: Sequence[int]) -> None:
        """Delete checkpoints, their manifests first: what is left half-way is no checkpoint."""
        folders = [layout.checkpoint(self.job, checkpoint) for checkpoint in checkpoints]
        self.store.delete_many([layout.manifest(folder) for folder in folders])
        self.store.delete_trees(layout.checkpoints(self.job), [folder.rpartition("/")[2] for folder in folders])


def newest_checkpoint(storage: CheckpointDocuments) -> int | None:
    """Return the number of the newest completed checkpoint, also if its manifest cannot be read; None: no such."""
    return next(_complete_ones(storage), None)


def _complete_ones(storage: CheckpointDocuments) -> Iterator[int]:
    """Yield the numbers of the completed checkpoints, newest first; each manifest is read as it is asked for."""
    return (number for number in reversed(storage.numbers_used()) if _is_complete(storage, number))


def _is_complete(storage: CheckpointDocuments, checkpoint: int) -> bool:
    try:
        return storage.manifest(checkpoint) is not None
    except StorageError as error:
        if error.code not in ("OBJECT_CORRUPT", "FORMAT_NEWER"):
            raise
        return True


def read_manifest(store: Store, folder: str) -> Manifest:
    """Read the manifest of the checkpoint or savepoint at `folder`, ``""`` where `store` is the savepoint's own folder.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``, there is none.
        StorageError: ``OBJECT_CORRUPT`` or ``FORMAT_NEWER``.
    """
    manifest = manifest_at(store, folder)
    if manifest is None:
        path = place(store, folder)
        raise RestoreError("CHECKPOINT_UNKNOWN", path=path, list=_list_of(store, folder, path))
    return manifest


def _list_of(store: Store, folder: str, path: str) -> str:
    """Return the command that lists what may be meant: the savepoints in a folder, or the checkpoints of a job."""
    prefix = f"{folder}/" if folder else ""
    if any(store.exists(layout.manifest(f"{prefix}{name}")) for name in store.names(folder)):
        return f"rekindle savepoints {path}"
    found = _OF_A_JOB.search(path)
    return f"rekindle checkpoints {found[1]}" if found else "rekindle savepoints, or: rekindle checkpoints JOB"


class _Taken(msgspec.Struct):
    """The fields that a `Manifest` and a `Void` have in common."""

    run: int
    void: bool = False


def manifest_at(store: Store, folder: str) -> Manifest | None:
    """Return the manifest in a checkpoint's folder; None where there is none, or where its number is only used up."""
    path = layout.manifest(folder)
    try:
        data = store.read(path)
    except NotFound:
        return None
    void = decode(data, _Taken, place(store, path)).void
    return None if void else decode(data, Manifest, place(store, path))
