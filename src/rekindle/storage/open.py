"""From what a user writes as ``--storage`` to a store."""

from __future__ import annotations

import re
from urllib.parse import unquote

from rekindle.errors import StorageError
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Store

_FILE = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.DOTALL)
_SCHEME = re.compile(r"file(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=://)")


def open_store(uri: str) -> Store:
    """The store at a plain path, relative or absolute, or at a ``file:///`` URI, percent-encoded. Creates nothing.

    Raises:
        StorageError: ``STORAGE_SCHEME_UNSUPPORTED`` for any other scheme, and for files of another host.
    """
    if file := _FILE.fullmatch(uri):
        return LocalStore(unquote(file[1]))
    if scheme := _SCHEME.match(uri):
        raise StorageError("STORAGE_SCHEME_UNSUPPORTED", scheme=scheme[0])
    return LocalStore(uri)
