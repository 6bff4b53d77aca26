"""A look at a target before a start: it finds what a start would end with, or its first batch, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql.types import IntegerType, MapType, StringType, StructField, StructType

from rekindle.errors import SinkError
from rekindle.sinks import Delta, Foreach, Iceberg, Kafka, Parquet, Postgres, TwoPhaseSink
from rekindle.sinks.kafka.commits import topic_of
from rekindle.sinks.owners import Claim
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer

ROWS = StructType([StructField("n", IntegerType()), StructField("text", StringType())])
OTHER = StructType([StructField("n", IntegerType()), StructField("more", IntegerType())])


def claim(owner: str = "bids-1111", *, shared: bool = False) -> Claim:
    return Claim(owner=owner, sink="out", storage=f"/storage/of/{owner}", now_ms=1, shared=shared)


def refused(sink: TwoPhaseSink, columns: StructType | None = ROWS, owner: str = "bids-1111") -> str:
    """Return what a look ends with, without its line breaks."""
    with pytest.raises(SinkError) as error:
        sink.examine(claim(owner), columns)
    return f"{error.value.code}: {error.value.message}"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def catalog_in(folder: Path) -> Catalog:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return load_catalog("local", **properties)


@pytest.fixture
def postgres_table(postgres: PostgresServer) -> Iterator[Callable[[Path], TwoPhaseSink]]:
    postgres.query("CREATE SCHEMA looked")
    yield lambda _: Postgres(postgres.dsn(), "looked.rows")
    postgres.query("DROP SCHEMA looked CASCADE")


@pytest.fixture
def kafka_topic(kafka: KafkaServer) -> Callable[[Path], TwoPhaseSink]:
    kafka.make_topic("looked")
    return lambda _: Kafka(kafka.bootstrap, "looked", key="n")


KINDS = {
    "parquet": lambda folder: Parquet(folder / "out"),
    "delta": lambda folder: Delta(folder / "out"),
    "iceberg": lambda folder: Iceberg(catalog_in(folder), "db.out"),
}


@pytest.mark.parametrize("kind", [*KINDS, "postgres_table", "kafka_topic"])
def test_a_target_is_free_until_a_job_has_taken_it_and_a_look_takes_nothing(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    make = KINDS.get(kind) or request.getfixturevalue(kind)
    make(tmp_path)  # a catalog makes its tables as it is opened
    before = files(tmp_path)
    for owner in ("bids-1111", "bids-2222"):
        assert make(tmp_path).examine(claim(owner), ROWS) is None
    assert files(tmp_path) == before
    assert not (tmp_path / "out").exists()
    if kind == "iceberg":
        catalog_in(tmp_path).create_namespace("db")
        catalog_in(tmp_path).create_table("db.out", pa.schema([("n", pa.int32()), ("text", pa.string())]))

    taken = make(tmp_path)
    taken.open("bids-1111", "out")
    taken.claim(claim())
    before = files(tmp_path)
    assert make(tmp_path).examine(claim(), ROWS) is None
    assert "TARGET_TAKEN" in refused(make(tmp_path), owner="bids-2222")
    assert make(tmp_path).examine(claim("bids-2222", shared=True), ROWS) is None
    assert "TARGET_TAKEN" in refused(make(tmp_path), owner="bids-2222"), "allowed, and not noted"
    assert files(tmp_path) == before


def test_a_function_may_write_anywhere() -> None:
    sink = Foreach(lambda df, batch: None)
    assert sink.cannot_examine is None
    assert sink.examine(claim(), ROWS) is None


@pytest.mark.parametrize("kind", [Parquet, Delta])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, kind: type[Parquet | Delta]) -> None:
    (tmp_path / "file").write_text("")
    for path in ("file", "file/below"):
        assert "file is no folder" in refused(kind(tmp_path / path))
    assert refused(kind("sftp://host/folder")).startswith("SINK_TARGET_INVALID")


@pytest.mark.parametrize(
    ("partition_by", "columns", "words"),
    [
        (["q"], ROWS, "names 'q', and the columns are: n, text"),
        (["n", "TEXT"], ROWS, "names all columns"),
        (["m"], StructType([*ROWS, StructField("m", MapType(StringType(), StringType()))]), "'m', which is a map"),
    ],
)
def test_columns_that_make_no_folders_of_parquet_are_refused(
    tmp_path: Path, partition_by: list[str], columns: StructType, words: str
) -> None:
    sink = Parquet(tmp_path / "out", partition_by=partition_by)
    found = refused(sink, columns)
    assert found.startswith("ROWS_UNWRITABLE") and words in found
    assert sink.examine(claim(), None) is None, "no columns are known"


def test_rows_that_do_not_fit_a_delta_table_are_refused_and_it_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert "'q', which is missing" in refused(Delta(path, partition_by=["q"]))
    DeltaTable.create(path, DeltaSchema.from_json(ROWS.json()), partition_by=["n"])
    before = files(path)
    assert "has no columns ['more']" in refused(Delta(path), OTHER)
    assert Delta(path, merge_schema=True).examine(claim(), OTHER) is None
    assert "it is partitioned by ['n']" in refused(Delta(path, partition_by=["text"]))
    assert files(path) == before


def test_rows_that_do_not_fit_an_iceberg_table_are_refused_and_it_stays_as_it_is(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path)
    assert "'q', which is missing" in refused(Iceberg(catalog, "db.out", partition_by=["q"]))
    assert not catalog.namespace_exists("db")
    catalog.create_namespace("db")
    catalog.create_table("db.out", pa.schema([("n", pa.int32()), ("text", pa.string())]))
    before = files(tmp_path)
    assert "has no columns ['more']" in refused(Iceberg(catalog, "db.out"), OTHER)
    assert Iceberg(catalog, "db.out", merge_schema=True).examine(claim(), OTHER) is None
    assert files(tmp_path) == before
    lost = Iceberg("lost", "db.out", properties={"type": "sql", "uri": f"sqlite:///{tmp_path}/no/catalog.db"})
    assert refused(lost).startswith("SINK_TARGET_INVALID")


def test_a_table_of_postgres_that_does_not_fit_or_that_this_user_may_not_write_is_refused(
    postgres: PostgresServer, postgres_table: object
) -> None:
    table, dsn = "looked.rows", postgres.dsn()
    assert "looked.no.rows" in refused(Postgres(dsn, ("looked.no", "rows")))
    unmade = Postgres(dsn, table, checkpoint_column="text")
    assert "have a column 'text', which is the checkpoint_column" in refused(unmade)
    assert not postgres.query("SELECT FROM pg_class WHERE relname IN ('rows', 'rekindle_commits')")

    postgres.query("CREATE TABLE looked.rows (n int)")
    assert "has no column 'text'" in refused(Postgres(dsn, table))
    assert "no unique index over the key" in refused(Postgres(dsn, table, mode="upsert", key="n"), None)
    assert "no column 'cp' for the number" in refused(Postgres(dsn, table, checkpoint_column="cp"), None)
    postgres.query("ALTER TABLE looked.rows ADD text text")

    postgres.query("CREATE ROLE looker LOGIN PASSWORD 'secret!'")
    try:
        looker = f"{dsn} user=looker password='secret!'"
        assert "permission denied for schema looked" in refused(Postgres(looker, table))
        postgres.query("GRANT USAGE ON SCHEMA looked TO looker")
        assert 'GRANT INSERT ON "looked"."rows" TO "looker"' in refused(Postgres(looker, table))
        postgres.query("GRANT INSERT (n, text) ON looked.rows TO looker")
        assert 'GRANT CREATE ON SCHEMA "looked" TO' in refused(Postgres(looker, table))
        first = Postgres(dsn, table)
        first.open("bids-1111", "out")
        first.claim(claim())
        postgres.query("GRANT SELECT, INSERT ON looked.rekindle_commits TO looker")
        assert 'GRANT DELETE ON "looked"."rekindle_commits" TO' in refused(Postgres(looker, table))
        postgres.query("GRANT DELETE ON looked.rekindle_commits TO looker")
        assert Postgres(looker, table).examine(claim(), ROWS) is None
        assert "GRANT CREATE ON SCHEMA" in refused(Postgres(looker, table, atomic=True))
        assert "secret!" not in refused(Postgres(looker.replace("secret!", "wrong_secret!"), table))
    finally:
        postgres.query("DROP OWNED BY looker; DROP ROLE looker")


def test_a_topic_that_is_missing_or_whose_commits_would_be_forgotten_is_refused(kafka: KafkaServer) -> None:
    assert "there is no such topic" in refused(Kafka(kafka.bootstrap, "looked-missing"))
    kafka.make_topic("looked-short")
    assert "no column 'k'; there are: n, text" in refused(Kafka(kafka.bootstrap, "looked-short", key="k"))
    assert Kafka(kafka.bootstrap, "looked-short", key="k").examine(claim(), None) is None
    kafka.make_topic(topic_of("looked-short"), 1)
    assert "cleanup.policy=delete" in refused(Kafka(kafka.bootstrap, "looked-short"))
