"""A storage in a dictionary: the same promises as the others, for tests and for the simulator."""

from __future__ import annotations

import io
import threading
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO

from rekindle.storage.port import Entry, NotFound, Store, check_path


class MemoryStore:
    """A `Store` that lives and dies with its process. Spark cannot read it."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        #: the keys of `_objects`, sorted: what lies below a folder is one piece of it
        self._paths: list[str] = []
        #: each folder → the names in it, each with the number of objects that it holds or is
        self._folders: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        return "memory:"

    @property
    def pace(self) -> int:
        return 1

    @property
    def boot_id(self) -> str:
        return ""

    def check(self) -> None:
        """Do nothing: a dictionary keeps what `Store` promises."""

    def uri(self, path: str) -> str:
        return f"memory:///{check_path(path, folder=True)}"

    def spark_path(self, path: str) -> str:
        return self.uri(path)

    def read(self, path: str) -> bytes:
        with self._lock:
            return self._read(path)

    def open(self, path: str) -> BinaryIO:
        with self._lock:
            return io.BytesIO(self._read(path))

    def exists(self, path: str) -> bool:
        return path == "" or check_path(path) in self._objects or path in self._folders

    def create(self, path: str, data: bytes) -> bool:
        with self._lock:
            absent = check_path(path) not in self._objects
            if absent:
                self._put(path, data)
            return absent

    def replace(self, path: str, data: bytes) -> None:
        with self._lock:
            self._put(path, data)

    def names(self, folder: str) -> list[str]:
        with self._lock:
            return sorted(self._folders.get(check_path(folder, folder=True), ()))

    def walk(self, folder: str) -> Iterator[Entry]:
        for path in self._below(folder):
            data = self._objects.get(path)
            if data is not None:
                yield Entry(path, len(data))

    def unfinished(self, folder: str) -> Iterator[Entry]:
        return iter(())

    def delete(self, path: str) -> None:
        with self._lock:
            if check_path(path) in self._objects:
                self._remove(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, folder: str) -> None:
        for path in (check_path(folder), *self._below(folder)):
            self.delete(path)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        for name in names:
            self.delete_tree(f"{folder}/{name}" if folder else name)

    def copy(self, source: str, target: str) -> int:
        with self._lock:
            data = self._read(source)
            self._put(target, data)
            return len(data)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        check_path(target)
        with source.open(path) as file:
            data = file.read()
        self.replace(target, data)
        return len(data)

    def move(self, source: str, target: str) -> None:
        with self._lock:
            self._put(target, self._read(source))
            self._remove(source)

    def _read(self, path: str) -> bytes:
        try:
            return self._objects[check_path(path)]
        except KeyError:
            raise NotFound(path) from None

    def _put(self, path: str, data: bytes) -> None:
        if check_path(path) not in self._objects:
            insort(self._paths, path)
            for folder, name in _folders_of(path):
                names = self._folders.setdefault(folder, {})
                names[name] = names.get(name, 0) + 1
        self._objects[path] = bytes(data)

    def _remove(self, path: str) -> None:
        del self._objects[path]
        del self._paths[bisect_left(self._paths, path)]
        for folder, name in _folders_of(path):
            names = self._folders[folder]
            names[name] -= 1
            if not names[name]:
                del names[name]
            if not names:
                del self._folders[folder]

    def _below(self, folder: str) -> list[str]:
        below = check_path(folder, folder=True)
        with self._lock:
            if not below:
                return list(self._paths)
            # Code points sort "/" right before "0".
            return self._paths[bisect_left(self._paths, f"{below}/") : bisect_left(self._paths, f"{below}0")]


def _folders_of(path: str) -> Iterator[tuple[str, str]]:
    """Yield each folder that a path lies below, with the name that leads to it there."""
    while path:
        path, _, name = path.rpartition("/")
        yield path, name
