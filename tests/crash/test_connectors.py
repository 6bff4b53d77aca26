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
from pyspark.sql import SparkSession

from rekindle.testing.crash import Moment, Moments
from tests.crash.connectors import MOMENTS, SINK, SINKS, TARGET, ConnectorWorld
from tests.crash.kit import CONFIG, Rows, persist
from tests.crash.lives import kill_at, read_and_drain
from tests.crash.report import Report
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer

Target = tuple[str, Callable[[], Rows]]
"""Where a sink writes, and what is there."""


def in_postgres(server: PostgresServer) -> Target:
    def read() -> Rows:
        found = server.psql("SELECT hour AT TIME ZONE 'UTC', k, v FROM crash")
        return Counter((dt.datetime.fromisoformat(hour), key, int(value)) for hour, key, value in found)

    server.query("DROP TABLE IF EXISTS crash")
    return server.dsn(), read


def in_kafka(server: KafkaServer) -> Target:
    def read() -> Rows:
        found = (json.loads(message.value()) for message in server.messages("crash"))
        return Counter((dt.datetime.fromisoformat(row["hour"][:19]), row["k"], row["v"]) for row in found)

    server.delete_topic("crash")
    server.make_topic("crash")
    return server.bootstrap, read


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow if "-" in name else ()) for name in SINKS])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConnectorWorld:
    system = request.param.partition("-")[0]
    target, read = {"kafka": in_kafka, "postgres": in_postgres}[system](request.getfixturevalue(system))
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
        lambda: world.job().start(spark, storage=world.storage, config=CONFIG, steps=faults),
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
    server = request.getfixturevalue(os.environ[SINK].partition("-")[0])
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
