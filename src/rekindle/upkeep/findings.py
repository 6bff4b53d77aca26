"""The findings of a look through a storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rekindle.errors import RekindleError, StorageError
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import Status
from rekindle.storage.port import NotFound

_UNREACHED = frozenset({"STORAGE_UNAVAILABLE", "STORAGE_CREDENTIALS_MISSING", "KERBEROS_TICKET_NEEDED"})
"""Errors that say nothing about what is stored."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is missing, or is not what it was."""

    path: str
    #: of the error that a start would meet
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file, or a folder with all in it, that nothing refers to."""

    path: str
    size_bytes: int
    #: the reason why nothing needs it
    reason: str


@dataclass(slots=True)
class Findings:
    """The findings in a job, or in a savepoint."""

    name: str
    #: of a job; empty for a savepoint
    state: str = ""
    #: of a job: number and token of the newest run, before all else was read
    run: tuple[int, str] = (0, "")
    #: of a job: the last sign of life of its driver, if that is on another machine and was waited for in vain
    silent: Run | Status | None = None
    files: int = 0
    size_bytes: int = 0
    faults: list[Fault] = field(default_factory=list)
    #: of a job that runs they are not looked for: what it is just writing, nothing refers to yet
    orphans: list[Orphan] = field(default_factory=list)

    def note(self, error: RekindleError, path: str) -> None:
        """Add a fault, once."""
        fault = Fault(path, error.code, error.message)
        if fault not in self.faults:
            self.faults.append(fault)

    def missing(self, path: str, needed_by: str) -> None:
        """Add a fault: there is nothing at `path`."""
        self.note(StorageError("OBJECT_MISSING", path=path, needed_by=needed_by), path)

    def damaged(self, path: str, reason: str) -> None:
        """Add a fault: what lies at `path` is not what it should be."""
        self.note(StorageError("OBJECT_CORRUPT", path=path, reason=reason), path)

    @contextmanager
    def noting(self, path: str) -> Iterator[None]:
        """Note an error inside, of what is stored at `path`, as a fault: it does not end the check.

        A file may also be gone, or be a folder, by the time that it is read.

        Raises:
            StorageError: the storage cannot be reached.
        """
        try:
            yield
        except RekindleError as error:
            if not isinstance(error, StorageError) or error.code in _UNREACHED:
                raise
            self.note(error, str(error.parameters.get("path", path)))
        except NotFound as error:
            self.missing(str(error), "a start")
