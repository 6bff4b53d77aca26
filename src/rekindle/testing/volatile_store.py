"""A storage that loses, when the power fails, any part of what was not forced to its disk."""

from __future__ import annotations

import random
from collections.abc import Callable

from rekindle.storage.forcing import Force, force_of
from rekindle.storage.forwarding import ForwardingStore
from rekindle.testing.memory_store import MemoryStore


class VolatileStore(MemoryStore):
    """A `MemoryStore` with a disk behind it.

    Args:
        force_of: what is forced with a write to a path.
    """

    def __init__(self, force_of: Callable[[str], Force] = force_of) -> None:
        super().__init__()
        self._force_of = force_of
        #: what is on the disk for certain
        self._safe: dict[str, bytes] = {}

    def create(self, path: str, data: bytes) -> bool:
        """Force what is to be forced."""
        force = self._force_of(path)
        if force is Force.EVERYTHING:
            self.settle()
        created = super().create(path, data)
        if created and force is not Force.NOTHING:
            self._safe[path] = data
        return created

    def replace(self, path: str, data: bytes) -> None:
        """Force what is to be forced."""
        force = self._force_of(path)
        if force is Force.EVERYTHING:
            self.settle()
        super().replace(path, data)
        if force is not Force.NOTHING:
            self._safe[path] = data

    def settle(self) -> None:
        """Everything is on the disk now."""
        self._safe = dict(self._objects)

    def of_others(self) -> ForwardingStore:
        """The same storage as processes see it that force nothing, as Spark's do."""
        return _Unforced(self)

    def lose_power(self, chance: random.Random) -> list[str]:
        """Lose any part of what is not on the disk; returns the paths that are not as they were.

        Each write since may be there, or not at all, or empty, or cut; each deletion may be undone.
        """
        lost = []
        for path in sorted(self._safe.keys() | self._objects.keys()):
            now, before = self._objects.get(path), self._safe.get(path)
            if now == before:
                continue
            left = chance.choice([now, before, *((b"", now[: chance.randint(0, len(now))]) if now else ())])
            if left != now:
                lost.append(path)
                self.delete(path)
                if left is not None:
                    super().replace(path, left)
        self.settle()
        return lost


class _Unforced(ForwardingStore):
    def create(self, path: str, data: bytes) -> bool:
        assert isinstance(self.within, MemoryStore)
        return MemoryStore.create(self.within, path, data)

    def replace(self, path: str, data: bytes) -> None:
        assert isinstance(self.within, MemoryStore)
        MemoryStore.replace(self.within, path, data)
