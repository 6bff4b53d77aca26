"""Servers that tests write to; a test that needs one is skipped, with the reason, where it cannot be had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest

from tests.servers import azurite as azure_server
from tests.servers import gcs as google_server
from tests.servers import hdfs as hdfs_server
from tests.servers import iceberg_rest as iceberg_server
from tests.servers import kafka as kafka_server
from tests.servers import kerberos as kerberos_server
from tests.servers import mariadb as mariadb_server
from tests.servers import postgres as postgres_server
from tests.servers import s3 as s3_server
from tests.servers import versity as versity_server
from tests.servers.azurite import AzureServer
from tests.servers.gcs import GoogleServer
from tests.servers.hdfs import HdfsServer
from tests.servers.iceberg_rest import RestCatalogServer
from tests.servers.kafka import KafkaServer
from tests.servers.kerberos import SecureHdfs
from tests.servers.mariadb import MariaDbServer
from tests.servers.name_nodes import NameNodes
from tests.servers.ports import free_ports
from tests.servers.postgres import PostgresServer
from tests.servers.relay import Relay, relay_to
from tests.servers.s3 import S3Server
from tests.servers.versity import VersityServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Server(Protocol):
    """A server that tests start and end."""

    def start(self) -> None:
        """Return once it answers."""

    def remove(self) -> None:
        """End it, and delete what it has written."""


class Cloud(Protocol):
    """A server to which an environment leads."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which clients find it."""
        ...


Started = TypeVar("Started", bound=Server)
Found = TypeVar("Found", bound=Cloud)
Secure = TypeVar("Secure", bound=SecureHdfs)


def _running(make: Callable[[], Started], missing: str | None) -> Iterator[Started]:
    """Start a server and end it at last; skip where something is missing for it."""
    if missing:
        pytest.skip(missing)
    server = make()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _led_to(server: Found, monkeypatch: pytest.MonkeyPatch) -> Found:
    """Lead every client to a server; return it."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL cluster of the tests' own. A test that stops it starts it again."""
    yield from _running(PostgresServer, postgres_server.why_not())


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDbServer]:
    """A MariaDB server of the tests' own."""
    yield from _running(MariaDbServer, mariadb_server.why_not())


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A Kafka broker of the tests' own. A test that stops it starts it again."""
    yield from _running(KafkaServer, kafka_server.why_not())


@pytest.fixture(scope="session")
def s3_server_of_tests() -> Iterator[S3Server]:
    """A server of the tests' own that speaks the language of S3."""
    yield from _running(S3Server, s3_server.why_not())


@pytest.fixture
def s3(s3_server_of_tests: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, and an environment that leads every client to it."""
    return _led_to(s3_server_of_tests, monkeypatch)


@pytest.fixture(scope="session")
def versity_of_tests() -> Iterator[VersityServer]:
    """A second server of the tests' own that speaks the language of S3."""
    yield from _running(VersityServer, versity_server.why_not())


@pytest.fixture
def versity(versity_of_tests: VersityServer, monkeypatch: pytest.MonkeyPatch) -> VersityServer:
    """The server, and an environment that leads every client to it."""
    return _led_to(versity_of_tests, monkeypatch)


@pytest.fixture(scope="session")
def azure_server_of_tests() -> Iterator[AzureServer]:
    """A server of the tests' own that speaks the language of Azure's blobs."""
    yield from _running(AzureServer, azure_server.why_not())


@pytest.fixture
def azure(azure_server_of_tests: AzureServer, monkeypatch: pytest.MonkeyPatch) -> AzureServer:
    """The server, and an environment that leads every client to it."""
    return _led_to(azure_server_of_tests, monkeypatch)


@pytest.fixture(scope="session")
def google_server_of_tests() -> Iterator[GoogleServer]:
    """A server of the tests' own that speaks the languages of Google's buckets."""
    yield from _running(GoogleServer, google_server.why_not())


@pytest.fixture
def google(google_server_of_tests: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> GoogleServer:
    """The server, and an environment that leads every client to it."""
    return _led_to(google_server_of_tests, monkeypatch)


@pytest.fixture(scope="session")
def hdfs_of_tests() -> Iterator[HdfsServer]:
    """A cluster of HDFS of the tests' own."""
    yield from _running(HdfsServer, hdfs_server.why_not())


@pytest.fixture
def hdfs(hdfs_of_tests: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> HdfsServer:
    """The cluster, and an environment that leads every client to it."""
    return _led_to(hdfs_of_tests, monkeypatch)


def _let_in(cluster: Secure, monkeypatch: pytest.MonkeyPatch) -> Secure:
    """Lead every client to a cluster, with a ticket."""
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    cluster.kdc.get_ticket(cluster.cache)
    return _led_to(cluster, monkeypatch)


@pytest.fixture(scope="session")
def secure_hdfs_of_tests() -> Iterator[SecureHdfs]:
    """A cluster of HDFS of the tests' own, which asks for tickets of Kerberos."""
    yield from _running(SecureHdfs, kerberos_server.why_not())


@pytest.fixture
def secure_hdfs(secure_hdfs_of_tests: SecureHdfs, monkeypatch: pytest.MonkeyPatch) -> SecureHdfs:
    """The cluster, and an environment that leads every client to it, with a ticket."""
    return _let_in(secure_hdfs_of_tests, monkeypatch)


@pytest.fixture(scope="session")
def name_nodes_of_tests() -> Iterator[NameNodes]:
    """A cluster of HDFS with two name nodes, Kerberos and TLS."""
    yield from _running(NameNodes, kerberos_server.why_not())


@pytest.fixture
def name_nodes(name_nodes_of_tests: NameNodes, monkeypatch: pytest.MonkeyPatch) -> NameNodes:
    """The cluster, and an environment that leads every client to it, with a ticket; the first name node is active."""
    name_nodes_of_tests.make_active(0)
    return _let_in(name_nodes_of_tests, monkeypatch)


@pytest.fixture(scope="session")
def rest_catalog_of_tests() -> Iterator[RestCatalogServer]:
    """A REST catalog of Iceberg of the tests' own."""
    yield from _running(RestCatalogServer, iceberg_server.why_not())


@pytest.fixture
def spark_on_s3(spark: SparkSession, s3: S3Server) -> SparkSession:
    """The session, which reaches the server too."""
    from rekindle.session.connectors import s3a_settings

    missing = s3_server.why_no_connector()
    if missing:
        pytest.skip(missing)
    settings = {key.removeprefix("spark.hadoop."): value for key, value in s3a_settings(s3.environment).items()}
    # Its JVM runs already, in an environment without credentials.
    settings |= {"fs.s3a.access.key": s3_server.KEY, "fs.s3a.secret.key": s3_server.SECRET}
    for key, value in settings.items():
        spark.sparkContext._jsc.hadoopConfiguration().set(key, value)
    return spark


@pytest.fixture
def spark_s_way_to_azure(azure: AzureServer) -> Iterator[Relay]:
    """What lies between Spark and the server."""
    with relay_to(azure.port) as relay:
        yield relay


@pytest.fixture
def spark_on_azure(spark: SparkSession, azure: AzureServer, spark_s_way_to_azure: Relay) -> Iterator[SparkSession]:
    """The session, which reaches the server too: by the names of Azure's own hosts, through a proxy."""
    missing = azure_server.why_no_connector()
    if missing:
        pytest.skip(missing)
    for key, value in azure.hadoop_settings.items():
        spark.sparkContext._jsc.hadoopConfiguration().set(key, value)
    with _proxied(spark, spark_s_way_to_azure.port):
        yield spark


@pytest.fixture
def spark_on_google(spark: SparkSession, google: GoogleServer) -> Iterator[SparkSession]:
    """The session, which reaches the server too, and by plain HTTP nothing else: no machine is asked for a token."""
    missing = google_server.why_no_connector()
    if missing:
        pytest.skip(missing)
    for key, value in google.hadoop_settings.items():
        spark.sparkContext._jsc.hadoopConfiguration().set(key, value)
    with _proxied(spark, free_ports(1)[0]):
        yield spark


def proxy_properties(port: int) -> dict[str, str]:
    """What leads a JVM's own plain HTTP to a port, except what goes to this machine."""
    return {"http.proxyHost": "127.0.0.1", "http.proxyPort": str(port), "http.nonProxyHosts": "localhost|127.*"}


@contextmanager
def _proxied(spark: SparkSession, port: int) -> Iterator[None]:
    """Lead the JVM's own plain HTTP to a port, except what goes to this machine."""
    system = spark._jvm.java.lang.System
    proxy = proxy_properties(port)
    for key, value in proxy.items():
        system.setProperty(key, value)
    try:
        yield
    finally:
        for key in proxy:
            system.clearProperty(key)
