"""Delta and Iceberg tables in a bucket hold the contract too; readers find them there by their own means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql import SparkSession

from rekindle.sinks import Delta, Iceberg, TwoPhaseSink
from rekindle.sinks.staging import NOTES
from rekindle.testing.sink_contract import Row, SinkContract, batch_of, permit
from tests.servers.s3 import KEY, SECRET, S3Server

EFFECTS = (
    "rekindle.sinks.writing.run_write",
    "rekindle.storage.objects.ObjectStore.delete",
    "rekindle.storage.objects.ObjectStore.delete_tree",
    "rekindle.storage.objects.ObjectStore.replace",
)


class Place:
    """A table's place in a bucket, and how others reach it."""

    def __init__(self, s3: S3Server, root: Path) -> None:
        self.bucket, self.files, self._options = s3.make_bucket(), s3.client, s3.delta_options
        self.path = f"s3://{self.bucket}/a table"
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"s3://{self.bucket}/a warehouse",
            "s3.endpoint": s3.endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
        }

    def delta(self) -> DeltaTable | None:
        found = DeltaTable.is_deltatable(self.path, self._options)
        return DeltaTable(self.path, storage_options=self._options) if found else None

    def catalog(self) -> Catalog:
        return load_catalog("local", **self.properties)

    def notes(self) -> int:
        return sum(f"/{NOTES}/" in path for path in self.files.find(self.bucket))


def put(sink: TwoPhaseSink, frame: Any, number: int, attempt: str) -> None:
    sink.open("job-1234", "out")
    sink.commit(sink.prepare(frame, batch_of(number, attempt=attempt)), permit(number))


def of_delta(place: Place) -> list[dict[str, Any]]:
    table = place.delta()
    return table.to_pyarrow_table().to_pylist() if table else []


def of_iceberg(place: Place) -> list[dict[str, Any]]:
    try:
        return place.catalog().load_table("db.bids").scan().to_arrow().to_pylist()
    except NoSuchTableError:
        return []


class InABucket(SinkContract):
    secrets = (SECRET,)

    @pytest.fixture
    def target(self, s3: S3Server, spark_on_s3: SparkSession, tmp_path: Path) -> Place:
        return Place(s3, tmp_path)

    def staged(self, target: Place) -> int:
        return target.notes()


@pytest.mark.slow
class TestDeltaInABucket(InABucket):
    effects = (*EFFECTS, "deltalake.DeltaTable.create", "deltalake.DeltaTable.create_write_transaction")

    def make(self, target: Place) -> Delta:
        return Delta(target.path)

    def visible(self, spark: SparkSession, target: Place) -> Iterable[Row]:
        return [(row["n"], row["text"]) for row in of_delta(target)]


@pytest.mark.slow
class TestIcebergInABucket(InABucket):
    effects = (
        *EFFECTS,
        "pyiceberg.catalog.sql.SqlCatalog.commit_table",
        "pyiceberg.catalog.sql.SqlCatalog.create_namespace_if_not_exists",
    )

    def make(self, target: Place) -> Iceberg:
        return Iceberg("local", "db.bids", properties=target.properties)

    def visible(self, spark: SparkSession, target: Place) -> Iterable[Row]:
        return [(row["n"], row["text"]) for row in of_iceberg(target)]


def delta_sink(place: Place, partition_by: list[str]) -> Delta:
    return Delta(place.path, partition_by=partition_by)


def iceberg_sink(place: Place, partition_by: list[str]) -> Iceberg:
    return Iceberg("local", "db.bids", properties=place.properties, partition_by=partition_by)


@pytest.mark.parametrize(("make", "read"), [(delta_sink, of_delta), (iceberg_sink, of_iceberg)])
@pytest.mark.parametrize("partition_by", [[], ["day"]])
def test_a_table_is_read_by_others_where_it_lies(
    spark_on_s3: SparkSession, s3: S3Server, tmp_path: Path, make: Any, read: Any, partition_by: list[str]
) -> None:
    place = Place(s3, tmp_path)
    frame = spark_on_s3.range(10).selectExpr("id", "date_from_unix_date(int(id % 2)) AS day", "concat(id, ' é') AS t")
    for number, attempt in ((1, "aa"), (2, "aa"), (2, "bb")):  # the last is a repetition
        put(make(place, partition_by), frame, number, attempt)
    assert sorted(map(str, read(place))) == sorted(str(row.asDict()) for row in frame.collect() * 2)
    assert place.notes() == 0
    folders = [f"day=1970-01-0{day}" for day in (1, 2)] if partition_by and make is delta_sink else []
    assert all(any(f"/{folder}/" in path for path in place.files.find(place.bucket)) for folder in folders)
