"""Jobs into the systems of others live through faults and kills at every step of their sinks, on real servers."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from rekindle.runtime.steps import heard_by
from rekindle.sinks.kafka.commits import topic_of
from rekindle.testing.crash import Moment, Moments
from tests.crash.connectors import MOMENTS, SINK, SINKS, TARGET, ConnectorWorld, catalog
from tests.crash.kit import CONFIG, Rows, persist
from tests.crash.lives import kill_at, overtake, read_and_drain
from tests.crash.report import Report
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer

Target = tuple[str, Callable[[], Rows]]
"""Where a sink writes, and what is there."""


def in_postgres(server: PostgresServer) -> Target:
    def read() -> Rows:
        found = server.psql("SELECT hour AT TIME ZONE 'UTC', k, v FROM crash")
        return Counter((dt.datetime.fromisoformat(hour), key, int(value)) for hour, key, value in found)

    server.query("DROP TABLE IF EXISTS crash, rekindle_commits")
    return server.dsn(), read


def in_kafka(server: KafkaServer) -> Target:
    def read() -> Rows:
        found = (json.loads(message.value()) for message in server.messages("crash"))
        return Counter((dt.datetime.fromisoformat(row["hour"][:19]), row["k"], row["v"]) for row in found)

    server.delete_topic("crash")
    server.delete_topic(topic_of("crash"))
    server.make_topic("crash")
    return server.bootstrap, read


def in_delta(folder: Path) -> Target:
    def read() -> Rows:
        found = DeltaTable(folder / "delta").to_pyarrow_table().to_pylist()
        return Counter((row["hour"].replace(tzinfo=None), row["k"], row["v"]) for row in found)

    return str(folder), read


def in_iceberg(folder: Path) -> Target:
    def read() -> Rows:
        found = load_catalog("local", **catalog(str(folder))).load_table("db.crash").scan().to_arrow().to_pylist()
        return Counter((row["hour"].replace(tzinfo=None), row["k"], row["v"]) for row in found)

    return str(folder), read


TARGETS: dict[str, tuple[str, Callable[..., Target]]] = {
    "postgres": ("postgres", in_postgres),
    "kafka": ("kafka", in_kafka),
    "delta": ("tmp_path", in_delta),
    "iceberg": ("tmp_path", in_iceberg),
}
"""System → the fixture that it is in, and what makes room there."""

IN_EVERY_RUN = ("postgres", "kafka")
"""The tables go through their faults in `tests/jobs/test_table_sinks.py`, in one job."""


@pytest.fixture(params=[pytest.param(name, marks=() if name in IN_EVERY_RUN else pytest.mark.slow) for name in SINKS])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConnectorWorld:
    fixture, make_room = TARGETS[request.param.partition("-")[0]]
    target, read = make_room(request.getfixturevalue(fixture))
    monkeypatch.setenv(SINK, request.param)
    monkeypatch.setenv(TARGET, target)
    made = ConnectorWorld(tmp_path, read)
    made.fill()
    return made


@pytest.fixture(scope="module")
def reports() -> Iterator[dict[str, Report]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(Report(name, MOMENTS).written()) for name in SINKS}


@pytest.fixture
def report(world: ConnectorWorld, reports: dict[str, Report]) -> Report:
    return reports[os.environ[SINK]]


@pytest.fixture(autouse=True)
def _nothing_prepared_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "postgres" in request.fixturenames:
        server: PostgresServer = request.getfixturevalue("postgres")
        assert server.query("SELECT gid FROM pg_prepared_xacts") == []


def live_through(spark: SparkSession, world: ConnectorWorld, faults: Moments) -> None:
    persist(
        lambda: heard_by(faults, world.job().start)(spark, storage=world.storage, config=CONFIG),
        "DRAINED",
        lambda handle: read_and_drain(world, handle),
    )
    world.check()
    assert not faults.waiting


def test_a_history_and_a_live_stream_arrive_exactly_through_a_fault_at_every_step_of_the_sink(
    spark: SparkSession, world: ConnectorWorld
) -> None:
    live_through(spark, world, Moments(MOMENTS))


@pytest.mark.slow
def test_a_job_goes_on_when_its_server_was_away_for_a_while(
    spark: SparkSession, world: ConnectorWorld, request: pytest.FixtureRequest
) -> None:
    fixture, _ = TARGETS[os.environ[SINK].partition("-")[0]]
    if fixture == "tmp_path":
        pytest.skip("a table needs no server")
    server = request.getfixturevalue(fixture)
    back: list[Timer] = []

    def go_away(_: str) -> None:
        if not back or not back[-1].is_alive():
            server.stop()
            back.append(Timer(10, server.start))
            back[-1].start()

    away = Moments([Moment("sink.prepare", "before", 2), Moment("sink.commit", "before")], go_away)
    live_through(spark, world, away)
    for timer in back:
        timer.join()


@pytest.mark.crash
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_driver_killed_at_any_step_of_its_sink_is_resumed_without_loss(
    spark: SparkSession, world: ConnectorWorld, moment: Moment, report: Report
) -> None:
    report.at(moment, lambda: kill_at(spark, world, moment, live=False))


@pytest.mark.crash
@pytest.mark.parametrize(
    "step", ["sink.prepare", "record.create", "manifest.create", "sink.commit", "committed.create"]
)
@pytest.mark.usefixtures("thought_dead")
def test_a_driver_that_was_overtaken_in_any_step_of_its_sink_wakes_up_and_changes_nothing(
    spark: SparkSession, world: ConnectorWorld, step: str
) -> None:
    overtake(spark, world, f"{step}/before")
