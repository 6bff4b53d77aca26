"""From what a user writes as ``--storage`` to a store."""

from __future__ import annotations

import re
from urllib.parse import unquote

from rekindle.errors import StorageError
from rekindle.storage.clouds import find_place
from rekindle.storage.local import LocalStore
from rekindle.storage.objects import ObjectStore
from rekindle.storage.port import Store
from rekindle.storage.s3 import S3Store

_FILE = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.DOTALL)
_S3 = re.compile(r"s3a?://(.*)", re.DOTALL)
_SCHEME = re.compile(r"file(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=://)")


def open_store(uri: str) -> Store:
    """The store at a path, a ``file:///`` URI (percent-encoded), or ``s3://bucket/prefix`` (not encoded).

    The same in the other clouds: ``gs://bucket/prefix``, ``abfss://container@account.dfs.core.windows.net/prefix``,
    and ``az://container/prefix``, whose account is that of the environment. Creates nothing, and sends no request.

    Raises:
        StorageError: ``STORAGE_SCHEME_UNSUPPORTED`` for any other scheme, and for files of another host.
    """
    if file := _FILE.fullmatch(uri):
        return LocalStore(unquote(file[1]))
    if s3 := _S3.fullmatch(uri):
        return S3Store(s3[1])
    if place := find_place(uri):
        return ObjectStore(place)
    if scheme := _SCHEME.match(uri):
        raise StorageError("STORAGE_SCHEME_UNSUPPORTED", scheme=scheme[0])
    return LocalStore(uri)
