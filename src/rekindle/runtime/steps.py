"""The durable steps of a run, by name.

Everything a run makes durable passes here, before and after: writes to the storage (named by `layout.STEPS`),
deletions, what sinks do, and Spark's own commit. A `Steps` callable hears ``"record.create/before"`` and
``"record.create/after"``; the crash tests raise or kill there. `ALL` is the whole list, so that a new step cannot slip
by untested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from rekindle.storage import layout
from rekindle.storage.port import Entry, Store

Steps = Callable[[str], None]
"""Hears the name of each durable step as it is reached; may raise."""

BEYOND_STORAGE = (
    "segment.write",
    "segments.write",
    "sink.prepare",
    "sink.commit",
    "sink.abort",
    "sink.clean",
    "sink.finish",
    "spark.commit",
    "storage.delete",
)
"""Steps that are not writes to the storage."""

_AT_ONCE = 1_000

ALL = tuple(sorted((*layout.STEPS, *BEYOND_STORAGE)))
"""Every durable step there is."""


def no_steps(name: str) -> None:
    """Listen to nothing."""


@contextmanager
def step(steps: Steps, name: str) -> Iterator[None]:
    """Announce a step, before and after what is done inside."""
    steps(f"{name}/before")
    yield
    steps(f"{name}/after")


class SteppedStore:
    """A store that announces every write by the name of its step, and looks at the fence before it takes anything away.

    What is created stays harmless whoever does it, and however late; what is deleted or replaced does not.
    """

    def __init__(self, store: Store, steps: Steps) -> None:
        self._store = store
        self._steps = steps
        #: called between the announcement of a deletion or replacement and the act; raises where it must not be
        self.look: Callable[[], None] = allow

    @property
    def within(self) -> Store:
        """The store itself."""
        return self._store

    @property
    def location(self) -> str:
        """As the store's."""
        return self._store.location

    @property
    def pace(self) -> int:
        """As the store's."""
        return self._store.pace

    def check(self) -> None:
        """As the store's."""
        self._store.check()

    def uri(self, path: str) -> str:
        """As the store's."""
        return self._store.uri(path)

    def spark_path(self, path: str) -> str:
        """As the store's."""
        return self._store.spark_path(path)

    def read(self, path: str) -> bytes:
        """As the store's."""
        return self._store.read(path)

    def open(self, path: str) -> BinaryIO:
        """As the store's."""
        return self._store.open(path)

    def exists(self, path: str) -> bool:
        """As the store's."""
        return self._store.exists(path)

    def create(self, path: str, data: bytes) -> bool:
        """A step."""
        with step(self._steps, layout.step_of(path)):
            return self._store.create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """A step."""
        with step(self._steps, layout.step_of(path)):
            self.look()
            self._store.replace(path, data)

    def names(self, folder: str) -> list[str]:
        """As the store's."""
        return self._store.names(folder)

    def walk(self, folder: str) -> Iterator[Entry]:
        """As the store's."""
        return self._store.walk(folder)

    def delete(self, path: str) -> None:
        """A step."""
        with step(self._steps, "storage.delete"):
            self.look()
            self._store.delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        """A step for each few of them: the fence is looked at once for all that one request takes away."""
        for start in range(0, len(paths), _AT_ONCE):
            with step(self._steps, "storage.delete"):
                self.look()
                self._store.delete_many(paths[start : start + _AT_ONCE])

    def delete_tree(self, folder: str) -> None:
        """A step."""
        with step(self._steps, "storage.delete"):
            self.look()
            self._store.delete_tree(folder)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        """A step, where there is anything to delete: the fence is looked at once for all of it."""
        if names:
            with step(self._steps, "storage.delete"):
                self.look()
                self._store.delete_trees(folder, names)

    def copy(self, source: str, target: str) -> int:
        """A step."""
        with step(self._steps, layout.step_of(target)):
            return self._store.copy(source, target)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        """A step."""
        with step(self._steps, layout.step_of(target)):
            self.look()
            return self._store.copy_from(source.within if isinstance(source, SteppedStore) else source, path, target)

    def move(self, source: str, target: str) -> None:
        """A step."""
        with step(self._steps, layout.step_of(target)):
            self.look()
            self._store.move(source, target)


def allow() -> None:
    """Before a run is claimed there is no fence to look at."""
