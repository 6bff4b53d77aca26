"""A target belongs to the first job that writes there, until its user lets another one in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from rekindle.errors import SinkError, StorageError
from rekindle.sinks import Delta, Iceberg, Kafka, Parquet, Postgres, TwoPhaseSink
from rekindle.sinks.kafka.commits import read, topic_of
from rekindle.sinks.kafka.lanes import Lane
from rekindle.sinks.kafka.owners import Records
from rekindle.sinks.owners import Claim, Note, OwnerFiles
from rekindle.sinks.postgres.database import TableName
from rekindle.sinks.postgres.owners import OwnerRows
from rekindle.storage.local import LocalStore
from rekindle.testing.sink_contract import batch_of
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer


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


@pytest.fixture
def postgres_table(postgres: PostgresServer) -> Iterator[Callable[[Path], TwoPhaseSink]]:
    """A table that is not there yet, with a name that has to be quoted."""
    postgres.query("CREATE SCHEMA owned")
    yield lambda _: Postgres(postgres.dsn(), ("owned", 'odd "name.%'), mode="upsert", key="n")
    postgres.query("DROP SCHEMA owned CASCADE")


@pytest.fixture
def kafka_topic(kafka: KafkaServer) -> Callable[[Path], TwoPhaseSink]:
    """A topic of the broker."""
    kafka.make_topic("owned")
    return lambda _: Kafka(kafka.bootstrap, "owned")


@pytest.mark.parametrize("kind", [parquet, delta, iceberg, "postgres_table", "kafka_topic"])
def test_a_second_job_is_refused_until_it_is_allowed_and_then_neither_is_asked_again(
    tmp_path: Path, kind: Callable[[Path], TwoPhaseSink] | str, request: pytest.FixtureRequest
) -> None:
    make = request.getfixturevalue(kind) if isinstance(kind, str) else kind

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
def test_of_two_that_come_at_once_at_most_one_gets_the_target(tmp_path: Path, first: str) -> None:
    store = LocalStore(str(tmp_path))
    second = {"bids-1111": "bids-2222", "bids-2222": "bids-1111"}[first]
    others: list[bool] = []

    class Meanwhile(LocalStore):
        def create(self, path: str, data: bytes) -> bool:
            if not others:
                others.append(True)
                claim(second).make(OwnerFiles(store, ".rekindle"), "out")
            return super().create(path, data)

    with pytest.raises(SinkError):
        claim(first).make(OwnerFiles(Meanwhile(str(tmp_path)), ".rekindle"), "out")
    assert others
    claim(second, now_ms=2).make(OwnerFiles(store, ".rekindle"), "out")


def test_of_jobs_that_take_a_table_of_postgres_at_once_one_gets_it_and_other_tables_are_free(
    postgres: PostgresServer, postgres_table: Callable[[Path], TwoPhaseSink]
) -> None:
    def take(owner: str) -> str:
        sink = postgres_table(Path())
        sink.open(owner, "out")
        try:
            sink.claim(claim(owner))
        except SinkError as error:
            return error.code
        return "taken"

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(take, [f"bids-{number}" for number in range(6)]))
    assert sorted(found) == [*["TARGET_TAKEN"] * 5, "taken"]
    for name in ("odd", 'odd "name.', 'odd "name.%": bids', "odd _name.%"):
        sink = Postgres(postgres.dsn(), ("owned", name))
        sink.open("other-1", "out")
        sink.claim(claim("other-1"))
    postgres.query("DELETE FROM owned.rekindle_commits WHERE starts_with(name, 'owner of \"odd\": ')")
    with psycopg.connect(postgres.dsn()) as connection:
        assert not OwnerRows(connection, TableName("owned", "odd")).owners()
        assert OwnerRows(connection, TableName("owned", "odd _name.%")).owners() == ["other-1"]


def test_of_two_that_take_a_topic_at_once_at_most_one_gets_it_and_who_is_refused_leaves_no_note(
    kafka: KafkaServer,
) -> None:
    class Overtaken(Records):
        def write(self, owner: str, note: Note) -> bool:
            claim("bids-2222").make(notes, "topic")
            return super().write(owner, note)

    kafka.make_topic("at-once")
    client = {"bootstrap.servers": kafka.bootstrap}
    kafka.make_topic(topic_of("at-once"), 1, **{"cleanup.policy": "compact"})
    notes = Records(client, "at-once", "bids-1111/out")
    with pytest.raises(SinkError) as error:
        claim("bids-1111").make(Overtaken(client, "at-once", "bids-1111/out"), "topic")
    assert error.value.code == "TARGET_TAKEN"
    assert notes.owners() == ["bids-2222"]
    claim("bids-2222", now_ms=2).make(notes, "topic")


def test_lanes_are_read_beside_notes_and_a_note_waits_for_no_transaction_of_another_job(kafka: KafkaServer) -> None:
    from confluent_kafka import Producer

    client = {"bootstrap.servers": kafka.bootstrap}
    kafka.make_topic("beside")
    kafka.make_topic(topic_of("beside"), 1, **{"cleanup.policy": "compact"})
    lane = Lane(client, "beside", "bids-1111/out", "0")
    lane.publish(3, [])
    other = Producer({**client, "transactional.id": "other-beside"})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(topic_of("beside"), "{}", "other-1/out/0")
    other.flush()
    # The topic was written by an earlier version, which left no note: it takes the first who comes.
    claim("bids-1111").make(Records(client, "beside", "bids-1111/out"), "topic")
    with pytest.raises(SinkError):
        claim("bids-2222").make(Records(client, "beside", "bids-2222/out"), "topic")
    other.abort_transaction(30)
    assert read(client, "beside", "bids-1111/out") == {"0": 3}


def test_a_disk_without_room_for_the_note_stops_no_start_and_the_next_one_leaves_it(tmp_path: Path) -> None:
    class Full(LocalStore):
        def create(self, path: str, data: bytes) -> bool:
            raise StorageError("STORAGE_FULL", uri=self.location, reason="no room")

    store = LocalStore(str(tmp_path))
    claim("bids-1111").make(OwnerFiles(Full(str(tmp_path)), ".rekindle"), "out")
    assert not store.names(".rekindle/owners")
    claim("bids-1111").make(OwnerFiles(store, ".rekindle"), "out")
    assert store.names(".rekindle/owners") == ["bids-1111.json"]


def test_a_note_that_cannot_be_read_still_counts(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.replace(".rekindle/owners/bids-1111.json", b"{")
    with pytest.raises(SinkError, match=r"bids-1111 in another storage, since some time"):
        claim("bids-2222").make(OwnerFiles(store, ".rekindle"), "out")


def test_the_note_says_who_it_is_and_since_when(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    claim("bids-1111", now_ms=5).make(OwnerFiles(store, ".rekindle"), "out")
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
