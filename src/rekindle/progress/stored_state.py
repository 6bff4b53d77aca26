"""The state of a checkpoint, a savepoint or a plain query: its folders, and the operators that keep it.

A task that keeps state has one subtask. A plain query is one task without a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rekindle.errors import RestoreError, StorageError
from rekindle.ids import SubtaskId
from rekindle.progress.directory import last_committed, numbered
from rekindle.storage import layout
from rekindle.storage.open import open_store
from rekindle.storage.origin import Origin, find_origin
from rekindle.storage.port import NotFound, Store

_TIMERS = "timers"

JOIN = "symmetricHashJoin"
"""Spark's name of the operator that joins two streams."""

_SIDES = ("left", "right")


class StateVariable(NamedTuple):
    """A state variable of transformWithState."""

    #: ``ValueState``, ``ListState`` or ``MapState``
    kind: str
    #: True if its values expire
    expires: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulOperator:
    """A stateful operator of a query, by its metadata."""

    #: number of the operator in the query
    number: int
    #: Spark's name of it, e.g. ``stateStoreSave``
    name: str
    #: sides of a join, or state variables and timers of transformWithState; empty: its state is one table
    parts: tuple[str, ...]
    #: URIs of the files with its schemas; empty: Spark keeps them in the state stores
    schema_files: tuple[str, ...]
    #: name → state variable of transformWithState
    variables: Mapping[str, StateVariable] = field(default_factory=dict)
    #: prefix of the names of its column families of timers; empty: it has none
    timers: str = ""

    @property
    def timers_part(self) -> str:
        """The part with its timers: ``timers``, or Spark's name for them if a variable has that; empty: none."""
        return self.timers if _TIMERS in self.variables or not self.timers else _TIMERS


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTaskState:
    """The state of a task after a batch."""

    store: Store
    #: its progress directory in `store`
    folder: str
    #: the committed batch
    batch: int

    def operators(self, number: int | None = None) -> list[StatefulOperator]:
        """Return the stateful operators of the task, in the order of their numbers, or only the one with this number.

        Raises:
            StorageError: ``OBJECT_CORRUPT``.
            RestoreError: ``STATE_OPERATOR_UNKNOWN``; ``STATE_MOVED`` if Spark would look for a schema elsewhere.
        """
        home = _plain_path(self.store.spark_path(self.folder))
        found = {operator.number: operator for operator in stateful_operators(self.store, self.folder, self.batch)}
        if number is not None and number not in found:
            known = ", ".join(f"{one.number} ({one.name})" for one in found.values()) or "none that can be read"
            raise RestoreError("STATE_OPERATOR_UNKNOWN", path=self.folder, operator=number, known=known)
        for operator in found.values():
            for file in operator.schema_files:
                if not _plain_path(file).startswith(f"{home}/"):
                    raise RestoreError("STATE_MOVED", path=self.folder, file=file)
        return [found[number]] if number is not None else list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """All state of a checkpoint, a savepoint or a plain query."""

    path: str
    #: uid → state of each task that has some; the uid of a plain query is ""
    tasks: Mapping[str, StoredTaskState]

    def task(self, uid: str | None) -> StoredTaskState:
        """Return the state of a task; None: of the only task that has state.

        Raises:
            RestoreError: ``STATE_NONE``, ``STATE_TASK_UNKNOWN``.
        """
        if not self.tasks:
            raise RestoreError("STATE_NONE", path=self.path)
        if uid is None and len(self.tasks) == 1:
            (uid,) = self.tasks
        if uid is None or uid not in self.tasks:
            reason = "No task was named" if uid is None else f"It has none of {uid!r}"
            known = ", ".join(self.tasks) if any(self.tasks) else "one query, which has no tasks"
            raise RestoreError("STATE_TASK_UNKNOWN", path=self.path, reason=reason, known=known)
        return self.tasks[uid]


def find_state(path: str) -> StoredState:
    """Return the state of the checkpoint or savepoint at `path`, or of the plain query with that checkpoint location.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``.
    """
    root = open_store(path).location.rstrip("/")
    parent, _, name = root.rpartition("/")
    store = open_store(parent or "/")
    if not store.exists(layout.manifest(name)) and store.exists(f"{name}/metadata"):
        batch = last_committed(store, name)
        return _kept(root, {"": StoredTaskState(store=store, folder=name, batch=batch)})
    origin = find_origin(root)
    return _kept(root, dict(_tasks(origin)))


def _tasks(origin: Origin) -> Iterator[tuple[str, StoredTaskState]]:
    for uid, snapshots in origin.manifest.tasks.items():
        if (snapshot := snapshots.get(0)) is not None and snapshot.end is None:
            folder = layout.spark_progress_dir(origin.subtask(SubtaskId(uid, 0)))
            yield uid, StoredTaskState(store=origin.store, folder=folder, batch=snapshot.batch)


def _kept(path: str, tasks: Mapping[str, StoredTaskState]) -> StoredState:
    kept = {uid: task for uid, task in tasks.items() if task.batch >= 0 and task.store.names(f"{task.folder}/state")}
    return StoredState(path=path, tasks=kept)


def stateful_operators(store: Store, folder: str, batch: int) -> Iterator[StatefulOperator]:
    """Yield the operators with metadata in the progress directory `folder`, as they were in a batch.

    Raises:
        StorageError: ``OBJECT_CORRUPT``.
    """
    for number in numbered(store, f"{folder}/state"):
        metadata = f"{folder}/state/{number}/_metadata"
        versions = [found for found in numbered(store, f"{metadata}/v2") if found <= batch]
        path = f"{metadata}/v2/{max(versions)}" if versions else f"{metadata}/metadata"
        try:
            yield _operator(number, json.loads(store.read(path).decode().partition("\n")[2]))
        except NotFound:
            continue
        except (LookupError, TypeError, ValueError) as error:
            raise StorageError("OBJECT_CORRUPT", path=path, reason=error) from error


def _operator(number: int, content: Mapping[str, Any]) -> StatefulOperator:
    name = str(content["operatorInfo"]["operatorName"])
    files = [file for store in content["stateStoreInfo"] for file in store.get("stateSchemaFilePaths", ())]
    properties = json.loads(content.get("operatorPropertiesJson") or "{}")
    named, timers = dict[str, StateVariable](), ""
    for one in properties.get("stateVariables", ()):
        variable = StateVariable(one["stateVariableType"], bool(one.get("ttlEnabled")))
        if variable.kind == "TimerState":
            timers = one["stateName"].rpartition("_")[0]
        elif not one["stateName"].startswith("$"):
            named[one["stateName"]] = variable
    found = StatefulOperator(
        number=number, name=name, parts=_SIDES, schema_files=tuple(files), variables=named, timers=timers
    )
    return found if name == JOIN else replace(found, parts=(*sorted(named), *filter(None, [found.timers_part])))


def _plain_path(uri: str) -> str:
    """Return the path of a ``file:`` URI, with however many slashes it is written; other URIs unchanged."""
    return "/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri
