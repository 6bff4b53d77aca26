"""The files of a `spark_progress_dir` that a committed batch needs: the one list for copying and purging.

State comes as whole snapshots (`<v>.zip` of RocksDB, `<v>.snapshot` of the HDFS-backed provider) and as changes
(`<v>.changelog`, `<v>.delta`) that lead from one version to the next, so version V needs the newest snapshot S <= V and
the changes S+1 to V. A RocksDB snapshot names the immutable files in ``SSTs/`` and ``logs/`` it consists of and shares
them with other snapshots. Files with other names count as needed.

This module only reads.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.errors import StorageError
from rekindle.progress.directory import COMPACTED, log_numbers
from rekindle.storage.port import NotFound, Store

_VERSION = re.compile(r"(.+)/(\d+)\.(zip|snapshot|changelog|delta)")
_SHARED = re.compile(r"(.+)/(?:SSTs|logs)/([^/]+)")
_OPERATOR_METADATA = re.compile(r".+/_metadata/v2/(\d+)")
_CHECKSUM = ".crc"
_NOTHING: Mapping[str, Collection[str]] = {}


@dataclass(slots=True)
class StateFolder:
    """The files of one state store: one operator, partition and store name. Paths are the store's."""

    #: version → its snapshot
    snapshots: dict[int, str] = field(default_factory=dict)
    #: version → file with the changes that lead to it
    changes: dict[int, str] = field(default_factory=dict)
    #: name of an immutable file → its path
    shared: dict[str, str] = field(default_factory=dict)

    def snapshot_for(self, version: int) -> int | None:
        """Return the snapshot that loading `version` starts from; None: it starts from nothing."""
        return max((found for found in self.snapshots if found <= version), default=None)

    def shared_by(self, store: Store, versions: list[int]) -> set[str]:
        """Return the paths of the immutable files of these snapshots."""
        names = {name for version in versions for name in _immutable_files(store, self.snapshots[version])}
        return {path for name, path in self.shared.items() if name in names}

    def needed(self, store: Store, version: int) -> Iterator[str]:
        """Yield the paths of the files that loading `version` reads."""
        start = self.snapshot_for(version)
        if start is not None:
            yield self.snapshots[start]
            yield from self.shared_by(store, [start])
        elif not self.snapshots:
            # There must be snapshots, with names that are not known here.
            yield from self.shared.values()
        yield from (path for found, path in self.changes.items() if (start or 0) < found <= version)


def log_batches(batch: int) -> range:
    """Return the batches whose offsets and commits Spark reads when it continues after `batch`."""
    return range(max(batch - 1, 0), batch + 1)


def files_needed(store: Store, folder: str, batch: int, without: Mapping[str, Collection[str]] = _NOTHING) -> list[str]:
    """Return the paths, below `folder`, of all files a query needs to continue after the committed `batch`.

    Temporary files, checksums and files that a file source's newest compacted log replaces are left out.

    Args:
        without: folder below ``sources/`` → names in it that are left out, too.

    Raises:
        StorageError: ``PROGRESS_BATCH_MISSING`` if `batch` is not committed, or was purged.
    """
    logs = [f"{log}/{number}" for log in ("offsets", "commits") for number in log_batches(batch)]
    if batch < 0 or not all(store.exists(f"{folder}/{path}") for path in logs):
        raise StorageError("PROGRESS_BATCH_MISSING", folder=folder, batch=batch)
    found = [*_state_needed(store, folder, batch), *_sources_needed(store, folder, without)]
    return ["metadata", *logs, *sorted(path.removeprefix(f"{folder}/") for path in found)]


def is_operator_metadata(path: str) -> bool:
    """Return whether a file is the metadata of an operator's state; only some kinds of operators have it."""
    return _OPERATOR_METADATA.fullmatch(path) is not None


def is_state_data(path: str) -> bool:
    """Return True for a file that holds rows of a state store, False for one that describes them."""
    return (_VERSION.fullmatch(path) or _SHARED.fullmatch(path)) is not None


def at_home(metadata: bytes, path: str, home: str) -> bytes:
    """Return an operator's metadata with the paths of its files in the progress directory with the URI `home`."""
    try:
        version, _, text = metadata.decode().partition("\n")
        content = json.loads(text)
        for store in content["stateStoreInfo"]:
            names = store["stateSchemaFilePaths"]
            store["stateSchemaFilePaths"] = [f"{home}/state/{below_state(name)}" for name in names]
    except (LookupError, TypeError, ValueError) as error:
        raise StorageError("OBJECT_CORRUPT", path=path, reason=error) from error
    return f"{version}\n{json.dumps(content, separators=(',', ':'))}".encode()


def below_state(name: str) -> str:
    """Return the part ``<operator>/_stateSchema/<store>/<file>`` of a full path."""
    return "/".join(name.split("/")[-4:])


def state_folders(store: Store, folder: str) -> tuple[dict[str, StateFolder], list[str]]:
    """Return every state store below `folder`, and the paths of the files under ``state/`` that belong to none."""
    folders: dict[str, StateFolder] = defaultdict(StateFolder)
    others: list[str] = []
    for path in _visible(store, f"{folder}/state"):
        if match := _VERSION.fullmatch(path):
            kind = folders[match[1]].snapshots if match[3] in ("zip", "snapshot") else folders[match[1]].changes
            kind[int(match[2])] = path
        elif match := _SHARED.fullmatch(path):
            folders[match[1]].shared[match[2]] = path
        else:
            others.append(path)
    return folders, others


def _state_needed(store: Store, folder: str, batch: int) -> Iterator[str]:
    folders, others = state_folders(store, folder)
    for state in folders.values():
        yield from state.needed(store, batch + 1)
    yield from of_batch(others, batch)


def of_batch(paths: Iterable[str], batch: int) -> Iterator[str]:
    """Yield the paths without operators' metadata of batches after `batch`.

    An operator writes its metadata again when a query restarts: that of a later batch belongs to another timeline.
    """
    for path in paths:
        match = _OPERATOR_METADATA.fullmatch(path)
        if match is None or int(match[1]) <= batch:
            yield path


def _sources_needed(store: Store, folder: str, without: Mapping[str, Collection[str]]) -> Iterator[str]:
    for source in store.names(f"{folder}/sources"):
        log, left_out = f"{folder}/sources/{source}", without.get(source, ())
        names = [name for name in store.names(log) if name not in left_out]
        not_needed = {f"{log}/{name}" for name in (*replaced_logs(names), *left_out)}
        yield from (path for path in _visible(store, log) if path not in not_needed)


def replaced_logs(names: Iterable[str]) -> Iterator[str]:
    """Yield the files of a file source's log that a compaction has replaced, except the compaction before it.

    From the distance of the last two compactions Spark infers how often to compact. From one alone it guesses, wrongly
    for the second; a restarted query then uses another interval than before, and cannot read its log.
    """
    numbers = log_numbers(names)
    compacted = sorted(number for name, number in numbers.items() if name.endswith(COMPACTED))
    newest, before = max(compacted, default=-1), max(compacted[:-1], default=-1)
    return (name for name, number in numbers.items() if number < newest and name != f"{before}{COMPACTED}")


def _visible(store: Store, folder: str) -> Iterator[str]:
    for entry in store.walk(folder):
        parts = entry.path.removeprefix(folder).split("/")
        if not entry.path.endswith(_CHECKSUM) and not any(part.startswith(".") for part in parts):
            yield entry.path


def _immutable_files(store: Store, snapshot: str) -> list[str]:
    """Return the names of the files in ``SSTs/`` and ``logs/`` that a RocksDB snapshot consists of."""
    if not snapshot.endswith(".zip"):
        return []
    metadata = snapshot_metadata(store, snapshot)
    try:
        return [file["dfsSstFileName"] for file in metadata["sstFiles"]] + [
            file["dfsLogFileName"] for file in metadata.get("logFiles") or ()
        ]
    except (LookupError, TypeError) as error:
        raise StorageError("OBJECT_CORRUPT", path=snapshot, reason=error) from error


def snapshot_metadata(store: Store, snapshot: str) -> dict[str, Any]:
    """Return the metadata of a RocksDB snapshot: its immutable files, and the number of its keys.

    Raises:
        StorageError: ``OBJECT_CORRUPT`` or ``PROGRESS_FORMAT_UNKNOWN``.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(store.read(snapshot))) as archive:
            version, _, text = archive.read("metadata").decode().partition("\n")
        if version != "v1":
            raise StorageError("PROGRESS_FORMAT_UNKNOWN", path=snapshot, reason=f"its metadata is {version!r}")
        return dict(json.loads(text))
    except NotFound as error:
        raise StorageError("OBJECT_CORRUPT", path=snapshot, reason="it vanished while it was read") from error
    except (zipfile.BadZipFile, LookupError, TypeError, ValueError) as error:
        raise StorageError("OBJECT_CORRUPT", path=snapshot, reason=error) from error
