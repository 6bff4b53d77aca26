"""The Iceberg sink holds the contract, plain and partitioned; and what is its own."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, SinkError
from rekindle.sinks import Iceberg
from rekindle.sinks.staging import NOTES
from rekindle.testing.sink_contract import Row, SinkContract, batch_of, permit
from tests.sinks.test_delta import ODD

PASSWORD = "hunter2"


class TestIceberg(SinkContract):
    effects = (
        "pyiceberg.catalog.sql.SqlCatalog.commit_table",
        "pyiceberg.catalog.sql.SqlCatalog.create_namespace_if_not_exists",
        "rekindle.sinks.writing.run_write",
        "rekindle.storage.local.LocalStore.delete",
        "rekindle.storage.local.LocalStore.delete_tree",
        "rekindle.storage.local.LocalStore.replace",
    )
    looks = (
        "rekindle.sinks.iceberg.Iceberg._load",
        "rekindle.sinks.staging.read_footer",
    )
    secrets = (PASSWORD,)

    def make(self, target: Path) -> Iceberg:
        return Iceberg("local", "db.bids", properties=properties(target))

    def visible(self, spark: SparkSession, target: Path) -> Iterable[Row]:
        return [(row["n"], row["text"]) for row in rows_of(target)]

    def staged(self, target: Path) -> int:
        data = target / "db" / "bids" / "data"
        notes = [note.name for note in (data / NOTES).glob("*/*/*")]
        folders = {folder.name for folder in (data / "rekindle").glob("*/*/*")}
        assert not {name for name in folders - set(notes) if name not in files_of(target)}, "nobody would clean these"
        return len(notes)


@pytest.mark.slow
class TestPartitionedIceberg(TestIceberg):
    def make(self, target: Path) -> Iceberg:
        return Iceberg(
            "local", "db.bids", properties=properties(target), partition_by=["text"], options={"compression": "zstd"}
        )


def properties(target: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{target.parent}/catalog.db",
        "warehouse": f"file://{target}",
        "s3.secret-access-key": PASSWORD,
    }


def catalog_of(target: Path) -> Catalog:
    return load_catalog("local", **properties(target))


def table_of(target: Path) -> Table:
    return catalog_of(target).load_table("db.bids")


def files_of(target: Path) -> str:
    try:
        return " ".join(task.file.file_path for task in table_of(target).scan().plan_files())
    except NoSuchTableError:
        return ""


def rows_of(target: Path) -> list[dict[str, Any]]:
    try:
        return table_of(target).scan().to_arrow().to_pylist()
    except NoSuchTableError:
        return []


def opened(target: Path, **arguments: Any) -> Iceberg:
    sink = Iceberg("local", "db.bids", properties=properties(target), **arguments)
    sink.open("job-1234", "out")
    return sink


def put(sink: Iceberg, frame: Any, number: int = 1) -> None:
    sink.commit(sink.prepare(frame, batch_of(number)), permit(number))


def made(target: Path, schema: pa.Schema, **transforms: Any) -> None:
    """A table that somebody else has made."""
    catalog = catalog_of(target)
    catalog.create_namespace("db")
    table = catalog.create_table("db.bids", schema)
    with table.update_spec() as update:
        for name, transform in transforms.items():
            update.add_field(name, transform)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def test_one_snapshot_names_the_checkpoint_and_the_table_remembers_it_when_snapshots_expire(
    spark: SparkSession, target: Path
) -> None:
    sink = opened(target)
    first = sink.prepare(spark.sql("SELECT 0L AS id"), batch_of(1))
    sink.commit(first, permit(7))
    table = table_of(target)
    [snapshot] = table.snapshots()
    told = snapshot.summary.additional_properties
    assert (told["rekindle.job"], told["rekindle.sink"], told["rekindle.checkpoint"]) == ("job-1234", "out", "7")
    table.append(pa.table({"id": [1]}))
    table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    opened(target).commit(first, permit(7))
    assert sorted(row["id"] for row in rows_of(target)) == [0, 1]


def test_every_type_that_iceberg_has_is_written(spark: SparkSession, target: Path) -> None:
    frame = spark.sql(
        "SELECT true AS flag, 1Y AS tiny, 2S AS small, 3 AS n, 4L AS big, 0.5F AS single, 0.25D AS double, 'ü' AS text,"
        " X'00ff' AS bytes, 1.50BD AS dec, date '2025-01-01' AS day, timestamp '2025-01-01 12:00:00.000001' AS ts,"
        " timestamp_ntz '2025-01-01' AS ntz, named_struct('a', 1) AS inner, array(1, null) AS many,"
        " map('k', 1) AS pairs"
    )
    put(opened(target), frame)
    [row] = rows_of(target)
    assert row == {**frame.first().asDict(recursive=True), "bytes": b"\x00\xff", "ts": row["ts"], "pairs": [("k", 1)]}
    assert row["ts"] == dt.datetime(2025, 1, 1, 12, 0, 0, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_a_table_by_years_months_days_or_hours_is_written_partition_by_partition(
    spark: SparkSession, target: Path, kind: str, zone: str
) -> None:
    arrow = {"timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "date": pa.date32()}[kind]
    hours = {} if kind == "date" else {"hour_": HourTransform()}
    transforms = {"year_": YearTransform(), "month_": MonthTransform(), "day_": DayTransform(), **hours}
    made(target, pa.schema([(name, arrow) for name in transforms]), **transforms)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        times = "timestamp_micros(1735689599000000 + id * 86400000000 - 40 * 31536000000000 * (id % 3))"
        frame = spark.range(6).selectExpr(
            *(f"cast(IF(id = 5, NULL, {times}) AS {kind}) AS {name}" for name in transforms)
        )
        put(opened(target), frame.coalesce(1))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = table_of(target)
    assert len(rows_of(target)) == 6
    assert len({str(task.file.partition) for task in table.scan().plan_files()}) == 6
    day = table.scan().to_arrow()["day_"][0].as_py()
    assert table.scan(f"day_ = '{day.isoformat()}'").to_arrow().num_rows == 1


def test_files_are_skipped_by_their_bounds_and_other_programs_read_the_table(spark: SparkSession, target: Path) -> None:
    put(opened(target), spark.range(100).repartitionByRange(2, "id"))
    table = table_of(target)
    assert len(list(table.scan("id > 90").plan_files())) == 1
    table.scan().to_duckdb("bids", connection := duckdb.connect())
    assert connection.execute("SELECT count(*), sum(id) FROM bids").fetchall() == [(100, 4950)]


def test_an_odd_value_stops_no_commit_and_readers_skip_no_row_for_its_sake(spark: SparkSession, target: Path) -> None:
    put(opened(target), spark.sql(ODD).coalesce(1))
    table = table_of(target)
    ids = [
        table.scan(f"{name} > '{value}'", selected_fields=("id",)).to_arrow().num_rows
        for name, value in (("id", 2), ("number", 2.0), ("day", "9999-12-31"), ("ts", "9999-12-31T00:00:00+00:00"))
    ]
    assert ids == [1, 1, 1, 1]
    assert not list(table.scan("id > 3").plan_files())


@pytest.mark.parametrize(
    ("arrow", "transform", "value"),
    [
        (pa.string(), IdentityTransform(), "cast(X'ff' AS string)"),
        (pa.date32(), DayTransform(), "date_from_unix_date(3000000)"),
        (pa.timestamp("us", "UTC"), MonthTransform(), "timestamp_micros(-70000000000000000)"),
    ],
)
def test_rows_whose_partition_cannot_be_said_are_refused_before_their_checkpoint(
    spark: SparkSession, target: Path, arrow: pa.DataType, transform: Transform[Any, Any], value: str
) -> None:
    made(target, pa.schema([("odd", arrow)]), odd=transform)
    with pytest.raises(SinkError) as error:
        opened(target).prepare(spark.sql(f"SELECT {value} AS odd"), batch_of(1))
    assert error.value.code == "SINK_PARTITION_UNKNOWN"
    assert error.value.permanent


def test_a_table_may_be_partitioned_by_a_column_of_a_struct_or_with_an_odd_name(
    spark: SparkSession, target: Path
) -> None:
    inner = pa.struct([("b", pa.string())])
    schema = pa.schema([("s", inner), ("b", pa.string()), ("o`dd.x", pa.string())])
    made(target, schema, **{"s.b": IdentityTransform(), "o`dd.x": IdentityTransform()})
    rows = "named_struct('b', if(id < 2, 'x', 'y')) AS s, 'same' AS b, if(id = 0, 'p', 'q') AS `o``dd.x`"
    put(opened(target), spark.sql(f"SELECT {rows} FROM range(3)").coalesce(1))
    partitions = {tuple(task.file.partition) for task in table_of(target).scan().plan_files()}
    assert partitions == {("x", "p"), ("x", "q"), ("y", "q")}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT 'x' AS id", "Cannot change column type"),
        ("SELECT 1L AS id, 2 AS more", "the table has no columns ['more']"),
        ("SELECT INTERVAL 1 DAY AS id", "Iceberg has no type for"),
    ],
)
def test_rows_that_do_not_fit_the_table_are_refused_before_any_is_written(
    spark: SparkSession, target: Path, query: str, reason: str
) -> None:
    put(opened(target), spark.sql("SELECT 0L AS id"))
    with pytest.raises(SinkError) as error:
        opened(target).prepare(spark.sql(query), batch_of(2))
    assert error.value.code == "SINK_SCHEMA_MISMATCH"
    assert reason in error.value.message
    assert not list(target.rglob(f"{NOTES}/*/*/*"))


def test_what_a_table_requires_must_not_be_null(spark: SparkSession, target: Path) -> None:
    made(target, pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    put(opened(target), spark.range(1))
    with pytest.raises(SinkError, match="requires"):
        opened(target).prepare(spark.sql("SELECT CAST(NULL AS long) AS id"), batch_of(2))


def test_columns_are_added_if_asked_and_columns_that_are_missing_are_null(spark: SparkSession, target: Path) -> None:
    put(opened(target), spark.sql("SELECT 0L AS id, named_struct('a', 1) AS inner"), 1)
    put(opened(target, merge_schema=True), spark.sql("SELECT 1L AS id, 2 AS more"), 2)
    rows = sorted(rows_of(target), key=lambda row: row["id"])
    assert rows == [{"id": 0, "inner": {"a": 1}, "more": None}, {"id": 1, "inner": None, "more": 2}]


def test_others_may_change_the_table_before_a_commit_and_before_it_is_repeated(
    spark: SparkSession, target: Path
) -> None:
    sink = opened(target)
    put(sink, spark.sql("SELECT 0L AS id"), 1)
    prepared = sink.prepare(spark.range(1, 4), batch_of(2))
    table_of(target).append(pa.table({"id": [4]}))
    table_of(target).delete("id = 0")
    sink.commit(prepared, permit(2))
    table_of(target).delete("id = 1")
    opened(target).commit(prepared, permit(2))
    assert sorted(row["id"] for row in rows_of(target)) == [2, 3, 4], "what was deleted does not come back"


def test_an_attempt_that_a_snapshot_names_is_not_cleaned_whatever_its_note_says(
    spark: SparkSession, target: Path
) -> None:
    sink = opened(target)
    prepared = sink.prepare(spark.sql("SELECT 0L AS id"), batch_of(1))
    sink.commit(prepared, permit(1))
    (target / "db" / "bids" / "data" / NOTES / "job-1234" / "out" / prepared[0]["attempt"]).touch()
    opened(target).clean([], lambda batch: True)
    assert [row["id"] for row in rows_of(target)] == [0]
    assert not list(target.rglob(f"{NOTES}/*/*/*"))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"uri": "sqlite:////nowhere/x.db"}, r"SINK_TARGET_INVALID.*OperationalError: \(sqlite3\.OperationalError\)"),
        ({"uri": "sqlite:////nowhere/x.db", "s3.session-token": ""}, r"unable to open database file"),
        ({"type": PASSWORD}, r"SINK_TARGET_INVALID"),
    ],
)
def test_a_catalog_that_cannot_be_reached_is_refused_before_anything_runs_and_no_secret_shown(
    target: Path, more: Mapping[str, str], reason: str
) -> None:
    sink = Iceberg("local", "db.bids", properties={**properties(target), **more})
    with pytest.raises(SinkError, match=reason) as error:
        sink.open("job-1234", "out")
    assert PASSWORD not in str(error.value)


def test_what_an_iceberg_sink_cannot_do_is_refused_by_name(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(target, pa.schema([("id", pa.int64())]), id=BucketTransform(4))
    with pytest.raises(SinkError, match="bucket") as bucket:
        opened(target)
    assert bucket.value.code == "SINK_TARGET_INVALID"
    monkeypatch.delitem(sys.modules, "rekindle.sinks.iceberg_catalog")
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(DefinitionError) as missing:
        opened(target)
    assert missing.value.code == "SINK_LIBRARY_MISSING"
