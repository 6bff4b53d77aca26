"""The sources in a savepoint, beside its tasks: the frozen lists of bounded sources and the rows of Batch sources.

The files a `Files` source lists stay where the user has them. The segments of a `Batch` source are the job's own and
are named relative to the source's folder, so they are copied, except those that every reader has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rekindle.errors import RekindleError
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.codec import encode
from rekindle.storage.copying import copy_all
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.port import Store


@contextmanager
def deleted_if_it_fails(store: Store, folder: str) -> Iterator[None]:
    """Delete a new savepoint's folder, if possible, where making it fails or is interrupted: it would keep the room.

    The manifest goes first: its creation may have failed in the answer alone, and what lacks a part is no savepoint.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        with suppress(RekindleError):
            store.delete(layout.manifest(folder))
            store.delete_tree(folder)
        raise


def copy_sources(storage: BatchDocuments, manifest: Manifest, store: Store, folder: str) -> int:
    """Copy the sources of a checkpoint into the savepoint `folder` of `store`; return their size in bytes."""
    size = 0
    for uid in {uid for inputs in manifest.graph.values() for uid in inputs}:
        frozen = storage.frozen_files(uid)
        if frozen is not None:
            size += copy_source(
                storage.store, layout.source(storage.job, uid), store, layout.savepoint_sources(folder, uid), frozen
            )
    return size


def copy_source(source: Store, source_folder: str, target: Store, target_folder: str, frozen: FrozenFiles) -> int:
    """Copy one source's list, and its own segments, from folder to folder; return their size in bytes."""
    ours = [file.path for file in frozen.files if is_own_segment(file.path)]
    size = copy_all(source, target, ((f"{source_folder}/{path}", f"{target_folder}/{path}") for path in ours))
    data = encode(frozen)
    target.replace(layout.frozen_files(target_folder), data)
    return size + len(data)


def is_own_segment(path: str) -> bool:
    """Return whether a frozen file is a segment of the job's own, named relative to the source's folder."""
    return path.startswith("segments/")
