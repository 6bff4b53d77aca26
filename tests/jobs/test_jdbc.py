"""A job that reads a table of PostgreSQL by its ids, through all that comes between."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.errors import InputError
from tests.jobs.kit import QUICK, committed, until
from tests.servers.kafka import jars
from tests.servers.ports import free_ports
from tests.servers.postgres import PASSWORD, USER, PostgresServer


def job_of(server: PostgresServer, out: Path, table: str = "orders_of_a_job") -> rk.Job:
    job = rk.Job("orders")
    source = rk.sources.Jdbc(
        f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        table,
        column="id",
        rows_per_read=3,
        options=lambda: {"user": USER, "password": PASSWORD},
        poll_every="200 ms",
    )
    orders = job.source("orders", source)

    @job.task(orders)
    def read(orders: DataFrame) -> DataFrame:
        return orders

    job.sink("out", read, rk.sinks.Parquet(out))
    return job


def test_each_row_comes_once_through_a_server_that_dies_a_stop_and_a_start_from_a_savepoint(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    if not jars("spark-postgres"):
        pytest.skip("no JDBC driver of PostgreSQL for Spark: `make setup` tries to fetch it")
    storage, out, beside = str(tmp_path / "storage"), tmp_path / "out", tmp_path / "beside"
    postgres.query("CREATE TABLE orders_of_a_job (id bigserial PRIMARY KEY, item text)")

    def add(rows: int) -> None:
        postgres.query(f"INSERT INTO orders_of_a_job (item) SELECT 'x' FROM generate_series(1, {rows})")

    def is_whole(folder: Path, first: int = 1) -> bool:
        there = [number for (number,) in postgres.query("SELECT id FROM orders_of_a_job WHERE id >= %s", (first,))]
        return Counter(row["id"] for row in committed(folder)) == Counter(there)

    add(7)
    handle = job_of(postgres, out).start(spark, storage=storage, config={**QUICK, "restart.attempts": "100"})
    until(lambda: is_whole(out))
    postgres.stop("immediate")
    postgres.start()
    add(2)
    until(lambda: is_whole(out))
    result = handle.stop(savepoint=str(tmp_path / "saves"))
    assert (result.state, result.error) == ("STOPPED", None)
    saved = postgres.query("SELECT max(id) FROM orders_of_a_job")[0][0]

    add(4)
    handle = job_of(postgres, out).start(spark, storage=storage, config=QUICK)
    until(lambda: is_whole(out))
    handle.stop()
    other = str(tmp_path / "other")
    handle = job_of(postgres, beside).start(spark, storage=other, restore=str(result.savepoint), config=QUICK)
    until(lambda: is_whole(beside, saved + 1))
    handle.stop()

    said = [file for file in tmp_path.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]
    assert said == []


@pytest.mark.parametrize("why", ["wrong password", "away"])
def test_a_server_that_refuses_at_the_start_is_an_error_with_its_words_and_without_the_password(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, why: str
) -> None:
    if not jars("spark-postgres"):
        pytest.skip("no JDBC driver of PostgreSQL for Spark: `make setup` tries to fetch it")
    port = postgres.port if why == "wrong password" else free_ports(1)[0]
    job = rk.Job("refused")
    credentials = {"user": USER, "password": "hunter2 wrong"}
    orders = job.source(
        "orders", rk.sources.Jdbc(f"jdbc:postgresql://127.0.0.1:{port}/postgres", "t", column="id", options=credentials)
    )
    job.sink("out", job.task(orders, uid="read")(lambda frame: frame), rk.sinks.Parquet(tmp_path / "out"))
    said = {"wrong password": "password authentication failed", "away": f"127.0.0.1:{port} refused"}[why]
    with pytest.raises(InputError, match=f"Source 'orders': the database failed: PSQLException: .*{said}") as error:
        job.start(spark, storage=str(tmp_path / "storage"))
    assert error.value.code == "SOURCE_SERVER_FAILED"
    assert "hunter2" not in str(error.value)


def test_a_column_that_gets_another_type_ends_the_job_and_the_next_run_reads_on_with_it(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    if not jars("spark-postgres"):
        pytest.skip("no JDBC driver of PostgreSQL for Spark: `make setup` tries to fetch it")
    storage, out = str(tmp_path / "storage"), tmp_path / "out"
    postgres.query("CREATE TABLE changing (id bigserial PRIMARY KEY, item int)")
    postgres.query("INSERT INTO changing (item) VALUES (1)")

    def started() -> rk.JobHandle:
        return job_of(postgres, out, "changing").start(spark, storage=storage, config=QUICK)

    handle = started()
    until(lambda: [row["id"] for row in committed(out)] == [1])
    postgres.query("ALTER TABLE changing ALTER item TYPE bigint")
    postgres.query("INSERT INTO changing (item) VALUES (2)")
    result = handle.wait()
    assert result is not None
    assert result.error is not None
    assert (result.state, result.error["code"]) == ("FAILED", "JDBC_COLUMNS_CHANGED")
    assert "item is bigint now, and was int" in result.error["message"]

    handle = started()
    until(lambda: sorted((row["id"], row["item"]) for row in committed(out)) == [(1, 1), (2, 2)])
    assert handle.stop().state == "STOPPED"
