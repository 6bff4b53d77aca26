"""Copying an object from one store to another, or within one."""

from __future__ import annotations

from rekindle.errors import StorageError
from rekindle.storage.port import NotFound, Store


def copy_between(source: Store, path: str, target: Store, target_path: str) -> int:
    """Copy an object that must be there; returns its bytes. Safe to repeat.

    Raises:
        StorageError: ``OBJECT_CORRUPT``, it vanished.
    """
    try:
        if source is target:
            return source.copy(path, target_path)
        data = source.read(path)
    except NotFound as error:
        raise StorageError("OBJECT_CORRUPT", path=path, reason="it vanished while it was copied") from error
    target.replace(target_path, data)
    return len(data)
