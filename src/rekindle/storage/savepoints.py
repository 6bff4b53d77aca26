"""Savepoints in their places: those of a folder, and the one that a name or a path means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rekindle.errors import ControlError, RestoreError, StorageError
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.open import is_within, open_store
from rekindle.storage.port import Store

_ABSOLUTE = re.compile(r"/|file:|[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSavepoint:
    """A savepoint in a folder."""

    #: name of its folder
    name: str
    #: absolute
    path: str
    #: None where it cannot be read
    manifest: Manifest | None
    #: the reason why it cannot be read, or that it is being deleted; empty: there is no fault
    fault: str = ""


def default_folder(storage: str) -> str:
    """Return the folder of savepoints for which no place was given, in the storage at an absolute location."""
    return f"{storage.rstrip('/')}/{layout.SAVEPOINTS}"


def check_apart(store: Store, job: str, place: str) -> None:
    """Refuse a place for a savepoint in the folder of its job: `forget` of the job would delete the savepoint too.

    Raises:
        ControlError: ``SAVEPOINT_FAILED``.
    """
    if is_within(place, f"{store.location.rstrip('/')}/{job}"):
        raise ControlError(
            "SAVEPOINT_FAILED", path=place, reason="it lies in the folder of the job, and goes with the job"
        )


def savepoints_in(folder: str) -> list[StoredSavepoint]:
    """Return the savepoints right below a folder, the newest first; those that cannot be read come last."""
    store = open_store(folder)
    found = []
    for name in store.names(""):
        path = f"{store.location.rstrip('/')}/{name}"
        if store.exists(layout.disposed(name)):
            found.append(StoredSavepoint(name=name, path=path, manifest=None, fault="its deletion has begun"))
        elif store.exists(layout.manifest(name)):
            try:
                manifest = read_manifest(store, name)
            except StorageError as error:
                found.append(StoredSavepoint(name=name, path=path, manifest=None, fault=error.message))
            except RestoreError:  # it was deleted just now
                continue
            else:
                if manifest.savepoint:
                    found.append(StoredSavepoint(name=name, path=path, manifest=manifest))
    return sorted(found, key=lambda one: (one.manifest is None, -(one.manifest.completed_ms if one.manifest else 0)))


def find_savepoint(path: str, storage: str) -> str:
    """Return the absolute place that a path means, or the name of a savepoint in the storage at `storage`.

    The first at which there is something: the path itself, seen from here, then from the storage, then the name of a
    savepoint for which no place was given. The path itself where there is nothing at any of them.
    """
    folder = path.removesuffix("/").removesuffix("/manifest.json") or path  # the root is no savepoint, nor here
    places = [folder]
    if not _ABSOLUTE.match(folder):
        places += [f"{storage.rstrip('/')}/{folder}", f"{default_folder(storage)}/{folder}"]
    return open_store(next(filter(_is_one, places), folder)).location


def _is_one(place: str) -> bool:
    store = open_store(place)
    return store.exists(layout.manifest("")) or store.exists(layout.disposed(""))
