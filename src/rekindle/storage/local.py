"""A storage in a directory, local or mounted.

Objects appear under their name in one step: they are written to a hidden temporary file beside it, which is then linked
(`LocalStore.create`, which so has one winner) or renamed (`LocalStore.replace`). The file system needs hard links. What
is written survives the death of the process, and a loss of power where that is wanted: the temporary file is forced to
the disk before it appears, and its name after it.

Hadoop, through which Spark reads and writes the same directory, keeps a checksum of each file NAME in a *side file*
``.NAME.crc`` and refuses a file that does not fit it. A side file belongs to its object: it is never listed, and is
removed with it, and before other bytes take its name.

This module knows bytes and paths, not what is in them.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from stat import S_ISDIR
from typing import BinaryIO

from rekindle.errors import StorageError
from rekindle.storage.addresses import encoded
from rekindle.storage.disk import SYSTEM, Disk, DiskCalls, boot_id, names_nothing
from rekindle.storage.forcing import Force, Forces, force_nothing
from rekindle.storage.port import Entry, NotFound, Store, check_path
from rekindle.storage.walking import walked

_TEMPORARY = ".tmp-"
_HIDDEN = re.compile(r"\.tmp-.*|\..+\.crc")
_SIDE_FILE = re.compile(r"\.(.+)\.crc")
_CHUNK_BYTES = 1 << 20
_SYSTEM_BYTES = 1 << 30
_NOT_BY_THE_SYSTEM = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.EIO)
"""Errors of a system that cannot copy between two files: plain reading may work, or shows what is wrong."""

_WRITE_ERRORS = {
    errno.EACCES: "STORAGE_READ_ONLY",
    errno.EROFS: "STORAGE_READ_ONLY",
    errno.ENOSPC: "STORAGE_FULL",
    errno.EDQUOT: "STORAGE_FULL",
}
"""Error of the system where something was to be written → our code; any other is ``STORAGE_UNAVAILABLE``."""


def file_uri(path: str) -> str:
    """Return the URI of an absolute local path, as Spark writes it in its file logs; see `encoded`."""
    return f"file://{encoded(path)}"


class LocalStore:
    """A `Store` below the directory `root`, which need not exist yet.

    Args:
        force_of: what a write to a path forces to the disk.
        beside: other folders on which it is forced as well, where that is everything.
        calls: see `Disk`.
    """

    def __init__(
        self, root: str, force_of: Forces = force_nothing, beside: Sequence[str] = (), calls: DiskCalls = SYSTEM
    ) -> None:
        # POSIX keeps a double slash at the start, which Hadoop would print as one.
        self._root = "/" + os.path.abspath(root).lstrip("/")
        self._force_of = force_of
        self._calls = calls
        self._disk = Disk(self._root, beside, calls)

    @property
    def location(self) -> str:
        """The directory's absolute path."""
        return self._root

    @property
    def pace(self) -> int:
        return 1

    @property
    def boot_id(self) -> str:
        return "" if self._force_of is force_nothing else boot_id()

    def check(self) -> None:
        """Check nothing: a file system keeps what is promised, or the first write fails."""

    def path(self, path: str) -> str:
        """Return the absolute local path of an object or folder; after ``file://`` it is what Spark's readers take."""
        return os.path.join(self._root, path) if check_path(path, folder=True) else self._root

    def uri(self, path: str) -> str:
        return file_uri(self.path(path))

    def spark_path(self, path: str) -> str:
        return f"file://{self.path(path)}"

    def read(self, path: str) -> bytes:
        with self._errors(path), self.open(path) as file:
            return file.read()

    def open(self, path: str) -> BinaryIO:
        with self._errors(path):
            try:
                return open(self.path(check_path(path)), "rb")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise NotFound(path) from None

    def exists(self, path: str) -> bool:
        with self._errors(path):
            try:
                found = self._calls.stat(self.path(path))
            except OSError as error:
                if names_nothing(error):
                    return False
                raise
            return bool(path) or S_ISDIR(found.st_mode)

    def create(self, path: str, data: bytes) -> bool:
        target, force = self.path(check_path(path)), self._force_of(path)
        if os.path.lexists(target):
            # The process that made it may have been killed before it was forced.
            with self._errors(path, _WRITE_ERRORS):
                self._disk.force(target, force)
            return False
        with self._errors(path, _WRITE_ERRORS), self._staged(target, io.BytesIO(data), force) as temporary:
            self._remove(_side_file(target))
            try:
                self._calls.link(temporary, target)
            except FileExistsError:
                # A network file system may repeat a request whose answer was lost: the second link shows who won.
                if os.stat(temporary).st_nlink == 1:
                    self._disk.force(target, force)
                    return False
            if force is not Force.NOTHING:
                self._disk.force_name(target)
            return True

    def replace(self, path: str, data: bytes) -> None:
        self._put(path, io.BytesIO(data), self._force_of(path))

    def names(self, folder: str) -> list[str]:
        with self._errors(folder):
            try:
                found = self._calls.names(self.path(folder))
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(name for name in found if not _HIDDEN.fullmatch(name))

    def walk(self, folder: str) -> Iterator[Entry]:
        return walked(folder, self._children)

    def unfinished(self, folder: str) -> Iterator[Entry]:
        for above, _, names in os.walk(self.path(folder)):
            for name in names:
                side_of = _SIDE_FILE.fullmatch(name)
                if name.startswith(_TEMPORARY) or (side_of and not os.path.lexists(os.path.join(above, side_of[1]))):
                    with suppress(FileNotFoundError):
                        size = os.stat(os.path.join(above, name)).st_size
                        yield Entry(os.path.relpath(os.path.join(above, name), self._root), size)

    def delete(self, path: str) -> None:
        target = self.path(check_path(path))
        with self._errors(path, _WRITE_ERRORS):
            self._remove(_side_file(target))
            self._remove(target)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, folder: str) -> None:
        target = self.path(check_path(folder))
        with self._errors(folder, _WRITE_ERRORS):
            self._remove(_side_file(target))
            self._remove_tree(target)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        for name in names:
            self.delete_tree(f"{folder}/{name}" if folder else name)

    def copy(self, source: str, target: str) -> int:
        check_path(target)
        with self._errors(source), self.open(source) as file:
            self._put(target, file)
            return file.tell()

    def copy_from(self, source: Store, path: str, target: str) -> int:
        check_path(target)
        with source.open(path) as file:
            self._put(target, file)
            return file.tell()

    def move(self, source: str, target: str) -> None:
        old, new = self.path(check_path(source)), self.path(check_path(target))
        with self._errors(target, _WRITE_ERRORS):
            if not os.path.isfile(old):
                raise NotFound(source)
            self._calls.make_folders(os.path.dirname(new))
            self._remove(_side_file(new))
            try:
                self._calls.replace(old, new)
            except FileNotFoundError:
                raise NotFound(source) from None
            self._remove(_side_file(old))

    def _put(self, path: str, source: BinaryIO, force: Force = Force.NOTHING) -> None:
        target = self.path(check_path(path))
        with self._errors(path, _WRITE_ERRORS), self._staged(target, source, force) as temporary:
            self._remove(_side_file(target))
            self._calls.replace(temporary, target)
            if force is not Force.NOTHING:
                self._disk.force_name(target)

    @contextmanager
    def _staged(self, target: str, source: BinaryIO, force: Force) -> Iterator[str]:
        """Hold the bytes of `source` in a temporary file beside `target` inside; afterwards delete what is left."""
        folder = os.path.dirname(target)
        self._disk.make_folder(folder)
        temporary = os.path.join(folder, _TEMPORARY + os.urandom(8).hex())
        try:
            with self._calls.new_file(temporary) as file:
                _copied_by_the_system(source, file)
                while chunk := source.read(_CHUNK_BYTES):
                    file.write(chunk)
            self._disk.force_content(temporary, force)
            yield temporary
        finally:
            with suppress(OSError):
                self._calls.unlink(temporary)

    def _children(self, folder: str) -> list[tuple[str, int | None]]:
        """Return the names right below `folder` with their bytes (None: a folder)."""
        found: list[tuple[str, int | None]] = []
        with (
            self._errors(folder),
            suppress(FileNotFoundError, NotADirectoryError),
            self._calls.entries(self.path(folder)) as entries,
        ):
            for entry in entries:
                if _HIDDEN.fullmatch(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append((entry.name, None))
                    continue
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        found.append((entry.name, entry.stat().st_size))
        return found

    def _remove(self, path: str) -> None:
        try:
            self._calls.unlink(path)
        except OSError as error:
            if not names_nothing(error):
                raise

    def _remove_tree(self, path: str) -> None:
        """Remove a file, a link (not what it leads to) or a folder with all in it; others may be removing it too."""
        if os.path.islink(path) or not os.path.isdir(path):
            self._remove(path)
            return
        with suppress(FileNotFoundError):
            for name in self._calls.names(path):
                self._remove_tree(os.path.join(path, name))
            os.rmdir(path)

    @contextmanager
    def _errors(self, path: str, codes: Mapping[int, str] | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            code = (codes or {}).get(error.errno or 0, "STORAGE_UNAVAILABLE")
            reason = f"{error.strerror or error} ({path or 'its root'})"
            raise StorageError(code, uri=self.location, reason=reason) from error


def _copied_by_the_system(source: BinaryIO, target: BinaryIO) -> None:
    """Let the system copy from file to file where it can; what it leaves over is still to be read.

    A file system that can share blocks between files then copies nothing at all. Hard links would go farther: what is
    linked changes with its original, and a savepoint must not.
    """
    if not hasattr(os, "copy_file_range"):
        return
    try:
        while os.copy_file_range(source.fileno(), target.fileno(), _SYSTEM_BYTES):
            pass
    except io.UnsupportedOperation:
        return  # the source is no file
    except OSError as error:
        if error.errno not in _NOT_BY_THE_SYSTEM:
            raise


def _side_file(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}.crc")
