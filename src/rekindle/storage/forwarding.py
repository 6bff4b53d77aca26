"""A store that passes every call to another; a store that adds something to some of the calls derives from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO

from rekindle.storage.port import Entry, Store


class ForwardingStore:
    """A `Store` that passes its calls to another one, except those that a subclass defines.

    Args:
        within: the other one.
    """

    def __init__(self, within: Store) -> None:
        self.within = within

    @property
    def location(self) -> str:
        return self.within.location

    @property
    def pace(self) -> int:
        return self.within.pace

    @property
    def boot_id(self) -> str:
        return self.within.boot_id

    def check(self) -> None:
        self.within.check()

    def uri(self, path: str) -> str:
        return self.within.uri(path)

    def spark_path(self, path: str) -> str:
        return self.within.spark_path(path)

    def read(self, path: str) -> bytes:
        return self.within.read(path)

    def open(self, path: str) -> BinaryIO:
        return self.within.open(path)

    def exists(self, path: str) -> bool:
        return self.within.exists(path)

    def create(self, path: str, data: bytes) -> bool:
        return self.within.create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self.within.replace(path, data)

    def names(self, folder: str) -> list[str]:
        return self.within.names(folder)

    def walk(self, folder: str) -> Iterator[Entry]:
        return self.within.walk(folder)

    def unfinished(self, folder: str) -> Iterator[Entry]:
        return self.within.unfinished(folder)

    def delete(self, path: str) -> None:
        self.within.delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        self.within.delete_many(paths)

    def delete_tree(self, folder: str) -> None:
        self.within.delete_tree(folder)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        self.within.delete_trees(folder, names)

    def copy(self, source: str, target: str) -> int:
        return self.within.copy(source, target)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        return self.within.copy_from(source, path, target)

    def move(self, source: str, target: str) -> None:
        self.within.move(source, target)


def innermost(store: Store) -> Store:
    """Return the store that does the work: another of its kind may copy from it without this process."""
    while isinstance(store, ForwardingStore):
        store = store.within
    return store
