"""The Delta sink holds the contract, plain and partitioned; and what is its own."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, SinkError
from rekindle.sinks import Delta, footers
from rekindle.sinks.staging import NOTES
from rekindle.testing.sink_contract import Row, SinkContract, batch_of, permit


class TestDelta(SinkContract):
    effects = (
        "deltalake.DeltaTable.create",
        "deltalake.DeltaTable.create_write_transaction",
        "rekindle.sinks.writing.run_write",
        "rekindle.storage.local.LocalStore.delete",
        "rekindle.storage.local.LocalStore.delete_tree",
        "rekindle.storage.local.LocalStore.replace",
    )
    looks = (
        "rekindle.sinks.delta.Delta._table",
        "rekindle.sinks.staging.read_footer",
    )

    @pytest.fixture
    def target(self, tmp_path: Path) -> Path:
        return tmp_path / "target ä"  # no %: delta-rs misreads it

    def make(self, target: Path) -> Delta:
        return Delta(target)

    def visible(self, spark: SparkSession, target: Path) -> Iterable[Row]:
        assert not {path: times for path, times in Counter(added(target)).items() if times > 1}, "streams read it twice"
        return [(row["n"], row["text"]) for row in rows_of(target)]

    def staged(self, target: Path) -> int:
        notes = [note.name for note in (target / NOTES).glob("*/*/*")]
        data = {folder.name for folder in (target / "rekindle").glob("*/*/*")}
        seen = {Path(uri).parts[-2] for uri in files_of(target)} | {Path(uri).parts[-3] for uri in files_of(target)}
        assert not data - seen - set(notes), "files that nobody would clean"
        return len(notes)


@pytest.mark.slow
class TestPartitionedDelta(TestDelta):
    def make(self, target: Path) -> Delta:
        return Delta(target, partition_by=["text"], options={"compression": "zstd"})


def files_of(target: Path) -> list[str]:
    return DeltaTable(target).file_uris() if DeltaTable.is_deltatable(str(target)) else []


def added(target: Path) -> Iterator[str]:
    """The files that the log adds, as one sees them who follows it."""
    for entries in (target / "_delta_log").glob("*.json"):
        yield from (entry["add"]["path"] for entry in map(json.loads, entries.open()) if "add" in entry)


def rows_of(target: Path) -> list[dict[str, Any]]:
    return DeltaTable(target).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(str(target)) else []


def opened(target: Path, **arguments: Any) -> Delta:
    sink = Delta(target, **arguments)
    sink.open("job-1234", "out")
    return sink


def put(sink: Delta, frame: Any, number: int = 1) -> None:
    sink.commit(sink.prepare(frame, batch_of(number)), permit(number))


def test_one_entry_of_the_log_names_the_checkpoint_and_the_statistics_of_each_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.sql(
        "SELECT id, decimal(id) / 4 AS quarter, timestamp_micros(id) AS ts, timestamp_ntz '2025-01-01' AS ntz,"
        " date_from_unix_date(int(id)) AS day, string(id) AS name, repeat('x', 300) AS long, id > 1 AS flag,"
        " IF(id = 1, NULL, double(id)) AS some, named_struct('a', id) AS inner, array(id) AS many"
        " FROM range(3)"
    ).coalesce(1)
    put(opened(tmp_path), frame, 7)
    log = [json.loads(line) for line in (tmp_path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()]
    [transaction] = [entry["txn"] for entry in log if "txn" in entry]
    [add] = [entry["add"] for entry in log if "add" in entry]
    assert transaction == {"appId": "rekindle/job-1234/out", "version": 7}
    found = json.loads(add["stats"])
    assert found["numRecords"] == 3
    assert found["nullCount"] == {
        name: int(name == "some") for name in frame.columns if name not in ("inner", "many")
    } | {"inner": {"a": 0}}
    assert found["minValues"] == {
        "id": 0,
        "quarter": 0.0,
        "ts": "1970-01-01T00:00:00Z",
        "ntz": "2025-01-01T00:00:00",
        "day": "1970-01-01",
        "name": "0",
        "long": "x" * footers.DELTA_STRING,
        "flag": False,
        "some": 0.0,
        "inner": {"a": 0},
    }
    assert found["maxValues"]["ts"] == "1970-01-01T00:00:00.000002Z"
    assert found["maxValues"]["quarter"] == 0.5
    assert found["maxValues"]["long"] == "x" * (footers.DELTA_STRING - 1) + "y"
    [first, *_] = sorted(rows_of(tmp_path), key=lambda row: row["id"])
    assert first["ts"] == dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    assert first["quarter"] == Decimal(0)


ODD = (
    "SELECT * FROM VALUES (1, 'a', date '2025-01-01', timestamp '2025-01-01 00:00:00', 1.0D, true),"
    " (2, cast(X'ff' AS string), date_from_unix_date(-800000), timestamp_micros(-70000000000000000),"
    " double('NaN'), false),"
    " (3, 'c', date_from_unix_date(3000000), timestamp_micros(260000000000000000), 3.0D, true)"
    " AS odd (id, text, day, ts, number, flag)"
)
"""Of each column, two values are as others are, and one is not: a row of them, and one more of dates after 9999."""


def test_an_odd_value_stops_no_commit_and_readers_skip_no_row_for_its_sake(spark: SparkSession, tmp_path: Path) -> None:
    put(opened(tmp_path), spark.sql(ODD).coalesce(1))
    field, table = pa.dataset.field, DeltaTable(tmp_path).to_pyarrow_dataset()
    found = {
        "id > 1": field("id") > 1,
        "flag": field("flag"),
        "number = 3": field("number") == 3.0,
        "day > 9999": field("day") > dt.date(9999, 12, 31),
        "day = 2025": field("day") == dt.date(2025, 1, 1),
        "text = c": field("text") == "c",
    }
    rows = {name: table.scanner(columns=["id"], filter=asked).count_rows() for name, asked in found.items()}
    assert rows == {"id > 1": 2, "flag": 2, "number = 3": 1, "day > 9999": 1, "day = 2025": 1, "text = c": 1}


@pytest.mark.parametrize("day", [-800_000, 3_000_000])
def test_a_partition_by_a_day_that_deltas_log_cannot_name_is_refused(
    spark: SparkSession, tmp_path: Path, day: int
) -> None:
    put(opened(tmp_path, partition_by=["day"]), spark.sql("SELECT 1 AS id, date '2025-01-01' AS day"), 1)
    with pytest.raises(SinkError) as error:
        opened(tmp_path).prepare(spark.sql(f"SELECT 2 AS id, date_from_unix_date({day}) AS day"), batch_of(2))
    assert error.value.code == "SINK_PARTITION_UNKNOWN"
    assert error.value.permanent
    assert [row["id"] for row in rows_of(tmp_path)] == [1]


def test_readers_skip_files_and_partitions_and_other_programs_read_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.range(100).selectExpr("id", "date_from_unix_date(int(id % 2)) AS day", "id % 2 = 0 AS even")
    put(opened(tmp_path, partition_by=["day", "even"]), frame.repartitionByRange(2, "id"))
    table = DeltaTable(tmp_path)
    assert sorted(table.partitions(), key=lambda values: values["day"]) == [
        {"day": "1970-01-01", "even": "true"},
        {"day": "1970-01-02", "even": "false"},
    ]
    assert len(table.file_uris()) == 4
    assert len(list(table.to_pyarrow_dataset().get_fragments(pa.dataset.field("id") > 90))) == 2
    bids = table.to_pyarrow_dataset()  # noqa: F841  DuckDB finds it by its name
    found = duckdb.sql("SELECT even, count(*), sum(id) FROM bids WHERE day = DATE '1970-01-01' GROUP BY 1").fetchall()
    assert found == [(True, 50, 2450)]


@pytest.mark.parametrize(
    ("query", "arguments", "reason"),
    [
        ("SELECT 'x' AS id", {}, 'column \'id\' is "string", in the table "long"'),
        ("SELECT 1L AS id, 2 AS more", {}, "the table has no columns ['more']"),
        ("SELECT 1L AS id", {"partition_by": ["id"]}, "it is partitioned by []"),
        ("SELECT 1L AS id", {"partition_by": ["gone"]}, "it cannot be partitioned by 'gone', which is missing"),
        ("SELECT 1.5D AS id", {"partition_by": ["id"]}, "it cannot be partitioned by 'id', which is double"),
    ],
)
def test_rows_that_do_not_fit_the_table_are_refused_before_any_is_written(
    spark: SparkSession, tmp_path: Path, query: str, arguments: Mapping[str, Any], reason: str
) -> None:
    put(opened(tmp_path), spark.sql("SELECT 0L AS id"))
    with pytest.raises(SinkError) as error:
        opened(tmp_path, **arguments).prepare(spark.sql(query), batch_of(2))
    assert error.value.code == "SINK_SCHEMA_MISMATCH"
    assert error.value.permanent
    assert reason in error.value.message
    assert not list((tmp_path / NOTES).glob("*/*/*"))


def test_columns_are_added_if_asked_and_columns_that_are_missing_are_null(spark: SparkSession, tmp_path: Path) -> None:
    put(opened(tmp_path), spark.sql("SELECT 0L AS id, named_struct('a', 1) AS inner"), 1)
    put(opened(tmp_path, merge_schema=True), spark.sql("SELECT 1L AS id, 2 AS more"), 2)
    rows = sorted(rows_of(tmp_path), key=lambda row: row["id"])
    assert rows == [{"id": 0, "inner": {"a": 1}, "more": None}, {"id": 1, "inner": None, "more": 2}]


@pytest.mark.parametrize("properties", [{"delta.constraints.positive": "id > 0"}, {"delta.columnMapping.mode": "name"}])
def test_a_table_with_what_spark_would_not_honour_is_refused_before_anything_runs(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        entry.get("metaData", {}).update(configuration=properties)
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    with pytest.raises(SinkError, match=next(iter(properties))) as error:
        opened(tmp_path)
    assert error.value.code == "SINK_TARGET_INVALID"


def test_others_may_change_the_table_before_a_commit_and_before_it_is_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(tmp_path)
    put(sink, spark.sql("SELECT 0L AS id"), 1)
    made = sink.prepare(spark.range(1, 4), batch_of(2))
    DeltaTable(tmp_path).optimize.compact()
    write_deltalake(tmp_path, pa.table({"id": [4]}), mode="append")
    DeltaTable(tmp_path).delete("id = 0")
    sink.commit(made, permit(2))
    DeltaTable(tmp_path).delete("id = 1")
    opened(tmp_path).commit(made, permit(2))
    assert sorted(row["id"] for row in rows_of(tmp_path)) == [2, 3, 4], "what was deleted does not come back"


def test_a_table_that_is_gone_with_the_rows_of_a_checkpoint_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(tmp_path / "table")
    made = sink.prepare(spark.range(3), batch_of(1))
    shutil.rmtree(tmp_path / "table")
    with pytest.raises(SinkError) as error:
        sink.commit(made, permit(1))
    assert (error.value.code, error.value.permanent) == ("SINK_STAGING_LOST", True)


@pytest.mark.parametrize("driver", ["same", "next"])
@pytest.mark.parametrize("change", ["type", "column"])
def test_rows_are_not_added_to_a_table_that_has_got_other_columns_since_they_were_written(
    spark: SparkSession, tmp_path: Path, change: str, driver: str
) -> None:
    sink = opened(tmp_path)
    put(sink, spark.sql("SELECT 0L AS id, 'a' AS v"), 1)
    made = sink.prepare(spark.sql("SELECT 1L AS id, 'b' AS v"), batch_of(2))
    others = {"id": [7], "v": [7]} if change == "type" else {"id": [7]}
    write_deltalake(tmp_path, pa.table(others), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        SinkError, match="in the table" if change == "type" else r"no columns \['v'\] any more"
    ) as error:
        (sink if driver == "same" else opened(tmp_path)).commit(made, permit(2))
    assert error.value.code == "SINK_SCHEMA_MISMATCH"
    assert [row["id"] for row in rows_of(tmp_path)] == [7]


def test_an_attempt_that_the_log_names_is_not_cleaned_whatever_its_note_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(tmp_path)
    made = sink.prepare(spark.sql("SELECT 0L AS id"), batch_of(1))
    sink.commit(made, permit(1))
    (tmp_path / NOTES / "job-1234" / "out" / made[0]["attempt"]).touch()
    opened(tmp_path).clean([], lambda batch: True)
    assert [row["id"] for row in rows_of(tmp_path)] == [0]
    assert not list((tmp_path / NOTES).glob("*/*/*"))


def test_what_a_delta_sink_cannot_do_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DefinitionError) as unknown:
        Delta(tmp_path, mode="overwrite")
    assert unknown.value.code == "SINK_MODE_UNKNOWN"
    with pytest.raises(SinkError, match="misreads"):
        opened(tmp_path / "a%20b")
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(DefinitionError, match="deltalake") as missing:
        opened(tmp_path)
    assert missing.value.code == "SINK_LIBRARY_MISSING"
