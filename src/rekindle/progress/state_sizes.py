"""The sizes of the state of a query's operators, from the files of its state store: no Spark, no JVM.

The metadata of a RocksDB snapshot has the number of its keys. After changelogs, and with another provider, only loading
the state would show it: then the number of rows is not known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rekindle.progress.files import StateFolder, snapshot_metadata, state_folders
from rekindle.progress.stored_state import stateful_operators
from rekindle.storage.port import Store

_STORE = re.compile(r".*/state/(?P<operator>\d+)/(?P<partition>\d+)(?:/(?P<name>[^/]+))?")

_COUNTS_OF_A_JOIN = "keyToNumValues"
"""A part of the names of a join's stores that hold only the number of rows of each key, and no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSize:
    """The size of the state of one stateful operator of a subtask."""

    #: number of the operator in the query
    operator: int
    #: Spark's name of it, e.g. ``stateStoreSave``
    name: str
    #: number of Spark's state partitions
    partitions: int
    #: number of rows; None: the files do not tell
    rows: int | None
    #: size of the files that a start from here loads
    bytes: int


def state_sizes(store: Store, folder: str, batch: int) -> Iterator[StateSize]:
    """Yield the sizes of the state of the query in the progress directory `folder` after the committed `batch`.

    Raises:
        StorageError: a file of the state is damaged.
    """
    folders, _ = state_folders(store, folder)
    names = {operator.number: operator.name for operator in stateful_operators(store, folder, batch)}
    sizes = {entry.path: entry.size_bytes for entry in store.walk(f"{folder}/state")}
    partitions: dict[int, set[str]] = defaultdict(set)
    rows: dict[int, list[int | None]] = defaultdict(list)
    files: dict[int, set[str]] = defaultdict(set)
    for path, state in folders.items():
        match = _STORE.fullmatch(path)
        if match is None:
            continue
        operator = int(match["operator"])
        partitions[operator].add(match["partition"])
        files[operator].update(state.needed(store, batch + 1))
        if _COUNTS_OF_A_JOIN not in (match["name"] or ""):
            rows[operator].append(_rows(store, state, batch + 1))
    for operator in sorted(partitions):
        counted = [count for count in rows[operator] if count is not None]
        known = sum(counted) if len(counted) == len(rows[operator]) else None
        yield StateSize(
            operator=operator,
            name=names.get(operator, "?"),
            partitions=len(partitions[operator]),
            rows=known,
            bytes=sum(sizes.get(path, 0) for path in files[operator]),
        )


def _rows(store: Store, state: StateFolder, version: int) -> int | None:
    snapshot = state.snapshots.get(version)
    if snapshot is None or not snapshot.endswith(".zip"):
        return None
    rows = snapshot_metadata(store, snapshot).get("numKeys")
    return rows if isinstance(rows, int) and rows >= 0 else None
