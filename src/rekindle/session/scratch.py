"""The folder for temporary files of Spark's JVM: what a JVM that was killed has left there is deleted by the next one.

A JVM has copies of its libraries in its temporary directory, Spark its blocks, and RocksDB all of the state. Java and
Spark delete these when the JVM ends by itself. One that is killed leaves them. So each process gives its JVMs a folder
of its own, below one folder for all processes of the user, and holds a lock on it. The system releases the lock when
the process ends, however that comes about, also in a container that has ended. A process that starts a JVM deletes the
folders that have no lock.

A user who names another place, for Java or for Spark, gets what they named.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rekindle.errors import ConfigError
from rekindle.session.kept_classes import quoted

OPTION = "java.io.tmpdir"
"""The property of Java that names the directory; Spark uses it, too, unless a setting of its own names another one."""

_TRIES = 3
"""Another process may delete a new folder before it is locked; and a file system may have no locks."""

_HELD: list[tuple[int, Path]] = []
"""The folder of this process, and the file descriptor that has the lock."""


def option(given: Iterable[str], root: str | None = None) -> str:
    """Return the option of Java that gives a new JVM of this process an empty folder; none where none can be made.

    Args:
        given: options of Java that the user gives.
        root: the directory for the folder of all processes.
    """
    if any(f"-D{OPTION}" in text for text in given):
        return ""
    folder = _renewed(Path(root or temporary(), f"rekindle-spark-{os.getuid()}"))
    return "" if folder is None else quoted(f"-D{OPTION}={folder}")


def temporary() -> str:
    """Return the directory for temporary files of this process.

    Raises:
        ConfigError: ``TEMPORARY_FOLDER_MISSING``.
    """
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise ConfigError("TEMPORARY_FOLDER_MISSING") from error


def held() -> str | None:
    """Return the folder that the JVM of this process was given; None: none was."""
    return str(_HELD[-1][1]) if _HELD else None


def _renewed(place: Path) -> Path | None:
    """Delete the folders of processes that have ended, and of a JVM of this one; return a new folder."""
    while _HELD:  # a process has one JVM at a time, and the one before is dead
        held, before = _HELD.pop()
        shutil.rmtree(before, ignore_errors=True)
        os.close(held)
    try:
        if not _is_ours(place):
            return None
        for folder in place.iterdir():
            _delete_if_left(folder)
        for _ in range(_TRIES):
            folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=place))
            if (lock := _lock(folder)) is not None:
                _HELD.append((lock, folder))
                return folder
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass
    return None


def _is_ours(place: Path) -> bool:
    """Make the folder, and return True if no other user can write to it."""
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _delete_if_left(folder: Path) -> None:
    with suppress(OSError):
        lock = _lock(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder, and return the file descriptor; None if another process has the lock, or deleted the folder."""
    with suppress(FileNotFoundError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened), os.stat(folder)):
                    return opened
        os.close(opened)
    return None
