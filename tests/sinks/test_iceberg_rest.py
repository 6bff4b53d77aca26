"""The Iceberg sink holds the contract with a REST catalog too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql import SparkSession

from rekindle.sinks import Iceberg
from rekindle.sinks.staging import NOTES
from rekindle.testing.sink_contract import Row, SinkContract
from tests.servers.iceberg_rest import RestCatalogServer

pytestmark = pytest.mark.slow

TOKEN = "hunter2"


@dataclass(frozen=True)
class Target:
    """A table in a namespace that nobody else has."""

    server: RestCatalogServer
    table: str

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "rest", "uri": self.server.url, "token": TOKEN}


class TestIceberg(SinkContract):
    effects = (
        "pyiceberg.catalog.rest.RestCatalog.commit_table",
        "pyiceberg.catalog.rest.RestCatalog.create_namespace_if_not_exists",
        "rekindle.sinks.writing.run_write",
        "rekindle.storage.local.LocalStore.delete",
        "rekindle.storage.local.LocalStore.delete_tree",
        "rekindle.storage.local.LocalStore.replace",
    )
    looks = (
        "rekindle.sinks.iceberg.Iceberg._load",
        "rekindle.sinks.staging.read_footer",
    )
    secrets = (TOKEN,)

    @pytest.fixture
    def target(self, rest_catalog_of_tests: RestCatalogServer, tmp_path: Path) -> Target:
        return Target(rest_catalog_of_tests, f"{tmp_path.name}.bids")

    def make(self, target: Target) -> Iceberg:
        return Iceberg("local", target.table, properties=target.properties)

    def visible(self, spark: SparkSession, target: Target) -> Iterable[Row]:
        try:
            found = load_catalog("local", **target.properties).load_table(target.table).scan().to_arrow().to_pylist()
        except NoSuchTableError:
            return []
        return [(row["n"], row["text"]) for row in found]

    def staged(self, target: Target) -> int:
        data = Path(target.server.warehouse, *target.table.split("."), "data")
        return len([*(data / NOTES).glob("*/*/*")])
