"""The interface of a storage: what it must be able to do, and what it must promise.

Paths are relative to the storage's root, with ``/`` between their parts, and never lead out of it. Objects are small
(JSON of a few KB) except where a savepoint copies Spark's files. An implementation promises:

1. *Read after write*: what `create` or `replace` returned from is seen by every later read, list and exists.
2. *Create is linearizable*: of several `create` calls on one path exactly one returns True; no reader ever sees half an
   object.
3. *Replace is atomic*: a reader sees the old bytes or the new ones.

What is deleted may be listed for a moment by others. Errors of the medium are `StorageError`; a missing object is
`NotFound`, which callers handle. Each adapter passes `tests/storage/contract.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO, NamedTuple, Protocol

from rekindle.errors import StorageError


class NotFound(LookupError):
    """There is no object at this path. Not a `RekindleError`: the caller knows what a missing object means."""


class Entry(NamedTuple):
    """An object found by `walk`."""

    path: str
    size_bytes: int


def check_path(path: str, *, folder: bool = False) -> str:
    """Return `path` if it stays in the storage; raise ``PATH_OUTSIDE`` otherwise.

    A path is names joined by single slashes, none of them ``.`` or ``..``. Where a `folder` is meant, the empty path is
    the root.
    """
    if not (folder and path == "") and ("\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/"))):
        raise StorageError("PATH_OUTSIDE", path=path)
    return path


class Store(Protocol):
    """A place for a job's objects. Folders come and go with the objects in them; the empty path is the root folder."""

    @property
    def location(self) -> str:
        """The root as a person would name it, without secrets."""
        ...

    @property
    def pace(self) -> int:
        """The factor by which pauses between two looks are longer: 1 where a look costs nothing.

        It is above 1 where each look is a request that takes its time and is paid for.
        """
        ...

    @property
    def boot_id(self) -> str:
        """The id of this start of the machine, where what was not forced to a disk is lost with its power.

        Empty where nothing is lost, or where that is not known.
        """
        ...

    def check(self) -> None:
        """Check that the place keeps what is promised above; a driver does so before it starts.

        Raises:
            StorageError: ``STORAGE_NO_CREATE``; it cannot be reached or written.
        """
        ...

    def uri(self, path: str) -> str:
        """Return the absolute address of `path` as in Spark's file logs, encoded: ``file:///...``, ``s3a://...``."""
        ...

    def spark_path(self, path: str) -> str:
        """Return the same address as Spark's readers, writers and checkpoint locations take it: not encoded."""
        ...

    def read(self, path: str) -> bytes:
        """Return the object's bytes; raise `NotFound` where there is none."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open the object for reading at any position; raise `NotFound` where there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is an object or folder at `path`."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Create the object if it is absent: True if this call made it, False if there was one, left unchanged."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Write the object, whether or not there was one."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names directly below `folder`, sorted, without temporary files; empty where there is no folder."""
        ...

    def walk(self, folder: str) -> Iterator[Entry]:
        """Yield every object below `folder` at any depth, sorted by path; what vanishes meanwhile may be left out."""
        ...

    def unfinished(self, folder: str) -> Iterator[Entry]:
        """Yield temporary files below `folder`, which `walk` leaves out: of writes that were cut short, or still run.

        There are none where an object is written in one request.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete the object; missing is fine."""
        ...

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete these objects, in any order and in as few requests as can be; missing is fine."""
        ...

    def delete_tree(self, folder: str) -> None:
        """Delete everything at and below `folder`; missing is fine."""
        ...

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        """Delete everything at and below these names in `folder`, in as few requests as can be; missing is fine."""
        ...

    def copy(self, source: str, target: str) -> int:
        """Copy an object within this storage; return its size in bytes. `NotFound` where there is no source."""
        ...

    def copy_from(self, source: Store, path: str, target: str) -> int:
        """Copy an object of another storage into this one; return its size in bytes. `NotFound` where there is none.

        Where the system or one server has both, its bytes do not pass through this process; else they do a part at a
        time, so that objects of any size may be copied, several at once. The target appears whole.
        """
        ...

    def move(self, source: str, target: str) -> None:
        """Give an object another name, and replace any object that has it. `NotFound` where there is no source.

        The target appears whole. Where nothing can be renamed, it is copied, and there are both for a moment.
        """
        ...
