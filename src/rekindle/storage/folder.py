"""A folder of a store, which what works on all of it is given instead of both."""

from __future__ import annotations

from typing import NamedTuple

from rekindle.storage.port import Store


class Folder(NamedTuple):
    """A folder of a store; it need not be there."""

    store: Store
    #: its path in the store
    path: str

    def at(self, name: str) -> str:
        """Return the path in the store of what has the path `name` in the folder."""
        return f"{self.path}/{name}"

    def read(self, name: str) -> bytes:
        """Read an object in the folder."""
        return self.store.read(self.at(name))

    def replace(self, name: str, data: bytes) -> int:
        """Write an object in the folder, or write over it; return its size in bytes."""
        self.store.replace(self.at(name), data)
        return len(data)
