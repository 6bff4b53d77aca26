"""The durable steps of a run, by name.

Everything a run makes durable passes here, before and after: writes to the storage (named by `layout.STEPS`),
deletions, what sinks do, and Spark's own commit. A `Steps` callable hears ``"record.create/before"`` and
``"record.create/after"``; the crash tests raise or kill there. `ALL` is the whole list, so that a new step cannot slip
by untested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from rekindle.storage import layout
from rekindle.storage.forwarding import ForwardingStore, innermost
from rekindle.storage.port import Store

_Given = ParamSpec("_Given")
_Started = TypeVar("_Started")

Steps = Callable[[str], None]
"""A listener: it gets the name of each durable step as it is reached; may raise."""

BEYOND_STORAGE = (
    "segment.write",
    "segments.write",
    "sink.prepare",
    "sink.commit",
    "sink.abort",
    "sink.clean",
    "sink.finish",
    "sink.rewind",
    "spark.commit",
    "storage.delete",
)
"""The names of steps that are not writes to the storage."""

_AT_ONCE = 1_000

ALL = tuple(sorted((*layout.STEPS, *BEYOND_STORAGE)))
"""The names of all durable steps."""


def no_steps(name: str) -> None:
    """Listen to nothing."""


_LISTENER: ContextVar[Steps] = ContextVar("steps", default=no_steps)


def listener() -> Steps:
    """Return the listener for the steps of a run that is started here: `no_steps`, except in a test."""
    return _LISTENER.get()


def heard_by(steps: Steps, start: Callable[_Given, _Started]) -> Callable[_Given, _Started]:
    """Return `start`, so that `steps` hears every durable step of the job that it starts. For tests."""

    def started(*arguments: _Given.args, **options: _Given.kwargs) -> _Started:
        token = _LISTENER.set(steps)
        try:
            return start(*arguments, **options)
        finally:
            _LISTENER.reset(token)

    return started


@contextmanager
def step(steps: Steps, name: str) -> Iterator[None]:
    """Announce a step before and after the work inside."""
    steps(f"{name}/before")
    yield
    steps(f"{name}/after")


class SteppedStore(ForwardingStore):
    """A store that announces every write by the name of its step, and checks the fence before it deletes or replaces.

    Creating a file is harmless in any driver, however late; deleting or replacing one is not.
    """

    def __init__(self, store: Store, steps: Steps) -> None:
        super().__init__(store)
        self._steps = steps
        #: called after the announcement of a deletion or replacement, before the act; raises if that is forbidden
        self.look: Callable[[], None] = allow

    def create(self, path: str, data: bytes) -> bool:
        """Create a file as a step."""
        with step(self._steps, layout.step_of(path)):
            return super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file as a step."""
        with step(self._steps, layout.step_of(path)):
            self.look()
            super().replace(path, data)

    def delete(self, path: str) -> None:
        """Delete a file as a step."""
        with step(self._steps, "storage.delete"):
            self.look()
            super().delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete files, at most 1,000 a step: the fence is checked once for all files of one request."""
        for start in range(0, len(paths), _AT_ONCE):
            with step(self._steps, "storage.delete"):
                self.look()
                super().delete_many(paths[start : start + _AT_ONCE])

    def delete_tree(self, folder: str) -> None:
        """Delete a folder as a step."""
        with step(self._steps, "storage.delete"):
            self.look()
            super().delete_tree(folder)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        """Delete folders as one step, if there are any: the fence is checked once for all."""
        if names:
            with step(self._steps, "storage.delete"):
                self.look()
                super().delete_trees(folder, names)

    def copy(self, source: str, target: str) -> int:
        """Copy a file as a step."""
        with step(self._steps, layout.step_of(target)):
            return super().copy(source, target)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        """Copy a file from another store as a step."""
        inner = innermost(source)
        with step(self._steps, layout.step_of(target)):
            self.look()
            return super().copy_from(inner, path, target)

    def move(self, source: str, target: str) -> None:
        """Move a file as a step."""
        with step(self._steps, layout.step_of(target)):
            self.look()
            super().move(source, target)


def allow() -> None:
    """Allow everything: before a run is claimed there is no fence to check."""
