"""The place of a checkpoint or savepoint: a savepoint holds copies of what it names, a checkpoint names it in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rekindle.errors import RestoreError, StorageError
from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.codec import decode
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.port import NotFound, Store
from rekindle.storage.renaming import renamed_manifest, renamed_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A checkpoint or savepoint, and the store and folder in which it lies."""

    store: Store
    #: folder of the manifest in `store`
    folder: str
    #: in the uids that the job's tasks have now
    manifest: Manifest
    #: uid that a task has now → uid that it had, where that is another
    renamed: Mapping[str, str] = field(default_factory=dict)

    def with_renamed(self, renamed: Mapping[str, str]) -> Origin:
        """Return the same for a job in which these tasks have other uids."""
        names = {old: now for now, old in renamed.items()}
        return replace(self, manifest=renamed_manifest(self.manifest, names), renamed=renamed)

    def subtask(self, task: SubtaskId) -> str:
        """Return the folder that holds the subtask's progress directory."""
        uid = self.renamed.get(task.task, task.task)
        if self.manifest.savepoint:
            return layout.savepoint_subtask(self.folder, uid, task.subtask)
        return layout.subtask(self.manifest.job, uid, task.subtask, self.manifest.lineage)

    def record(self, task: SubtaskId, batch: int) -> BatchRecord | None:
        """Return the batch record of a batch; None where there is none."""
        record = JobStorage(self.store, self.manifest.job).record(self.subtask(task), batch)
        return record and renamed_record(record, {old: now for now, old in self.renamed.items()})

    def frozen_files(self, uid: str) -> FrozenFiles | None:
        """Return the list of a bounded source; None where it was not frozen yet."""
        path = layout.frozen_files(self.source(uid))
        try:
            return decode(self.store.read(path), FrozenFiles, path)
        except NotFound:
            return None

    @contextmanager
    def read_whole(self) -> Iterator[None]:
        """Raise an error where the checkpoint was deleted while it was read inside: a part of it was read.

        The job that took a checkpoint may run, and delete it when newer ones have replaced it: first the manifest, then
        what only that names. So what was read while there was a manifest is all there was to read.

        Raises:
            RestoreError: ``CHECKPOINT_REPLACED``.
        """
        try:
            yield
        except (StorageError, NotFound) as error:
            if not self._is_there():
                raise self._replaced() from error
            raise
        self.check_is_there()

    def check_is_there(self) -> None:
        """Raise ``CHECKPOINT_REPLACED`` if the checkpoint was deleted."""
        if not self._is_there():
            raise self._replaced()

    def is_committed(self) -> bool:
        """Return whether the sinks have committed all that the checkpoint commits; a savepoint commits nothing."""
        return not self.manifest.transactions or self.store.exists(layout.committed(self._manifest_folder))

    def _is_there(self) -> bool:
        return self.store.exists(layout.manifest(self._manifest_folder))

    def _replaced(self) -> RestoreError:
        return RestoreError("CHECKPOINT_REPLACED", path=f"{self.store.location.rstrip('/')}/{self._manifest_folder}")

    @property
    def _manifest_folder(self) -> str:
        manifest = self.manifest
        return self.folder if manifest.savepoint else layout.checkpoint(manifest.job, manifest.checkpoint)

    def source(self, uid: str) -> str:
        """Return the folder that holds a source's frozen list."""
        if self.manifest.savepoint:
            return layout.savepoint_sources(self.folder, uid)
        return layout.source(self.manifest.job, uid)


def find_origin(path: str, opened: Callable[[str], Store] = open_store) -> Origin:
    """Find the checkpoint or savepoint at the absolute `path`.

    Args:
        opened: opens a place.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``.
    """
    root = opened(path).location.rstrip("/")
    parent, _, name = root.rpartition("/")
    store = opened(parent or "/")
    manifest = read_manifest(store, name)
    if manifest.savepoint:
        return Origin(store=store, folder=name, manifest=manifest)
    # <storage>/<job>/checkpoints/<id>: what it names lies in place.
    storage = parent.rsplit("/", 2)[0]
    return Origin(store=opened(storage or "/"), folder="", manifest=manifest)


def copied_bytes(folder: str, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a savepoint that its manifest counts: all except its own.

    Args:
        folder: of the savepoint.
        sizes: path of each of its files → size in bytes.
    """
    return sum(sizes.values()) - sizes.get(layout.manifest(folder), 0)


def check_is_whole(origin: Origin) -> None:
    """Refuse a savepoint of which a part is missing, as after a copy that was cut off; one listing of it.

    Raises:
        StorageError: ``OBJECT_CORRUPT``.
    """
    store, folder = origin.store, origin.folder
    made = origin.manifest.size_bytes  # 0 of a checkpoint, which copies nothing
    there = copied_bytes(folder, {entry.path: entry.size_bytes for entry in store.walk(folder)}) if made else 0
    if there < made:
        reason = f"it has {there} bytes, and was made with {made}"
        raise StorageError("OBJECT_CORRUPT", path=f"{store.location.rstrip('/')}/{folder}", reason=reason)
