"""Forcing what was written to the disk, so that it survives a loss of power.

A file is on the disk once it was synced itself, and the folder that has its name, and the folders that have the names
of these. Or once its whole file system was: that is one call for any number of files, of any process on this machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import BinaryIO, NamedTuple

from rekindle.storage.forcing import Force

BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Path of a random id, which Linux draws whenever the machine is started."""

_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM)
"""Errors for a folder that cannot be synced: its file system syncs no folders, or the folder is above the storage and
not ours."""

_KNOWN_AT_MOST = 1_000
"""Folders that are remembered: each checkpoint makes one. To force a name once more is harmless."""


_SYNCFS = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def _sync_file_system(descriptor: int) -> None:
    if _SYNCFS is None:  # not Linux: all of them
        os.sync()
    elif _SYNCFS(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _new_file(path: str) -> BinaryIO:
    return open(path, "xb")


def names_nothing(error: OSError) -> bool:
    """Return whether the system says that there is nothing at a path: a name that is too long for it names nothing."""
    return isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ENAMETOOLONG


class DiskCalls(NamedTuple):
    """Calls of the system; the first two are given a descriptor, the others paths."""

    sync: Callable[[int], None]
    sync_file_system: Callable[[int], None]
    make_folders: Callable[[str], None] = partial(os.makedirs, exist_ok=True)
    #: makes a file that is not there yet, and opens it
    new_file: Callable[[str], BinaryIO] = _new_file
    link: Callable[[str, str], None] = os.link
    replace: Callable[[str, str], None] = os.replace
    unlink: Callable[[str], None] = os.unlink
    stat: Callable[[str], os.stat_result] = os.stat
    names: Callable[[str], list[str]] = os.listdir
    entries: Callable[[str], AbstractContextManager[Iterator[os.DirEntry[str]]]] = os.scandir


SYSTEM = DiskCalls(os.fsync, _sync_file_system)


class Disk:
    """The disk below a folder.

    Args:
        root: the folder. Of the folders above it only the one that has its name is synced.
        beside: other folders that `settle` covers too; those that are missing are not looked at.
        calls: the calls of the system that are used.
    """

    def __init__(self, root: str, beside: Sequence[str] = (), calls: DiskCalls = SYSTEM) -> None:
        self._root = root
        self._calls = calls
        self._beside = tuple(beside)
        #: folders whose names are on the disk
        self._known: set[str] = set()

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it."""
        above, new = folder, ""
        while not os.path.isdir(above):
            above, new = os.path.dirname(above), above
        if new:
            # One of that name may have been there before, and its name forced then.
            known = tuple(self._known)[:_KNOWN_AT_MOST]
            self._known = {one for one in known if one != new and not one.startswith(f"{new}/")}
            self._calls.make_folders(folder)

    def force(self, path: str, force: Force) -> None:
        """Force a file that is there already to the disk, as a write with this force would."""
        if force is not Force.NOTHING:
            with suppress(FileNotFoundError):  # deleted meanwhile
                self.force_content(path, force)
                self.force_name(path)

    def force_content(self, path: str, force: Force) -> None:
        """Return once what is in a file is on the disk, under whatever name."""
        if force is Force.ITSELF:
            self._sync(path)
        elif force is Force.EVERYTHING:
            self.settle()

    def force_name(self, path: str) -> None:
        """Return once the name of a file is on the disk, and those of the folders that it is in."""
        folder = os.path.dirname(path)
        self._sync_folder(folder)
        while folder not in self._known and len(folder) >= len(self._root):
            above = os.path.dirname(folder)
            self._sync_folder(above)
            self._known.add(folder)
            folder = above

    def settle(self) -> None:
        """Return once all that was written to its file system, and to those of the other folders, is on the disk.

        Raises:
            OSError: the disk refuses.
        """
        seen = set()
        for folder in (self._root, *self._beside):
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                descriptor = os.open(folder, os.O_RDONLY)
                try:
                    device = os.fstat(descriptor).st_dev
                    if device not in seen:
                        seen.add(device)
                        self._calls.sync_file_system(descriptor)
                finally:
                    os.close(descriptor)

    def _sync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self._calls.sync(descriptor)
        finally:
            os.close(descriptor)

    def _sync_folder(self, folder: str) -> None:
        try:
            self._sync(folder)
        except OSError as error:
            if error.errno not in _NOT_FOR_FOLDERS:
                raise


def boot_id(path: str = BOOT_ID) -> str:
    """Return the id of this start of the machine; empty where the system gives none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
