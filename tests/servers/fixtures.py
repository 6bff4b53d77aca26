"""Servers that tests write to; a test that needs one is skipped, with the reason, where it cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.servers import kafka as kafka_server
from tests.servers import postgres as postgres_server
from tests.servers import s3 as s3_server
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL cluster of the tests' own. A test that stops it starts it again."""
    missing = postgres_server.why_not()
    if missing:
        pytest.skip(missing)
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A Kafka broker of the tests' own. A test that stops it starts it again."""
    missing = kafka_server.why_not()
    if missing:
        pytest.skip(missing)
    server = KafkaServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def s3_server_of_tests() -> Iterator[S3Server]:
    """A server of the tests' own that speaks the language of S3."""
    missing = s3_server.why_not()
    if missing:
        pytest.skip(missing)
    server = S3Server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def s3(s3_server_of_tests: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, and an environment that leads every client to it."""
    for name, value in s3_server_of_tests.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server_of_tests


@pytest.fixture
def spark_on_s3(spark: SparkSession, s3: S3Server) -> SparkSession:
    """The session, which reaches the server too."""
    from rekindle.spark.session.s3a import s3a_settings

    missing = s3_server.why_no_connector()
    if missing:
        pytest.skip(missing)
    settings = {key.removeprefix("spark.hadoop."): value for key, value in s3a_settings(s3.environment).items()}
    # Its JVM runs already, in an environment without credentials.
    settings |= {"fs.s3a.access.key": s3_server.KEY, "fs.s3a.secret.key": s3_server.SECRET}
    for key, value in settings.items():
        spark.sparkContext._jsc.hadoopConfiguration().set(key, value)
    return spark
