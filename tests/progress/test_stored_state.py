"""Where state lies and which operators keep it, read off a progress directory without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import RestoreError, StorageError
from rekindle.progress.copies import copy_for_adoption
from rekindle.progress.stored_state import StoredTaskState, find_state, stateful_operators
from rekindle.storage.folder import Folder
from rekindle.storage.open import open_store


class Query:
    """The checkpoint location of a plain query."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("metadata", '{"id":"q"}')

    def put(self, path: str, text: str) -> None:
        """Write a file of it."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self, batch: int) -> None:
        """As Spark does after a batch."""
        self.put(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def operator(self, path: str, name: str, *, schemas: tuple[str, ...] = (), **more: Any) -> None:
        """Write an operator's metadata."""
        stores = [{"storeName": "default", "numPartitions": 2}]
        if schemas:
            stores[0]["stateSchemaFilePaths"] = list(schemas)
        content = {"operatorInfo": {"operatorId": 0, "operatorName": name}, "stateStoreInfo": stores, **more}
        self.put(f"state/{path}", f"v1\n{json.dumps(content)}")

    def variables(self, *names: str) -> str:
        """State variables of transformWithState; timers begin with $."""
        kinds = {name: "TimerState" if name.startswith("$") else "ValueState" for name in names}
        return json.dumps({"stateVariables": [{"stateName": n, "stateVariableType": kinds[n]} for n in names]})


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "query")


def parts(query: Query, batch: int = 5) -> dict[str, tuple[str, ...]]:
    store = open_store(str(query.root.parent))
    return {operator.name: operator.parts for operator in stateful_operators(store, query.root.name, batch)}


def test_operators_have_the_parts_that_sparks_reader_takes_apart(query: Query) -> None:
    query.operator("0/_metadata/metadata", "stateStoreSave")
    query.operator("1/_metadata/metadata", "symmetricHashJoin")
    timers = query.variables("seen", "$eventTimers_keyToTimestamp", "count")
    query.operator("2/_metadata/v2/0", "transformWithStateExec", operatorPropertiesJson=timers)
    assert parts(query) == {
        "stateStoreSave": (),
        "symmetricHashJoin": ("left", "right"),
        "transformWithStateExec": ("count", "seen", "timers"),
    }
    store = open_store(str(query.root.parent))
    operator = next(one for one in stateful_operators(store, query.root.name, 5) if one.variables)
    assert operator.timers == "$eventTimers"
    assert operator.variables == {"seen": ("ValueState", False), "count": ("ValueState", False)}


def test_a_variable_keeps_its_name_where_that_is_the_one_of_timers(query: Query) -> None:
    variables = query.variables("timers", "$eventTimers_keyToTimestamp")
    query.operator("0/_metadata/v2/0", "transformWithStateExec", operatorPropertiesJson=variables)
    assert parts(query) == {"transformWithStateExec": ("timers", "$eventTimers")}
    store = open_store(str(query.root.parent))
    (operator,) = stateful_operators(store, query.root.name, 5)
    assert operator.timers_part == "$eventTimers"


def test_metadata_are_those_of_the_batch_and_not_the_newest(query: Query) -> None:
    for batch, names in ((0, ("a",)), (9, ("a", "b")), (10, ("a", "b", "c"))):
        properties = query.variables(*names)
        query.operator(f"0/_metadata/v2/{batch}", "tws", operatorPropertiesJson=properties)
    assert [parts(query, batch)["tws"] for batch in (0, 8, 9, 10, 11)] == [
        ("a",),
        ("a",),
        ("a", "b"),
        ("a", "b", "c"),
        ("a", "b", "c"),
    ]


def test_state_without_metadata_has_no_operator_that_can_be_read(query: Query) -> None:
    query.put("state/0/0/1.delta", "")
    assert parts(query) == {}


def test_damaged_metadata_are_named(query: Query) -> None:
    query.put("state/0/_metadata/metadata", "v1\n[]")
    with pytest.raises(StorageError) as caught:
        parts(query)
    assert caught.value.code == "OBJECT_CORRUPT"
    assert "state/0/_metadata/metadata" in caught.value.message


def test_a_plain_query_is_one_task_after_its_last_batch(query: Query) -> None:
    query.operator("0/_metadata/metadata", "stateStoreSave")
    query.commit(0)
    query.commit(11)
    state = find_state(str(query.root)).task(None)
    assert state.batch == 11
    assert [operator.name for operator in state.operators()] == ["stateStoreSave"]
    with pytest.raises(RestoreError) as caught:
        find_state(str(query.root)).task("hourly")
    assert caught.value.code == "STATE_TASK_UNKNOWN"


@pytest.mark.parametrize("committed", [True, False])
def test_a_query_that_keeps_nothing_says_so(query: Query, committed: bool) -> None:
    if committed:
        query.commit(3)
    else:
        query.operator("0/_metadata/metadata", "stateStoreSave")
    with pytest.raises(RestoreError) as caught:
        find_state(str(query.root)).task(None)
    assert caught.value.code == "STATE_NONE"


def test_a_folder_without_a_query_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RestoreError) as caught:
        find_state(str(tmp_path / "nothing"))
    assert caught.value.code == "CHECKPOINT_UNKNOWN"


@pytest.mark.parametrize("scheme", ["file:", "file://", ""])
def test_schemas_are_at_home_however_their_place_is_written(query: Query, scheme: str) -> None:
    query.operator("0/_metadata/v2/0", "tws", schemas=(f"{scheme}{query.root}/state/0/_stateSchema/default/0_x",))
    query.commit(0)
    state = find_state(str(query.root)).task(None)
    assert [operator.name for operator in state.operators()] == ["tws"]


def test_state_that_was_moved_is_refused_where_spark_would_look_for_its_schema_elsewhere(query: Query) -> None:
    query.operator("0/_metadata/v2/0", "tws", schemas=(f"file:{query.root}-before/state/0/_stateSchema/default/0_x",))
    query.commit(0)
    state = find_state(str(query.root)).task(None)
    with pytest.raises(RestoreError) as caught:
        list(state.operators())
    assert caught.value.code == "STATE_MOVED"
    assert f"{query.root}-before" in caught.value.message


def test_the_state_of_a_query_that_is_adopted_is_at_home_in_the_savepoint(query: Query, tmp_path: Path) -> None:
    query.operator("0/_metadata/v2/0", "tws", schemas=(f"file:{query.root}/state/0/_stateSchema/default/0_x",))
    query.put("offsets/0", 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{"logOffset":0}')
    query.commit(0)
    here, there = open_store(str(query.root.parent)), open_store(str(tmp_path / "savepoint"))
    copy_for_adoption(Folder(here, query.root.name), Folder(there, "spark"), 0, [0], ["0"])
    adopted = StoredTaskState(store=there, folder="spark", batch=0)
    assert [operator.name for operator in adopted.operators()] == ["tws"]
