"""Who writes to a target: a note beside it for each job that has begun to, so that no second one does unasked.

Two jobs that write to one target each write all of their own rows, and a copy of a job writes rows of the job once
more. So a job whose storage has another identity than the one that was here before is refused, unless its user allows
it. Then there are notes of both, and neither is asked again. The same job in the same storage, wherever that has been
moved to, is the same owner. Targets of earlier versions have no note, and take the first who comes.

A note stays when its job is forgotten: the rows are still there, and the job begun again would write them again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone

from rekindle.errors import SinkError, StorageError
from rekindle.storage.port import NotFound, Store

FOLDER = "owners"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job's wish to write to the target of one of its sinks."""

    #: name and id of the job
    owner: str
    sink: str
    #: where its storage is, for a person
    storage: str
    now_ms: int
    #: others may write there too
    shared: bool = False

    def make(self, store: Store, hidden: str, target: str) -> None:
        """Note the owner in the folder `hidden` of the target, unless another one is there.

        Raises:
            SinkError: ``TARGET_TAKEN``.
        """
        folder = f"{hidden}/{FOLDER}"
        self._refuse(store, folder, target)
        note = {"owner": self.owner, "sink": self.sink, "storage": self.storage, "since_ms": self.now_ms}
        try:
            made = store.create(self._path(folder), json.dumps(note, indent=1).encode())
        except StorageError:
            return  # a disk that is full is waited for, and the next start leaves the note
        if made:
            try:
                self._refuse(store, folder, target)  # of two that come at once, one at least sees the other
            except SinkError:
                store.delete(self._path(folder))
                raise

    def _path(self, folder: str) -> str:
        return f"{folder}/{self.owner}.json"

    def _refuse(self, store: Store, folder: str, target: str) -> None:
        names = store.names(folder)
        others = [name for name in names if name != f"{self.owner}.json"]
        if self.shared or not others or (len(names) > len(others) and self._settled(store, folder)):
            return
        note = _note(store, f"{folder}/{others[0]}")
        raise SinkError(
            "TARGET_TAKEN",
            sink=self.sink,
            target=target,
            owner=note.get("owner", others[0].removesuffix(".json")),
            storage=note.get("storage", "another storage"),
            since=_day(note.get("since_ms")),
        )

    def _settled(self, store: Store, folder: str) -> bool:
        """Whether the note that is there was made by an earlier start, and not by this call."""
        return bool(_note(store, self._path(folder)).get("since_ms") != self.now_ms)


def _note(store: Store, path: str) -> dict[str, object]:
    try:
        found = json.loads(store.read(path))
    except (NotFound, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _day(since_ms: object) -> str:
    if not isinstance(since_ms, int):
        return "some time"
    return datetime.fromtimestamp(since_ms / 1000, timezone.utc).isoformat(timespec="seconds")
