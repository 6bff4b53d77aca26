"""A storage that loses, when the power fails, any part of what was not forced to its disk."""

from __future__ import annotations

import random
from collections.abc import Callable

from rekindle.storage.forcing import Force, force_of
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.port import Store
from rekindle.testing.memory_store import MemoryStore


class VolatileStore(MemoryStore):
    """A `MemoryStore` over a disk.

    Args:
        force_of: what is forced with a write to a path.
        between: called when a document has appeared, and is not forced yet.
    """

    def __init__(self, force_of: Callable[[str], Force] = force_of, between: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._force_of = force_of
        self._between = between
        self._boots = 1
        #: the bytes that are on the disk for certain, by path
        self._safe: dict[str, bytes] = {}
        #: the bytes that are on the disk while their name may not be, by path
        self._unnamed: dict[str, bytes] = {}

    @property
    def boot_id(self) -> str:
        return f"{self._boots}"

    def create(self, path: str, data: bytes) -> bool:
        """See `Store`; a document that is there already is forced too."""
        self._force_others(path)
        created = super().create(path, data)
        self._force(path)
        return created

    def replace(self, path: str, data: bytes) -> None:
        """See `Store`."""
        self._force_others(path)
        super().replace(path, data)
        self._force(path)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        """See `Store`: a copy is not forced."""
        with source.open(path) as file:
            data = file.read()
        super().replace(target, data)
        return len(data)

    def _force_others(self, path: str) -> None:
        if self._force_of(path) is Force.EVERYTHING:
            self.settle()

    def _force(self, path: str) -> None:
        if self._force_of(path) is not Force.NOTHING:
            self._unnamed[path] = self.read(path)
            self._between()
            self._safe[path] = self._unnamed.pop(path)

    def settle(self) -> None:
        """Put everything on the disk."""
        self._safe = dict(self._objects)

    def of_others(self) -> ForwardingStore:
        """Return the same storage as processes see it that force nothing, as Spark's do."""
        return _Unforced(self)

    def lose_power(self, chance: random.Random) -> list[str]:
        """Lose any part of what is not on the disk; return the paths that are not as they were.

        Each write since may be there, or not at all, or empty, or cut; each deletion may be undone.
        """
        lost = []
        for path in sorted(self._safe.keys() | self._objects.keys()):
            now, before = self._objects.get(path), self._safe.get(path)
            if now == before:
                continue
            torn = (b"", now[: chance.randint(0, len(now))]) if now and now != self._unnamed.get(path) else ()
            left = chance.choice([now, before, *torn])
            if left != now:
                lost.append(path)
                self.delete(path)
                if left is not None:
                    super().replace(path, left)
        self.settle()
        self._unnamed.clear()
        self._boots += 1
        return lost


class _Unforced(ForwardingStore):
    def create(self, path: str, data: bytes) -> bool:
        assert isinstance(self.within, MemoryStore)
        return MemoryStore.create(self.within, path, data)

    def replace(self, path: str, data: bytes) -> None:
        assert isinstance(self.within, MemoryStore)
        MemoryStore.replace(self.within, path, data)
