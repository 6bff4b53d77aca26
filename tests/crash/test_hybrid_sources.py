"""A history that a table or a topic continues, with a kill at every step between the two: each row once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.testing.crash import WHEN, Moment
from tests.crash.hybrid_kit import AFTER, HISTORY, NAME, SERVER, THEN, HybridWorld
from tests.crash.lives import resume
from tests.crash.victim import Victim
from tests.servers.kafka import KafkaServer, jars
from tests.servers.postgres import PostgresServer

STEPS = {"splits.give": 1, "segments.write": 1, "read.create": 1, "inbox.admit": 2, "record.create": 2}
"""Step → which of them is the first of the second part: the history is admitted and recorded before."""


@pytest.fixture
def world(tmp_path: Path) -> HybridWorld:
    return HybridWorld(tmp_path).fill()


@pytest.fixture
def table(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    if not jars("spark-postgres"):
        pytest.skip("no JDBC driver of PostgreSQL for Spark: `make setup` tries to fetch it")
    postgres.query(f"DROP TABLE IF EXISTS {NAME}")
    postgres.query(f"CREATE TABLE {NAME} AS SELECT generate_series(1, {HISTORY + AFTER})::bigint AS v")
    monkeypatch.setenv(THEN, "jdbc")
    monkeypatch.setenv(SERVER, str(postgres.port))


@pytest.fixture
def topic(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    if not jars("spark-kafka"):
        pytest.skip("no Kafka connector of Spark: `make setup` tries to fetch it")
    kafka.delete_topic(NAME)
    kafka.make_topic(NAME, partitions=1)
    kafka.send(NAME, [(None, str(number), -1) for number in range(1, HISTORY + AFTER + 1)])
    monkeypatch.setenv(THEN, "kafka")
    monkeypatch.setenv(SERVER, kafka.bootstrap)


def killed_and_resumed(spark: SparkSession, world: HybridWorld, moment: str) -> None:
    step, when = moment.split("/")
    victim = Victim(world, "--kill-at", str(Moment(step, when, STEPS[step])), live=False)
    code = victim.wait()
    assert code == -signal.SIGKILL, f"exit code {code}:\n{victim.log.read_text()[-3000:]}"
    resume(spark, world, live=True)


@pytest.mark.crash
@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("moment", [f"{step}/{when}" for step in STEPS for when in WHEN])
def test_a_driver_that_is_killed_between_a_history_and_a_table_is_resumed_exactly(
    spark: SparkSession, world: HybridWorld, moment: str
) -> None:
    killed_and_resumed(spark, world, moment)


@pytest.mark.crash
@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("moment", [f"{step}/{when}" for step in STEPS for when in WHEN])
def test_a_driver_that_is_killed_between_a_history_and_a_topic_is_resumed_exactly(
    spark: SparkSession, world: HybridWorld, moment: str
) -> None:
    killed_and_resumed(spark, world, moment)
