"""The stores that a user's ``--storage`` leads to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import unquote

from rekindle.errors import StorageError
from rekindle.storage.clouds import find_place
from rekindle.storage.forcing import force_nothing, force_of
from rekindle.storage.hadoop import find_cluster
from rekindle.storage.hdfs import HdfsStore
from rekindle.storage.local import LocalStore
from rekindle.storage.objects import ObjectStore
from rekindle.storage.port import Store

_FILE = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.DOTALL)
_S3 = re.compile("^s3a://")
_SCHEME = re.compile(r"file(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=://)|[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")
"""With one slash, too: ``dbfs:/state`` and a mistyped ``s3:/bucket`` are no folders of this machine."""


def open_store(uri: str, *, forced: bool = True, beside: Iterable[str] = ()) -> Store:
    """Return the store at a path, a ``file:///`` URI (percent-encoded), or ``s3://bucket/prefix`` (not encoded).

    The same in the other clouds: ``gs://bucket/prefix``, ``abfss://container@account.dfs.core.windows.net/prefix``,
    and ``az://container/prefix``, whose account is that of the environment. ``hdfs://host:port/folder`` and
    ``hdfs://nameservice/folder`` are in HDFS (not encoded). Creates nothing, and sends no request.

    Args:
        forced: in a directory, force the writes that decide something to the disk (`rekindle.storage.forcing`).
        beside: other places where what is written has to be on the disk before a document that speaks of it is.

    Raises:
        StorageError: ``STORAGE_SCHEME_UNSUPPORTED`` for any other scheme, and for files of another host.
    """
    folder = folder_of(uri)
    if folder is not None:
        others = [other for other in map(folder_of, beside) if other is not None]
        return LocalStore(folder, force_of if forced else force_nothing, others)
    if place := find_place(uri):
        return ObjectStore(place)
    if found := find_cluster(uri):
        return HdfsStore(*found)
    scheme = _SCHEME.match(uri)
    raise StorageError("STORAGE_SCHEME_UNSUPPORTED", scheme=scheme[0] if scheme else uri)


def parent_of(store: Store) -> tuple[Store, str]:
    """Return the folder that a place is in, and its name there; of a bucket or a root itself, that place and ""."""
    parent, _, name = store.location.rstrip("/").rpartition("/")
    return (store, "") if parent.endswith(":/") else (open_store(parent or "/"), name)


def check_kept(address: str) -> None:
    """Refuse a folder that goes with this process: YARN deletes those of an application when it has ended.

    Raises:
        StorageError: ``PLACE_NOT_KEPT``.
    """
    folder = folder_of(address)
    if folder is None or "CONTAINER_ID" not in os.environ:
        return
    path = os.path.realpath(folder)
    for deleted in filter(None, os.environ.get("LOCAL_DIRS", "").split(",")):
        if os.path.commonpath((path, deleted := os.path.realpath(deleted))) == deleted:
            raise StorageError("PLACE_NOT_KEPT", path=address)


def is_within(address: str, place: str) -> bool:
    """Return whether an address is a place, or lies below it; links are followed, and S3 has two names."""
    folder, other = folder_of(address), folder_of(place)
    if folder is not None and other is not None:
        inner, outer = os.path.realpath(folder), os.path.realpath(other)
        return os.path.commonpath((inner, outer)) == outer
    inner, outer = (_S3.sub("s3://", each).rstrip("/") + "/" for each in (address, place))
    return inner.startswith(outer)


def folder_of(uri: str) -> str | None:
    """Return the path of the folder that an address leads to; None for any other address."""
    if file := _FILE.fullmatch(uri):
        return unquote(file[1])
    return None if _SCHEME.match(uri) else uri
