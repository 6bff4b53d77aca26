"""The addresses of a job in its own files, which change when the job goes to another place.

Most of them say nothing: documents name what they need by its path below the job. An absolute address of the job itself
is in these, which are written again for the new place:

- the logs of inboxes and of watermark rows, which Spark's file source reads, and what that source notes in its own log
  of the files that it has read: both have to be the same letters, or a file is read twice;
- the metadata of Spark's operators, which name the files with the schema of their state;
- documents with the address of a checkpoint of the job, such as what a lineage was restored from.

Wherever else something that decides holds an address of the job, no one here knows what it is for, and the job is not
copied. Rows are not looked at, nor what a sink stages, nor what Spark keeps of state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from rekindle.errors import StorageError
from rekindle.progress.directory import encode_file_log, file_log
from rekindle.progress.files import at_home, is_operator_metadata, is_state_data
from rekindle.storage import layout
from rekindle.storage.job_documents import place
from rekindle.storage.port import Store
from rekindle.upkeep.opened import kind_of

_LOGS = ("inbox.admit", "mark.admit")
_DECIDING = (
    "job.create",
    "run.create",
    "lineage.create",
    "files.freeze",
    "schema.create",
    "split.assign",
    "splits.give",
    "read.create",
    "record.create",
    "end.create",
    "drain.create",
    "manifest.create",
    "committed.create",
    "rewound.create",
)
_FOR_PEOPLE = ("result.create", "request.create", "answer.create", "status.replace", "history.replace")
_LOG_OF_SOURCE = re.compile(r".*/spark/sources/[^/]+/\d+(\.compact)?")
_HOME = re.compile(r"(.*/spark)/state/.*")


class Rehoming:
    """A job that goes from one store to another."""

    def __init__(self, source: Store, target: Store, job: str) -> None:
        self._source, self._target, self._job = source, target, job
        self._new = f"{place(target, layout.job(job))}/"
        # Not after a backslash: that would be a quotation in the middle of a text.
        self._beginning = re.compile(rb'(?<=(?<!\\)")' + re.escape(_in_json(f"{place(source, layout.job(job))}/")))
        self._old_uri, self._new_uri = (f"{store.uri(layout.job(job))}/" for store in (source, target))
        foreign = sorted(_addresses(source, job) - _addresses(target, job))
        self._address = re.compile("|".join(rf"(?<![\w.%-]){re.escape(one)}" for one in foreign)) if foreign else None

    def reader(self, path: str) -> Callable[[bytes], bytes] | None:
        """Return what makes of a file's content what is to be at the target; None: any content stays as it is.

        It raises StorageError ``COPY_ADDRESS_UNKNOWN``, or ``OBJECT_CORRUPT``.
        """
        kind = kind_of(path)
        if kind in _LOGS:
            return lambda data: self._log(path, data)
        if kind in _DECIDING:
            return lambda data: self._document(path, data, decides=True)
        if kind in _FOR_PEOPLE:
            return lambda data: self._document(path, data, decides=False)
        if kind == "progress.write" and not is_state_data(path):
            return lambda data: self._progress(path, data)
        return None

    def _log(self, path: str, data: bytes) -> bytes:
        version, *lines = data.split(b"\n")
        made = []
        for line in lines:
            entry = self._parsed(path, line)
            moved = self._moved(entry)
            self._refuse_addresses(path, moved)
            made.append(line if moved == entry else json.dumps(moved).encode())
        return b"\n".join([version, *made])

    def _progress(self, path: str, data: bytes) -> bytes:
        home = _HOME.fullmatch(path)
        if home and is_operator_metadata(path):
            data = at_home(data, path, self._target.spark_path(home[1]))
        elif _LOG_OF_SOURCE.fullmatch(path) and (entries := file_log(data, path)):
            moved = [self._moved(entry) for entry in entries]
            data = data if moved == entries else encode_file_log(moved)
        self._refuse_addresses(path, data.decode(errors="replace"))
        return data

    def _document(self, path: str, data: bytes, *, decides: bool) -> bytes:
        """Replace the old place by the new one where a text begins with it; all else is unchanged, blanks included."""
        moved = self._beginning.sub(lambda _: _in_json(self._new), data)
        if decides:
            self._refuse_addresses(path, self._parsed(path, moved))
        return moved

    def _parsed(self, path: str, data: bytes) -> Any:
        try:
            return msgspec.json.decode(data)
        except msgspec.MsgspecError as error:
            raise StorageError("OBJECT_CORRUPT", path=place(self._source, path), reason=error) from error

    def _moved(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry of a log of files with the new address of a file of the job."""
        path = entry["path"]
        return (
            {**entry, "path": self._new_uri + path[len(self._old_uri) :]} if path.startswith(self._old_uri) else entry
        )

    def _refuse_addresses(self, path: str, value: Any) -> None:
        for text in _texts(value):
            found = self._address.search(text) if self._address else None
            if found:
                raise StorageError("COPY_ADDRESS_UNKNOWN", path=place(self._source, path), address=found[0])


def _in_json(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _addresses(store: Store, job: str) -> set[str]:
    """Return what the address of a file of the job may begin with."""
    folder = layout.job(job)
    return {f"{address}/" for address in (place(store, folder), store.uri(folder), store.spark_path(folder))}


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
