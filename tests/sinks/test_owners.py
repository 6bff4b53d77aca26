"""A target belongs to the first job that writes there, until its user lets another one in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from rekindle.errors import SinkError, StorageError
from rekindle.sinks import Delta, Iceberg, Parquet, TwoPhaseSink
from rekindle.sinks.owners import Claim
from rekindle.storage.local import LocalStore
from rekindle.testing.sink_contract import batch_of


def claim(owner: str, *, now_ms: int = 1, shared: bool = False) -> Claim:
    return Claim(owner=owner, sink="out", storage=f"/storage/of/{owner}", now_ms=now_ms, shared=shared)


def parquet(folder: Path) -> TwoPhaseSink:
    return Parquet(folder / "out")


def delta(folder: Path) -> TwoPhaseSink:
    return Delta(folder / "out")


def iceberg(folder: Path) -> TwoPhaseSink:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    catalog = load_catalog("local", **properties)
    if not catalog.namespace_exists("db"):
        catalog.create_namespace("db")
        catalog.create_table("db.out", pa.schema([("id", pa.int64())]))
    return Iceberg(catalog, "db.out")


@pytest.mark.parametrize("make", [parquet, delta, iceberg])
def test_a_second_job_is_refused_until_it_is_allowed_and_then_neither_is_asked_again(
    tmp_path: Path, make: Callable[[Path], TwoPhaseSink]
) -> None:
    def start(owner: str, **arguments: Any) -> None:
        sink = make(tmp_path)
        sink.open(owner, "out")
        sink.claim(claim(owner, **arguments))

    start("bids-1111", now_ms=1)
    start("bids-1111", now_ms=2)
    for _ in range(2):
        with pytest.raises(SinkError) as error:
            start("bids-2222", now_ms=3)
        assert error.value.code == "TARGET_TAKEN"
        assert error.value.permanent
        assert "bids-1111" in error.value.message
        assert "/storage/of/bids-1111" in error.value.message
        assert "1970-01-01" in error.value.message
    start("bids-1111", now_ms=4)
    start("bids-2222", now_ms=5, shared=True)
    start("bids-2222", now_ms=6)
    start("bids-1111", now_ms=7)
    with pytest.raises(SinkError):
        start("bids-3333", now_ms=8)


@pytest.mark.parametrize("first", ["bids-1111", "bids-2222"])
def test_of_two_that_come_at_once_at_most_one_gets_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    store, create = LocalStore(str(tmp_path)), LocalStore.create
    second = {"bids-1111": "bids-2222", "bids-2222": "bids-1111"}[first]
    others: list[bool] = []

    def meanwhile(self: LocalStore, path: str, data: bytes) -> bool:
        monkeypatch.setattr(LocalStore, "create", create)
        claim(second).make(store, ".rekindle", "out")
        others.append(True)
        return create(self, path, data)

    monkeypatch.setattr(LocalStore, "create", meanwhile)
    with pytest.raises(SinkError):
        claim(first).make(store, ".rekindle", "out")
    assert others
    claim(second, now_ms=2).make(store, ".rekindle", "out")


def test_a_disk_without_room_for_the_note_stops_no_start_and_the_next_one_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: LocalStore, path: str, data: bytes) -> bool:
        raise StorageError("STORAGE_FULL", uri=self.location, reason="no room")

    store = LocalStore(str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", full)
        claim("bids-1111").make(store, ".rekindle", "out")
    assert not store.names(".rekindle/owners")
    claim("bids-1111").make(store, ".rekindle", "out")
    assert store.names(".rekindle/owners") == ["bids-1111.json"]


def test_a_note_that_cannot_be_read_still_counts(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.replace(".rekindle/owners/bids-1111.json", b"{")
    with pytest.raises(SinkError, match=r"bids-1111 in another storage, since some time"):
        claim("bids-2222").make(store, ".rekindle", "out")


def test_the_note_says_who_it_is_and_since_when(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    claim("bids-1111", now_ms=5).make(store, ".rekindle", "out")
    note = json.loads(store.read(".rekindle/owners/bids-1111.json"))
    assert note == {"owner": "bids-1111", "sink": "out", "storage": "/storage/of/bids-1111", "since_ms": 5}


@pytest.mark.spark
def test_a_table_that_a_batch_makes_is_taken_with_it(spark: Any, tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    sinks = {owner: Iceberg("local", "db.new", properties=properties) for owner in ("bids-1111", "bids-2222")}
    for owner, sink in sinks.items():
        sink.open(owner, "out")
        sink.claim(claim(owner))
    assert sinks["bids-1111"].prepare(spark.range(1), batch_of(1, job="bids-1111"))
    with pytest.raises(SinkError) as error:
        sinks["bids-2222"].prepare(spark.range(1), batch_of(1, job="bids-2222"))
    assert error.value.code == "TARGET_TAKEN"
