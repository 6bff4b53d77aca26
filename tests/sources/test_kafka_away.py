"""Brokers that are away, and messages that are gone: what a job on a topic says, and that a stop works meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.errors import InputError
from tests.jobs.kit import QUICK, committed, until
from tests.servers.kafka import KafkaServer, why_no_connector
from tests.servers.ports import free_ports

pytestmark = pytest.mark.skipif(why_no_connector() is not None, reason=str(why_no_connector()))

IMPATIENT = {
    "kafka.default.api.timeout.ms": "500",
    "kafka.request.timeout.ms": "500",
    "kafka.reconnect.backoff.ms": "9",
}


def job_of(source: rk.Stream | rk.Batch, out: Path) -> rk.Job:
    job = rk.Job("clicks")
    clicks = job.source("clicks", source)

    @job.task(clicks)
    def read(clicks: DataFrame) -> DataFrame:
        return clicks.selectExpr("CAST(value AS string) AS v")

    job.sink("out", read, rk.sinks.Parquet(out))
    return job


def shown(out: Path) -> list[str]:
    return sorted(row["v"] for row in committed(out))


def nowhere(**more: Any) -> rk.Stream | rk.Batch:
    (port,) = free_ports(1)
    return rk.sources.Kafka(f"127.0.0.1:{port}", "clicks", options=IMPATIENT, **more)


def test_a_job_whose_brokers_are_away_says_so_goes_on_trying_and_can_be_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    handle = job_of(nowhere(), tmp_path / "out").start(spark, storage=str(tmp_path / "storage"), config=QUICK)
    until(lambda: handle.status().restarts >= 2)
    failure = handle.status().failure
    assert failure is not None
    assert failure.code == "SOURCE_SERVER_FAILED"
    assert failure.message.startswith("Source 'clicks': Kafka failed: no broker answers, TimeoutException: ")
    assert handle.stop().state == "STOPPED"


def test_a_bounded_topic_whose_brokers_are_away_is_refused_with_the_same_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(
        InputError, match=r"Source 'clicks': Kafka failed: no broker answers, TimeoutException"
    ) as error:
        job_of(nowhere(end="latest"), tmp_path / "out").start(spark, storage=str(tmp_path / "storage"))
    assert error.value.code == "SOURCE_SERVER_FAILED"


def test_messages_that_were_deleted_while_a_job_was_down_end_it_and_nothing_is_skipped(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    topic, storage, out = "deleted-while-down", str(tmp_path / "storage"), tmp_path / "out"
    kafka.make_topic(topic, partitions=1)
    kafka.send(topic, [(None, "a", 0)])

    def started() -> rk.JobHandle:
        return job_of(rk.sources.Kafka(kafka.bootstrap, topic), out).start(spark, storage=storage, config=QUICK)

    handle = started()
    until(lambda: shown(out) == ["a"])
    handle.stop()
    kafka.send(topic, [(None, "b", 0), (None, "c", 0)])
    kafka.delete_messages(topic, before=2)
    result = started().wait()
    assert result is not None
    assert result.error is not None
    assert (result.state, result.error["code"]) == ("FAILED", "KAFKA_DATA_LOST")
    assert shown(out) == ["a"]
