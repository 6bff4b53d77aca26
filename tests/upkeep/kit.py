"""Jobs in the middle of their lives, to be damaged and copied."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from rekindle.errors import StorageError
from rekindle.runtime.client import ControlRequest
from rekindle.storage import layout
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store, check_path
from rekindle.testing.memory_store import MemoryStore
from tests.simulation.world import World, random_plan

JOB = "simulated"


def stopped(seed: int, *, stops: bool = True) -> World:
    """A job in the middle of its life, with checkpoints: killed once, and stopped later if it `stops`."""
    world = World(random_plan(random.Random(seed)), seed)
    settings = {**world.plan.settings, "checkpoint.interval": "2 s", "checkpoint.retained": 3}

    def stop() -> None:
        world.scheduler.pause(20)
        world.ask(ControlRequest(verb="stop"))
        world.scheduler.pause(10_000)

    def die() -> None:
        world.scheduler.pause(15)
        world.scheduler.kill()

    world.run(settings, die)
    if stops:
        world.run(settings, stop)
    return world


def drain(world: World) -> None:
    """Let the job go on, drain it, and see that it shows each row once."""

    def ask() -> None:
        world.scheduler.pause(50)
        world.ask(ControlRequest(verb="stop", drain=True))
        world.scheduler.pause(100_000)

    result = world.run(world.plan.settings, ask)
    assert result is not None and result.state in ("FINISHED", "DRAINED")
    shown = world.shown()
    assert all(shown[uid] == rows for uid, rows in world.expected().items())


class Stored:
    """What such a job has left."""

    def __init__(self, seed: int, *, stops: bool = True) -> None:
        self.store = MemoryStore()
        for path, data in _left(seed, stops).items():
            self.store.create(path, data)
        self.storage = JobStorage(self.store, JOB)


@cache
def _left(seed: int, stops: bool) -> dict[str, bytes]:
    store = stopped(seed, stops=stops).store
    return {entry.path: store.read(entry.path) for entry in store.walk("")}


class Elsewhere(MemoryStore):
    """A store with other addresses."""

    @property
    def location(self) -> str:
        """See `Store`."""
        return "elsewhere:"

    def uri(self, path: str) -> str:
        """See `Store`."""
        return f"elsewhere:///far away/{check_path(path, folder=True)}".replace(" ", "%20")

    def spark_path(self, path: str) -> str:
        """See `Store`."""
        return f"elsewhere:///far away/{check_path(path, folder=True)}"


def _nothing(_: int) -> None:
    """Let a write be."""


class Watched(ForwardingStore):
    """A store that calls `before` and `after` with the number of each write, which they may let fail."""

    def __init__(
        self, within: Store, before: Callable[[int], None] = _nothing, after: Callable[[int], None] = _nothing
    ):
        super().__init__(within)
        self._before, self._after = before, after
        self._counting = threading.Lock()
        self.writes = 0

    @contextmanager
    def _write(self) -> Iterator[None]:
        with self._counting:
            self.writes += 1
            number = self.writes
        self._before(number)
        yield
        self._after(number)

    def create(self, path: str, data: bytes) -> bool:
        """See `Store`."""
        with self._write():
            return super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """See `Store`."""
        with self._write():
            super().replace(path, data)

    def delete(self, path: str) -> None:
        """See `Store`."""
        with self._write():
            super().delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete them one by one: a kill may come between any two."""
        for path in paths:
            self.delete(path)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        """See `Store`."""
        with self._write():
            return super().copy_from(source, path, target)


def dying_at(number: int) -> Callable[[int], None]:
    """Return what lets this write fail, and all after it: the process has died there."""

    def die(write: int) -> None:
        if write >= number:
            raise StorageError("STORAGE_UNAVAILABLE", uri="memory:", reason="the process is dead")

    return die


def files_of(store: Store) -> dict[str, bytes]:
    """All that lies in a store but the mark of a copy."""
    paths = (entry.path for entry in store.walk(""))
    return {path: store.read(path) for path in paths if path != layout.copied(JOB)}
