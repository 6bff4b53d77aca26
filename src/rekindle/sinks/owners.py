"""The owners of a target: each job that writes there has a note beside it, and no second job begins to unasked.

Two jobs that write to one target each write all of their own rows, and a copy of a job writes rows of the job once
more. So a job whose storage has another identity than the one that was here before is refused, unless its user allows
it. Then there are notes of both, and neither is asked again. The same job in the same storage, wherever that has been
moved to, is the same owner. Targets of earlier versions have no note: the first job takes them.

A note stays when its job is forgotten: the rows are still there, and the job begun again would write them again.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from rekindle.errors import SinkError, StorageError
from rekindle.storage.port import NotFound, Store

FOLDER = "owners"

Note = dict[str, Any]
"""JSON: the owner, its sink, its storage, and since when."""


class Notes(Protocol):
    """The notes of one target. A driver that looks after a note was written sees it."""

    def owners(self) -> Collection[str]:
        """Return the owners that have a note there."""

    def read(self, owner: str) -> Note:
        """Return what the owner's note says; nothing where it cannot be read or is gone."""

    def write(self, owner: str, note: Note) -> bool:
        """Leave a note; False where the owner has one, or where there is no room for it."""

    def remove(self, owner: str) -> None:
        """Remove the note."""


@dataclass(frozen=True, slots=True)
class OwnerFiles:
    """Notes in the folder `hidden` of a target, a file for each owner."""

    store: Store
    hidden: str

    def owners(self) -> Collection[str]:
        """Return the owners: the names of the files, without ``.json``."""
        names = self.store.names(f"{self.hidden}/{FOLDER}")
        return [name.removesuffix(".json") for name in names]

    def read(self, owner: str) -> Note:
        """Read the file."""
        try:
            return parsed(self.store.read(self._path(owner)))
        except NotFound:
            return {}

    def write(self, owner: str, note: Note) -> bool:
        """Make the file; False where it is there or cannot be written: in that case the next start leaves the note."""
        try:
            return self.store.create(self._path(owner), json.dumps(note, indent=1).encode())
        except StorageError:
            return False

    def remove(self, owner: str) -> None:
        """Delete the file."""
        self.store.delete(self._path(owner))

    def _path(self, owner: str) -> str:
        return f"{self.hidden}/{FOLDER}/{owner}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job's wish to write to the target of one of its sinks."""

    #: name and id of the job
    owner: str
    sink: str
    #: place of its storage, for a person
    storage: str
    now_ms: int
    #: others may write there too
    shared: bool = False

    def make(self, notes: Notes, target: str) -> None:
        """Note the owner of the target, unless another one is noted there.

        Raises:
            SinkError: ``TARGET_TAKEN``.
        """
        self.check(notes, target)
        note = {"owner": self.owner, "sink": self.sink, "storage": self.storage, "since_ms": self.now_ms}
        if notes.write(self.owner, note):
            try:
                self.check(notes, target)  # of two that come at once, one at least sees the other
            except SinkError:
                notes.remove(self.owner)
                raise

    def check(self, notes: Notes, target: str) -> None:
        """Refuse a target where another owner is noted, and note nothing.

        Raises:
            SinkError: ``TARGET_TAKEN``.
        """
        owners = notes.owners()
        others = sorted(owner for owner in owners if owner != self.owner)
        if self.shared or not others or (len(owners) > len(others) and self._settled(notes)):
            return
        note = notes.read(others[0])
        raise SinkError(
            "TARGET_TAKEN",
            sink=self.sink,
            target=target,
            owner=note.get("owner", others[0]),
            storage=note.get("storage", "another storage"),
            since=_day(note.get("since_ms")),
        )

    def _settled(self, notes: Notes) -> bool:
        """Return whether the job's note was made by an earlier start, and not by this call."""
        return bool(notes.read(self.owner).get("since_ms") != self.now_ms)


def parsed(text: str | bytes) -> Note:
    """Parse a note; return nothing where the text is no note."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _day(since_ms: object) -> str:
    if not isinstance(since_ms, int):
        return "some time"
    return datetime.fromtimestamp(since_ms / 1000, timezone.utc).isoformat(timespec="seconds")
