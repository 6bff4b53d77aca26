"""The PostgreSQL sink holds the contract in each of its ways, on a real server; and what is its own."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.errors import FinishedPGconn
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, SinkError
from rekindle.sinks import Postgres, SinkBatch
from rekindle.sinks.postgres.database import ATTEMPTS, PATIENCE_S, _may_connect, _may_pass, connect, patience
from rekindle.testing.effects import at_moments
from rekindle.testing.sink_contract import Row, SinkContract, batch_of, permit
from tests.jobs.kit import until
from tests.servers.ports import free_ports
from tests.servers.postgres import PASSWORD, PostgresServer
from tests.sinks.plain_frames import PlainFrame


@pytest.mark.usefixtures("database")
class PostgresContract(SinkContract):
    on_a_server = True
    effects = (
        "psycopg.Connection.tpc_commit",
        "psycopg.Connection.tpc_rollback",
        "pyspark.sql.classic.dataframe.DataFrame.collect",
        "rekindle.sinks.postgres.committing.Committing._move",
        "rekindle.sinks.postgres.attempts.PostgresAttempts.drop",
        "rekindle.sinks.postgres.committing.note_commit",
    )
    looks = (
        "rekindle.sinks.postgres.attempts.PostgresAttempts.prepared",
        "rekindle.sinks.postgres.attempts.PostgresAttempts.staged",
        "rekindle.sinks.postgres.attempts.PostgresAttempts.committed",
    )
    secrets = (PASSWORD,)
    rival_waits_s = 1.0  # a statement takes milliseconds; one that takes longer waits for the lock of the other
    table = 'odd "table'
    definition: str | None = None

    @pytest.fixture
    def target(self, postgres: PostgresServer, database: str) -> str:
        self.server = postgres
        if self.definition:
            postgres.query(self.definition, database=database)
        return database

    def make(self, target: str) -> Postgres:
        return Postgres(self.server.dsn(target), self.table)

    def visible(self, spark: SparkSession, target: str) -> Iterable[Row]:
        if not self.server.query("SELECT 1 FROM pg_class WHERE relname = %s", (self.table,), target):
            return []
        quoted = self.table.replace('"', '""')
        found = self.server.psql(f'SELECT n, to_json(text) FROM "{quoted}"', target)
        return [(int(n), json.loads(text) if text else None) for n, text in found]

    def staged(self, target: str) -> int:
        return len(
            self.server.query(
                "SELECT regexp_replace(gid, ':[^:]*$', '') FROM pg_prepared_xacts WHERE database = current_database()"
                " UNION SELECT obj_description(oid, 'pg_class') FROM pg_class"
                " WHERE obj_description(oid, 'pg_class') LIKE 'rekindle:%%'",
                database=target,
            )
        )


class TestPrepared(PostgresContract):
    """A table without an index: rows are written in prepared transactions."""


@pytest.mark.slow
class TestStaged(PostgresContract):
    """A table with a primary key: rows pass through a staging table."""

    table = "keyed"
    definition = "CREATE TABLE keyed (n int8 PRIMARY KEY, text varchar(100), made timestamptz DEFAULT now())"


@pytest.mark.slow
class TestUpsert(TestStaged):
    """Rows with a key, into a table that the sink makes."""

    table = "upserted"
    definition = None

    def make(self, target: str) -> Postgres:
        return Postgres(lambda: self.server.dsn(target), ("public", self.table), mode="upsert", key="n")


# -- what is its own ---------------------------------------------------------------------------------------------------


def opened(sink: Postgres, job: str = "job-1234") -> Postgres:
    sink.open(job, "out")
    return sink


def gids(server: PostgresServer, database: str) -> list[str]:
    return sorted(
        gid
        for (gid,) in server.query(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()", (), database
        )
    )


EVERY_TYPE = """
CREATE TABLE types (
    b boolean, i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision, n numeric(12, 2), n0 numeric,
    t text, v varchar(20), c char(3), e mood, x xml, j json, jb jsonb, u uuid, bin bytea, d date, tz timestamptz,
    ts timestamp, w jsonb, id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY
)
"""

EVERY_VALUE = """
SELECT true b, 7S i2, -2147483648 i4, 9223372036854775807 i8, 1.5F f4, double('NaN') f8, 1234567890.12BD n, 5L n0,
    'tab\\t "ü" \\\\ \\n' t, '' v, 'abc' c, 'glad' e, '<a/>' x, '{"a": 1}' j, '{"b": [2]}' jb,
    '12345678-1234-5678-1234-567812345678' u, X'00ff' bin, DATE'0001-01-01' d,
    TIMESTAMP'2025-06-01 12:00:00.123456+02:00' tz, TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' ts,
    named_struct('start', 1, 'list', array(1, 2)) w
"""


def test_every_type_arrives_as_it_is_and_nulls_too(
    spark: SparkSession, postgres: PostgresServer, database: str
) -> None:
    postgres.query("CREATE TYPE mood AS ENUM ('glad', 'sad')", (), database)
    postgres.query(EVERY_TYPE, (), database)
    sink = opened(Postgres(postgres.dsn(database), "types"))
    values = spark.sql(EVERY_VALUE)
    nulls = values.selectExpr(*(f"CAST(NULL AS {f.dataType.simpleString()}) AS {f.name}" for f in values.schema.fields))
    made = sink.prepare(values.unionByName(nulls).coalesce(1), batch_of(0))
    assert made[0]["prepared"] and not made[0]["staged"], "the identity column does not make transactions wait"
    sink.commit(made, permit())
    columns = ", ".join(name for name in values.columns if name not in ("f8", "x", "tz"))
    [full, empty] = postgres.query(f"SELECT {columns} FROM types ORDER BY id", (), database)
    assert set(empty) == {None}
    expected = {
        "b": True, "i2": 7, "i4": -(2**31), "i8": 2**63 - 1, "f4": 1.5, "n": Decimal("1234567890.12"), "n0": 5,
        "t": 'tab\t "ü" \\ \n', "v": "", "c": "abc", "e": "glad", "j": {"a": 1}, "jb": {"b": [2]},
        "u": uuid.UUID("12345678-1234-5678-1234-567812345678"), "bin": b"\x00\xff", "w": {"start": 1, "list": [1, 2]},
    }  # fmt: skip
    assert dict(zip(columns.split(", "), full, strict=True)) | expected == dict(
        zip(columns.split(", "), full, strict=True)
    )
    found = postgres.psql("SELECT f8, x, d, tz AT TIME ZONE 'UTC', ts FROM types WHERE b", database)
    assert found == [["NaN", "<a/>", "0001-01-01", "2025-06-01 10:00:00.123456", "1969-12-31 23:59:59.999999"]]


@pytest.mark.parametrize(
    ("definition", "select", "reason"),
    [
        ("n int8", "1L n, 2 other", "it has no column 'other'; it has: n"),
        ("n int8", "'one' n", "its column 'n' is int8 and takes tinyint or smallint or int or bigint, not string"),
        ("n timestamp", "TIMESTAMP'2025-01-01 00:00:00' n", "its column 'n' is timestamp and takes timestamp_ntz"),
        ("n inet", "'::1' n", "its column 'n' is inet, which is not supported"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_for_good(
    spark: SparkSession, postgres: PostgresServer, database: str, definition: str, select: str, reason: str
) -> None:
    postgres.query(f"CREATE TABLE fits ({definition})", (), database)
    sink = opened(Postgres(postgres.dsn(database), "fits"))
    with pytest.raises(SinkError) as error:
        sink.prepare(spark.sql(f"SELECT {select}"), batch_of(0))
    assert error.value.code == "SINK_SCHEMA_MISMATCH" and error.value.permanent
    assert reason in error.value.message


@pytest.mark.parametrize(
    ("kind", "select", "reason"),
    [
        ("integer", "3000000000L", "3000000000 not in range"),
        ("timestamptz", "timestamp_micros(-9223372036854775803L)", "out of range: overflow"),
        ("timestamptz", "timestamp_micros(-9000000000000000000L)", "timestamp out of range"),
        ("text", "'a\\0b'", "invalid byte sequence"),
        ("text NOT NULL", "CAST(NULL AS STRING)", "violates not-null constraint"),
    ],
)
def test_a_value_that_no_column_takes_is_an_error_for_good_and_not_another_value(
    spark: SparkSession, postgres: PostgresServer, database: str, kind: str, select: str, reason: str
) -> None:
    postgres.query(f"CREATE TABLE small (n {kind})", (), database)
    sink = opened(Postgres(postgres.dsn(database), "small"))
    with pytest.raises(SinkError, match=reason) as error:
        sink.prepare(spark.sql(f"SELECT {select} n"), batch_of(0))
    assert error.value.code == "SINK_ROWS_REFUSED" and error.value.permanent
    assert not gids(postgres, database)


def test_a_commit_that_a_constraint_forbids_is_an_error_for_good_until_the_table_takes_the_rows(
    spark: SparkSession, postgres: PostgresServer, database: str
) -> None:
    postgres.query("CREATE TABLE strict (n int8 PRIMARY KEY)", (), database)
    postgres.query("INSERT INTO strict VALUES (1)", (), database)
    sink = opened(Postgres(postgres.dsn(database), "strict"))
    made = sink.prepare(spark.range(1, 3).toDF("n"), batch_of(0))
    with pytest.raises(SinkError, match="duplicate key value") as error:
        sink.commit(made, permit())
    assert error.value.code == "SINK_ROWS_REFUSED" and error.value.permanent
    postgres.query("DELETE FROM strict", (), database)
    sink.commit(made, permit())
    assert postgres.query("SELECT n FROM strict ORDER BY n", (), database) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("definition", "prepares"), [("n int8 REFERENCES made_later", False), ("n int8 UNIQUE REFERENCES made_later", True)]
)
def test_rows_that_refer_to_rows_which_may_come_later_are_tried_again(
    spark: SparkSession, postgres: PostgresServer, database: str, definition: str, prepares: bool
) -> None:
    postgres.query("CREATE TABLE made_later (n int8 PRIMARY KEY)", (), database)
    postgres.query(f"CREATE TABLE refers ({definition})", (), database)
    sink = opened(Postgres(postgres.dsn(database), "refers"))
    rows = spark.range(1, 2).toDF("n")
    made = sink.prepare(rows, batch_of(0)) if prepares else []
    with pytest.raises(SinkError, match="violates foreign key constraint") as error:
        sink.commit(made, permit()) if prepares else sink.prepare(rows, batch_of(0))
    assert error.value.code == "SINK_SERVER_FAILED" and not error.value.permanent


def test_partitions_beyond_half_of_the_free_transactions_are_staged_and_committed_with_the_others(
    spark: SparkSession, postgres: PostgresServer, database: str
) -> None:
    [(slots,)] = postgres.query("SELECT current_setting('max_prepared_transactions')::int")
    for number in range(slots - 5):
        postgres.query(f"BEGIN; SELECT 1; PREPARE TRANSACTION 'somebody {number}'", (), database)
    sink = opened(Postgres(postgres.dsn(database), "public.wide"))
    made = sink.prepare(spark.range(40).repartition(4), batch_of(0))
    assert [part.partition(".")[0] for part in made[0]["prepared"]] == ["0", "1"]
    assert [part.partition(".")[0] for part in made[0]["staged"]] == ["2", "3"]
    assert made[0]["rows"] == 40
    opened(Postgres(postgres.dsn(database), "public.wide")).commit(made, permit())
    assert postgres.psql("SELECT count(*), count(DISTINCT id) FROM wide", database) == [["40", "40"]]


def test_a_prepared_transaction_tells_whose_it_is(spark: SparkSession, postgres: PostgresServer, database: str) -> None:
    sink = opened(Postgres(postgres.dsn(database), "told"), job="hourly-1234abcd")
    batch = batch_of(7, run=3, attempt="beef", job="hourly-1234abcd")
    sink.prepare(spark.range(1), batch)
    [gid] = gids(postgres, database)
    owner, name, _ = gid.removeprefix("rekindle:").split(":")
    assert owner.startswith("hourly-1234abcd-") and name == batch.name == "000003-t-1-0-000001-000000007-beef"


def test_parts_of_spark_tasks_that_ran_twice_count_once(
    spark: SparkSession, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collect_twice(frame: Any) -> list[SparkRow]:
        return [*collect(frame)[:0], *collect(frame)]

    collect = type(spark.range(1)).collect
    for mode in ({}, {"atomic": True}):
        sink = opened(Postgres(postgres.dsn(database), "twice", **mode))
        with monkeypatch.context() as patched:
            patched.setattr(type(spark.range(1)), "collect", collect_twice)
            made = sink.prepare(spark.range(10).repartition(2), batch_of(len(mode)))
        assert len(gids(postgres, database)) == len(made[0]["prepared"])
        sink.commit(made, permit())
    assert postgres.psql("SELECT count(*), count(DISTINCT id) FROM twice", database) == [["20", "10"]]


def test_what_a_straggling_task_has_prepared_of_a_committed_batch_is_rolled_back_by_the_next_commit(
    postgres: PostgresServer, database: str
) -> None:
    def prepared(batch: SinkBatch) -> list[dict[str, Any]]:
        return [*sink.prepare(PlainFrame([(batch.batch, "a")]), batch)]

    sink = opened(Postgres(postgres.dsn(database), "plain"))
    prepared(batch_of(0, attempt="discarded"))
    made = prepared(batch_of(0))
    [part] = made[0]["prepared"]
    again = [gid.replace(part, "0.00000000") for gid in gids(postgres, database) if gid.endswith(part)]
    postgres.query(f"BEGIN; SELECT 1; PREPARE TRANSACTION '{again[0]}'", database=database)  # the task ran twice
    prepared(batch_of(1))
    prepared(replace(batch_of(0), lineage=2))
    prepared(batch_of(0, subtask=1))
    sink.commit(made, permit(1))
    left = ["000001-t-1-0-000001-000000001-aa", "000001-t-1-0-000002-000000000-aa", "000001-t-1-1-000001-000000000-aa"]
    assert sorted(gid.split(":")[2] for gid in gids(postgres, database)) == left, "they may still be committed"

    prepared(batch_of(0, attempt="late"))
    sink.commit(prepared(batch_of(2)), permit(2))
    assert sorted(gid.split(":")[2] for gid in gids(postgres, database)) == left[1:]
    assert sorted(postgres.psql("SELECT n FROM plain", database)) == [["0"], ["2"]]


def test_what_a_straggling_task_has_staged_of_a_committed_batch_is_dropped_by_the_next_commit(
    postgres: PostgresServer, database: str
) -> None:
    def staged(batch: SinkBatch) -> list[dict[str, Any]]:
        return [*sink.prepare(PlainFrame([(batch.batch, "a")]), batch)]

    def left() -> list[str]:
        described = "SELECT obj_description(oid) FROM pg_class WHERE starts_with(obj_description(oid), 'rekindle:')"
        return sorted(text.split(":")[2] for (text,) in postgres.query(described, (), database))

    sink = opened(Postgres(postgres.dsn(database), "whole", atomic=True))
    staged(batch_of(0, attempt="discarded"))
    made = staged(batch_of(0))
    staged(batch_of(1))
    staged(replace(batch_of(0), lineage=2))
    sink.commit(made, permit(1))
    may_come = ["000001-t-1-0-000001-000000001-aa", "000001-t-1-0-000002-000000000-aa"]
    assert left() == may_come, "they may still be committed"

    staged(batch_of(0, attempt="late"))
    with psycopg.connect(postgres.dsn(database)) as task:
        [(writing,)] = postgres.query(
            "SELECT relname FROM pg_class WHERE obj_description(oid) LIKE 'rekindle:%%-late'", (), database
        )
        task.execute(f"LOCK TABLE {writing} IN ROW EXCLUSIVE MODE")  # as a COPY does
        sink.commit(staged(batch_of(2)), permit(2))
        assert any(name.endswith("late") for name in left()), "a commit does not wait for such a task"
    sink.commit(staged(batch_of(3)), permit(3))
    assert left() == may_come[1:]
    assert sorted(postgres.psql("SELECT n FROM whole", database)) == [["0"], ["2"], ["3"]]


@pytest.mark.parametrize("name", ["a.b", "a`b", "Select", 'a"b %s', "ünï"])
def test_a_column_may_have_any_name(spark: SparkSession, postgres: PostgresServer, database: str, name: str) -> None:
    sink = opened(Postgres(postgres.dsn(database), "named"))
    sink.commit(sink.prepare(spark.range(1).toDF(name), batch_of(0)), permit())
    assert postgres.query("SELECT to_jsonb(named) FROM named", (), database) == [({name: 0},)]


def test_a_table_is_not_made_with_a_name_that_postgresql_cuts_off(
    spark: SparkSession, postgres: PostgresServer, database: str
) -> None:
    sink = opened(Postgres(postgres.dsn(database), "long"))
    with pytest.raises(SinkError, match="cuts names off after 63 bytes") as error:
        sink.prepare(spark.range(1).toDF("ü" * 32), batch_of(0))
    assert error.value.code == "SINK_SCHEMA_MISMATCH"
    assert not postgres.query("SELECT 1 FROM pg_class WHERE relname = 'long'", (), database)
    sink.commit(sink.prepare(spark.range(1).toDF("ü" * 31), batch_of(0)), permit())


def test_names_of_commits_are_deleted_after_a_week_and_no_others(postgres: PostgresServer, database: str) -> None:
    batch = "substring(name FROM '-([0-9]{9})-')::int"
    notes = f"SELECT {batch} AS batch FROM rekindle_commits WHERE starts_with(name, 'rekindle:') ORDER BY batch"

    def commit(number: int, uid: str = "out", **options: Any) -> None:
        sink = Postgres(postgres.dsn(database), "plain", **options)
        sink.open("job-1234", uid)
        sink.commit(sink.prepare(PlainFrame([(number, "a")]), batch_of(number, sink=uid)), permit(number))

    commit(1)
    # As earlier versions have noted it.
    postgres.query("UPDATE rekindle_commits SET owner = regexp_replace(name, ':[^:]+$', '')", database=database)
    commit(2)
    commit(3, atomic=True)
    commit(4, uid="another")
    postgres.query("UPDATE rekindle_commits SET prepared_at = now() - interval '8 days'", database=database)
    postgres.query(
        "INSERT INTO rekindle_commits VALUES ('owner of \"plain\": x', '{}', '2001-01-01')", database=database
    )
    assert postgres.query(notes, database=database) == [(1,), (2,), (3,), (4,)]
    commit(5)
    assert postgres.query(notes, database=database) == [(4,), (5,)]
    commit(6, atomic=True)
    assert postgres.query(notes, database=database) == [(4,), (5,), (6,)]
    assert postgres.query("SELECT count(DISTINCT owner) FROM rekindle_commits", database=database) == [(3,)]


def test_an_upsert_keeps_the_row_of_the_later_batch_and_the_columns_it_does_not_write(
    spark: SparkSession, postgres: PostgresServer, database: str
) -> None:
    postgres.query('CREATE TABLE shop."T" (k text, "V 1" int8, note text DEFAULT \'new\', UNIQUE (k))'
                   .replace("CREATE", "CREATE SCHEMA shop; CREATE", 1), (), database)  # fmt: skip
    sink = opened(Postgres(postgres.dsn(database), "shop.T", mode="upsert", key="k"))
    first = sink.prepare(spark.sql("SELECT 'a' k, 1L `V 1` UNION ALL SELECT 'b', 1"), batch_of(0))
    sink.commit(first, permit(1))
    postgres.query("UPDATE shop.\"T\" SET note = 'theirs'", (), database)
    second = sink.prepare(spark.sql("SELECT 'a' k, 2L `V 1` UNION ALL SELECT 'c', 2"), batch_of(1))
    third = sink.prepare(spark.sql("SELECT 'a' k, 3L `V 1`"), batch_of(2))
    sink.commit([*second, *third], permit(2))
    sink.commit(first, permit(1))
    assert postgres.psql('SELECT * FROM shop."T" ORDER BY k', database) == [
        ["a", "3", "theirs"], ["b", "1", "theirs"], ["c", "2", "new"],
    ]  # fmt: skip


def test_an_upsert_without_a_unique_index_is_refused_with_the_statement_that_makes_one(
    postgres: PostgresServer, database: str
) -> None:
    postgres.query("CREATE TABLE t (a int, b int); CREATE UNIQUE INDEX ON t (a) WHERE b > 0", (), database)
    with pytest.raises(SinkError, match=r'CREATE UNIQUE INDEX ON public.t \("a"\)') as error:
        opened(Postgres(postgres.dsn(database), "t", mode="upsert", key="a"))
    assert error.value.code == "SINK_TARGET_INVALID"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"mode": "upsert"}, "ARGUMENT_INVALID"),
        ({"key": "n"}, "ARGUMENT_INVALID"),
        ({"mode": "replace", "key": "n"}, "SINK_MODE_UNKNOWN"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_when_the_sink_is_made(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(DefinitionError) as error:
        Postgres("", "t", **arguments)
    assert error.value.code == code


def test_the_password_is_in_no_error_and_no_text(
    spark: SparkSession, postgres: PostgresServer, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    told = []
    dsn = postgres.dsn(database)
    for wrong in (
        dsn.replace("user=tester", "user=nobody"),
        dsn.replace("hunter2", "hunter2 oops"),
        f"postgresql://tester:{PASSWORD}@127.0.0.1:{postgres.port}:7/x",
    ):
        with pytest.raises(SinkError) as error:
            opened(Postgres(wrong, "t"))
        assert error.value.code == "SINK_TARGET_INVALID"
        told.append(f"{error.value} {error.value.next_step} {error.value.__cause__}")
    postgres.query("CREATE TABLE t (n varchar(1))", (), database)
    sink = opened(Postgres(dsn, "t"))
    told.append(repr(sink))
    with pytest.raises(SinkError, match="value too long") as failed:
        sink.prepare(spark.sql("SELECT 'long' n"), batch_of(0))
    assert failed.value.code == "SINK_ROWS_REFUSED", "an executor said it"
    told.append(str(failed.value))
    told += list(capfd.readouterr())
    assert not [text for text in told if "hunter2" in text]


# -- faults of the server ----------------------------------------------------------------------------------------------


def test_a_restart_during_prepare_fails_the_attempt_and_the_next_one_is_exact(
    spark: SparkSession, postgres: PostgresServer, database: str
) -> None:
    sink = opened(Postgres(postgres.dsn(database), "restarted"))
    frame = spark.range(0, 300_000, 1, 2)

    def restart_when_it_is_copying() -> None:
        until(lambda: bool(postgres.query("SELECT 1 FROM pg_stat_progress_copy")))
        postgres.restart()

    with ThreadPoolExecutor(1) as pool:
        restarting = pool.submit(restart_when_it_is_copying)
        with pytest.raises(Exception, match=r"PostgreSQL failed: table public\.restarted"):
            sink.prepare(spark.range(0, 5_000_000, 1, 2), batch_of(0))  # so many that it is met while it is copying
        restarting.result()
    made = sink.prepare(frame, batch_of(0, attempt="bb"))
    postgres.restart()
    sink.clean(made, lambda batch: True)
    assert len(gids(postgres, database)) == 2
    sink.commit(made, permit())
    assert postgres.psql("SELECT count(*), count(DISTINCT id) FROM restarted", database) == [["300000", "300000"]]


@pytest.mark.parametrize("mode", [{}, {"atomic": True}])
def test_a_restart_in_the_middle_of_a_commit_is_waited_for(
    spark: SparkSession, postgres: PostgresServer, database: str, mode: dict[str, Any]
) -> None:
    sink = opened(Postgres(postgres.dsn(database), "cut", **mode))
    made = [one for number in range(2) for one in sink.prepare(spark.range(10).repartition(2), batch_of(number))]
    moments = itertools.count()

    def restart_in_the_middle(moment: str) -> None:
        if next(moments) == 2:
            postgres.restart()

    effects = ("psycopg.Connection.tpc_commit", "rekindle.sinks.postgres.committing.note_commit")
    with at_moments(restart_in_the_middle, effects):
        sink.commit(made, permit())
    assert next(moments) > 3
    assert postgres.psql("SELECT count(*), count(DISTINCT id) FROM cut", database) == [["20", "10"]]
    assert not gids(postgres, database)


def test_a_driver_that_is_frozen_in_the_middle_of_a_commit_does_not_hold_up_its_successor(
    postgres: PostgresServer, database: str
) -> None:
    settings = "SELECT setting::int FROM pg_settings WHERE name IN (%s, 'lock_timeout') ORDER BY name"
    name = "idle_in_transaction_session_timeout"
    with connect(postgres.dsn(database), "test") as connection:
        [(frozen_ms,), (waits_ms,)] = connection.execute(settings, (name,)).fetchall()
    assert 0 < frozen_ms < waits_ms, "it has lost its locks before the other stops waiting for them"

    wanted = f"{postgres.dsn(database)} options='-c {name}=200ms'"  # a setting of the user's stays
    postgres.query("CREATE TABLE plain (n int, text text)", database=database)
    frozen, successor = (opened(Postgres(wanted, "plain", atomic=True)) for _ in range(2))
    made = frozen.prepare(PlainFrame([(1, "a"), (2, "b")]), batch_of(0))
    overtaken = []

    def freeze(moment: str) -> None:
        if not overtaken:
            overtaken.append(moment)
            successor.commit(made, permit())

    with at_moments(freeze, ["rekindle.sinks.postgres.committing.note_commit"]):
        frozen.commit(made, permit())
    assert overtaken
    assert sorted(postgres.psql("SELECT n, text FROM plain", database)) == [["1", "a"], ["2", "b"]]


def test_a_server_that_stays_away_is_a_clear_error_and_a_later_commit_succeeds(
    spark: SparkSession, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.sinks.postgres.database.ATTEMPTS", 2)
    sink = opened(Postgres(postgres.dsn(database), "away"))
    made = sink.prepare(spark.range(3), batch_of(0))
    postgres.stop()
    try:
        with pytest.raises(SinkError, match=r"Connection refused|closed the connection") as error:
            sink.commit(made, permit())
    finally:
        postgres.start()
    assert error.value.code == "SINK_SERVER_FAILED"
    sink.commit(made, permit())
    assert postgres.psql("SELECT count(*) FROM away", database) == [["3"]]


def test_a_server_that_the_network_has_lost_is_not_waited_for_without_end_unless_the_user_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert patience("host=db")["connect_timeout"] == "20"
    assert "tcp_user_timeout" in patience("postgresql://db/shop?connect_timeout=5")
    assert "connect_timeout" not in patience("postgresql://db/shop?connect_timeout=5")
    assert patience("service=shop") == {}
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    assert "connect_timeout" not in patience("host=db")


def test_a_connection_is_tried_again_by_what_the_server_answers_and_not_by_its_words(
    postgres: PostgresServer,
) -> None:
    here, asked = (_may_connect(postgres.dsn("no_such_database"), ping_s=60) for _ in range(2))
    with pytest.raises(psycopg.OperationalError, match="no_such_database") as refused:
        connect(postgres.dsn("no_such_database"), "a test")
    assert refused.value.sqlstate is None, "or its class could be asked"
    assert [here(refused.value) for _ in range(4)] == [True, True, False, False], "it is there, and has its reasons"
    here_too = FinishedPGconn(host=b"127.0.0.1", port=str(postgres.port).encode())
    without = psycopg.OperationalError("x", pgconn=here_too)
    assert [asked(without) for _ in range(4)] == [True, True, False, False], "it answers where it asks for no password"

    (free,) = free_ports(1)
    nowhere = f"host=127.0.0.1 port={free} dbname=x user=x"
    with pytest.raises(psycopg.OperationalError) as away:
        psycopg.connect(nowhere)
    worded = psycopg.OperationalError("FATAL: the role does not exist: authentication failed", pgconn=away.value.pgconn)
    unknown = psycopg.OperationalError("FATAL: the role does not exist: authentication failed")
    may_connect = _may_connect(nowhere)
    assert [may_connect(error) for error in (worded, unknown) * 5] == [True] * 10

    pauses = [min(5.0, 0.1 * 2**tried) for tried in range(ATTEMPTS - 1)]  # stamina's shortest
    assert sum(pauses) >= PATIENCE_S, "a server whose port is closed is waited for as long as the pages say"

    assert not _may_pass(psycopg.errors.InvalidPassword("x")), "SQLSTATE 28P01"
    assert _may_pass(psycopg.errors.AdminShutdown("database x does not exist")), "SQLSTATE 57P01"
    assert not _may_pass(psycopg.errors.UniqueViolation("x"))
