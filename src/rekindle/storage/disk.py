"""Forcing what was written to the disk, so that it survives a loss of power.

A file is on the disk once it was synced itself, and the folder that has its name, and the folders that have the names
of these. Or once its whole file system was: that is one call for any number of files, of any process on this machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from contextlib import suppress

_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""What a file system says that syncs no folders: it has its own way with them."""

_KNOWN_AT_MOST = 1_000
"""Folders that are remembered: each checkpoint makes one. To force a name once more is harmless."""


class Disk:
    """The disk below a folder.

    Args:
        root: what is above it was there before, or is no concern of ours but for the name of this very folder.
        beside: other folders that `settle` covers too; those that are missing are not looked at.
    """

    def __init__(self, root: str, beside: Sequence[str] = ()) -> None:
        self._root = root
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
            os.makedirs(folder, exist_ok=True)

    def force_name(self, path: str) -> None:
        """Return once the name of a file is on the disk, and those of the folders that it is in."""
        folder = os.path.dirname(path)
        _sync_folder(folder)
        while folder not in self._known and len(folder) >= len(self._root):
            self._known.add(folder)
            folder = os.path.dirname(folder)
            _sync_folder(folder)

    def settle(self) -> None:
        """Return once all is on the disk that was written to its file system, and to those of the others.

        Raises:
            OSError: the disk refuses.
        """
        seen = set()
        for folder in (self._root, *self._beside):
            with suppress(FileNotFoundError, NotADirectoryError):
                descriptor = os.open(folder, os.O_RDONLY)
                try:
                    device = os.fstat(descriptor).st_dev
                    if device not in seen:
                        seen.add(device)
                        _sync_file_system(descriptor)
                finally:
                    os.close(descriptor)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise
    finally:
        os.close(descriptor)


_SYNCFS = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def _sync_file_system(descriptor: int) -> None:
    if _SYNCFS is None:  # not Linux: all of them
        os.sync()
    elif _SYNCFS(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
