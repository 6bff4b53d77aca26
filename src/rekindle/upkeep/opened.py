"""Open every document of a job as the class that its path stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import manifest_at
from rekindle.storage.copying import side_by_side
from rekindle.storage.documents.batch import BatchRecord, Drain, End, OutputSchema, PreludeDocument
from rekindle.storage.documents.checkpoint import Committed, Rewound
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.documents.copies import CopyOf
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.documents.sources import FrozenFiles, SplitAssignment, SplitRead, SplitsGiven
from rekindle.storage.job_documents import place, read_document
from rekindle.storage.port import NotFound, Store
from rekindle.upkeep.findings import Findings

Opener = Callable[[Store, str], object]


def _document(kind: type) -> Opener:
    return lambda store, path: read_document(store, path, kind)


def _manifest(store: Store, path: str) -> object:
    return manifest_at(store, path.rpartition("/")[0])


def _log(store: Store, path: str) -> object:
    """Read the log of an inbox: a version, and a JSON object in each line after it."""
    try:
        version, *lines = store.read(path).split(b"\n")
    except NotFound:
        return None
    try:
        entries = [json.loads(line)["path"] for line in lines]
    except (ValueError, LookupError, TypeError) as error:
        raise StorageError("OBJECT_CORRUPT", path=place(store, path), reason=error) from error
    if version != b"v1":
        raise StorageError("OBJECT_CORRUPT", path=place(store, path), reason=f"it begins with {version[:20]!r}")
    return entries


OPENERS: dict[str, Opener] = {
    "job.create": _document(Identity),
    "run.create": _document(Run),
    "result.create": _document(Result),
    "lineage.create": _document(Lineage),
    "files.freeze": _document(FrozenFiles),
    "schema.create": _document(OutputSchema),
    "split.assign": _document(SplitAssignment),
    "splits.give": _document(SplitsGiven),
    "read.create": _document(SplitRead),
    "record.create": _document(BatchRecord),
    "end.create": _document(End),
    "drain.create": _document(Drain),
    "prelude.create": _document(PreludeDocument),
    "inbox.admit": _log,
    "mark.admit": _log,
    "manifest.create": _manifest,
    "committed.create": _document(Committed),
    "rewound.create": _document(Rewound),
    "request.create": _document(Request),
    "answer.create": _document(Answer),
    "copy.begin": _document(CopyOf),
}
"""Step that writes a document → what opens it. The others decide nothing: a heartbeat, history, the log."""


def kind_of(path: str) -> str:
    """Return the step that writes `path`; empty for what this version does not know."""
    try:
        return layout.step_of(path)
    except KeyError:
        return ""


def open_all(store: Store, paths: Iterable[str], found: Findings) -> None:
    """Open each document among `paths`, several at a time; those that cannot be read are faults, in the order of these.

    What is gone by now is left out.
    """
    openers = {path: opener for path in paths if (opener := OPENERS.get(kind_of(path))) is not None}
    seen: dict[str, Findings] = {}

    def look(path: str) -> None:
        seen[path] = Findings(path)
        with seen[path].noting(path):
            openers[path](store, path)

    side_by_side(look, openers)
    found.faults += (fault for path in openers for fault in seen[path].faults if fault not in found.faults)
