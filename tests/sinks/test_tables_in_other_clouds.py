"""Tables on Azure and Google hold the contract too; readers find them there by their own means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql import SparkSession

from rekindle.errors import SinkError
from rekindle.sinks import Delta, Iceberg
from rekindle.sinks.delta_places import reached
from rekindle.sinks.staging import NOTES
from rekindle.storage.open import open_store
from rekindle.testing.sink_contract import Row, SinkContract, batch_of, permit
from tests.servers.azurite import ACCOUNT, KEY, AzureServer
from tests.servers.gcs import TOKEN, GoogleServer

pytestmark = pytest.mark.slow

EFFECTS = (
    "rekindle.sinks.writing.run_write",
    "rekindle.storage.objects.ObjectStore.delete",
    "rekindle.storage.objects.ObjectStore.delete_tree",
    "rekindle.storage.objects.ObjectStore.replace",
)


class Cloud:
    """A table's place in a container or bucket, and how others reach it."""

    def __init__(self, root: Path, place: str, properties: dict[str, str]) -> None:
        self.place, self.table = place, f"{place}/a table"
        catalog = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"{place}/a warehouse"}
        self.properties = {**catalog, **properties}

    def delta(self) -> list[dict[str, Any]]:
        try:
            # Not by `is_deltatable`, during which the translator before Google's server could not run.
            return DeltaTable(**reached(self.table)).to_pyarrow_table().to_pylist()
        except TableNotFoundError:
            return []

    def iceberg(self) -> list[dict[str, Any]]:
        try:
            return load_catalog("local", **self.properties).load_table("db.bids").scan().to_arrow().to_pylist()
        except NoSuchTableError:
            return []

    def notes(self) -> int:
        return sum(f"/{NOTES}/" in f"/{entry.path}" for entry in open_store(self.place).walk(""))


@pytest.fixture
def on_azure(
    azure: AzureServer, spark_on_azure: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cloud:
    # Azurite 3.35 ignores `startFrom` of a list; then delta-rs leaves out itself what comes before.
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{azure.port}")
    blobs = f"BlobEndpoint=http://127.0.0.1:{azure.port}/{ACCOUNT};"
    connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};{blobs}"
    place = f"abfs://{azure.make_container()}@{ACCOUNT}.dfs.core.windows.net"
    return Cloud(tmp_path, place, {"adls.connection-string": connection})


@pytest.fixture
def on_google(google: GoogleServer, spark_on_google: SparkSession, tmp_path: Path) -> Cloud:
    token = {"gcs.oauth2.token": TOKEN, "gcs.oauth2.token-expires-at": "4102444800000"}
    properties = {"gcs.service.host": google.json_api, **token}
    return Cloud(tmp_path, f"gs://{google.make_bucket()}", properties)


class InACloud(SinkContract):
    secrets = (KEY, TOKEN)

    @pytest.fixture(params=["on_azure", "on_google"])
    def target(self, request: pytest.FixtureRequest) -> Cloud:
        found: Cloud = request.getfixturevalue(request.param)
        return found

    def staged(self, target: Cloud) -> int:
        return target.notes()


class TestDelta(InACloud):
    effects = (*EFFECTS, "deltalake.DeltaTable.create", "deltalake.DeltaTable.create_write_transaction")

    def make(self, target: Cloud) -> Delta:
        return Delta(target.table)

    def visible(self, spark: SparkSession, target: Cloud) -> Iterable[Row]:
        return [(row["n"], row["text"]) for row in target.delta()]


class TestIceberg(InACloud):
    effects = (
        *EFFECTS,
        "pyiceberg.catalog.sql.SqlCatalog.commit_table",
        "pyiceberg.catalog.sql.SqlCatalog.create_namespace_if_not_exists",
    )

    def make(self, target: Cloud) -> Iceberg:
        return Iceberg("local", "db.bids", properties=target.properties)

    def visible(self, spark: SparkSession, target: Cloud) -> Iterable[Row]:
        return [(row["n"], row["text"]) for row in target.iceberg()]


@pytest.mark.parametrize("partition_by", [[], ["day"]])
@pytest.mark.parametrize("cloud", ["on_azure", "on_google"])
def test_a_table_is_read_by_others_where_it_lies(
    cloud: str, partition_by: list[str], request: pytest.FixtureRequest, spark: SparkSession
) -> None:
    place: Cloud = request.getfixturevalue(cloud)
    frame = spark.range(10).selectExpr("id", "date_from_unix_date(int(id % 2)) AS day", "concat(id, ' é') AS t")
    for number, attempt in ((1, "aa"), (2, "aa"), (2, "bb")):  # the last is a repetition
        sink = Iceberg("local", "db.bids", properties=place.properties, partition_by=partition_by)
        sink.open("job-1234", "out")
        sink.commit(sink.prepare(frame, batch_of(number, attempt=attempt)), permit(number))
    found = place.iceberg()
    assert sorted(map(str, found)) == sorted(str(row.asDict()) for row in frame.collect() * 2)
    assert place.notes() == 0


def test_a_table_of_delta_is_refused_in_hdfs() -> None:
    with pytest.raises(SinkError, match="not supported"):
        Delta("hdfs://one:8020/a table").open("job-1234", "out")
