"""Rows that the table would refuse when they are committed are refused when they are staged: no commit has to fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from rekindle.errors import SinkError
from rekindle.sinks import Postgres
from rekindle.sinks.two_phase import Committable
from rekindle.testing.sink_contract import Row, batch_of, permit
from tests.servers.postgres import PostgresServer
from tests.sinks.plain_frames import PlainFrame


def staged(server: PostgresServer, database: str, rows: Sequence[Row], **options: Any) -> tuple[Postgres, Committable]:
    sink = Postgres(server.dsn(database), "t", **options)
    sink.open("job-1234", "out")
    [made] = sink.prepare(PlainFrame(rows), batch_of(0))  # type: ignore[arg-type]
    assert made["staged"] and not made["prepared"]
    return sink, made


ATOMIC: dict[str, Any] = {"atomic": True}
UPSERT: dict[str, Any] = {"mode": "upsert", "key": "text"}


@pytest.mark.parametrize(
    ("definition", "options", "reason"),
    [
        ("n int, text text NOT NULL", ATOMIC, 'null value in column "text"'),
        ("n int, text text", UPSERT, 'null value in column "text"'),
        ('n int, text text, CONSTRAINT "50%% ""x" CHECK (n > 5)', ATOMIC, 'violates check constraint "50% "x"'),
        ("n int, text text GENERATED ALWAYS AS ('x') STORED", ATOMIC, "column 'text' is GENERATED ALWAYS"),
        ("n int GENERATED ALWAYS AS IDENTITY, text text", UPSERT, "column 'n' is GENERATED ALWAYS AS IDENTITY"),
    ],
)
def test_a_batch_that_could_not_be_committed_fails(
    postgres: PostgresServer, database: str, definition: str, options: dict[str, Any], reason: str
) -> None:
    postgres.query(f"CREATE TABLE t ({definition}); CREATE UNIQUE INDEX ON t (text)", (), database)
    with pytest.raises((SinkError, RuntimeError), match=reason):
        staged(postgres, database, [(1, None)], **options)
    assert not postgres.query("SELECT 1 FROM pg_class WHERE relname ~ '^rekindle_[0-9a-f]+$'", (), database)


def test_the_table_of_commits_is_made_again_where_someone_has_dropped_it(
    postgres: PostgresServer, database: str
) -> None:
    sink, made = staged(postgres, database, [(1, "a")], **ATOMIC)
    postgres.query("DROP TABLE rekindle_commits", (), database)
    sink.commit([made], permit(1))
    postgres.query("DROP TABLE rekindle_commits", (), database)
    with pytest.raises(SinkError, match="SINK_STAGING_LOST"):
        sink.commit([made], permit(1))  # what it had noted is gone, and no row comes twice
    sink.commit(sink.prepare(PlainFrame([(2, "b")]), batch_of(1)), permit(2))  # type: ignore[arg-type]
    assert postgres.query("SELECT n FROM t ORDER BY n", (), database) == [(1,), (2,)]


def test_the_table_that_an_upsert_has_made_is_not_given_a_row_without_a_key(
    postgres: PostgresServer, database: str
) -> None:
    sink, made = staged(postgres, database, [(1, "a")], **UPSERT)
    sink.commit([made], permit(1))
    with pytest.raises(RuntimeError, match='null value in column "text"'):
        staged(postgres, database, [(1, None)], **UPSERT)


@pytest.mark.parametrize(
    ("definition", "options", "expected"),
    [
        ("n int GENERATED ALWAYS AS IDENTITY, text text", ATOMIC, [(7, None)]),
        ("n int, text text, UNIQUE NULLS NOT DISTINCT (text)", UPSERT, [(7, None)]),
        ("n int, text text, made int NOT NULL DEFAULT 3 CHECK (made > 2 AND n > 0)", ATOMIC, [(7, None, 3)]),
        ("n int, text text NOT NULL CHECK (text > 'a')", ATOMIC, [(7, "b")]),
    ],
)
def test_a_batch_that_can_be_committed_is_not_refused(
    postgres: PostgresServer, database: str, definition: str, options: dict[str, Any], expected: list[Any]
) -> None:
    [(version,)] = postgres.query("SELECT current_setting('server_version_num')::int")
    if "NULLS NOT DISTINCT" in definition and version < 150000:
        pytest.skip("PostgreSQL 15 brought it")
    postgres.query(f"CREATE TABLE t ({definition})", (), database)
    if expected[0][1] == "b":
        edit = "CREATE FUNCTION b() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.text = 'b'; RETURN NEW; END$$;"
        postgres.query(f"{edit} CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION b()", (), database)
    sink, made = staged(postgres, database, [(7, None)], **options)
    sink.commit([made], permit(1))
    sink.commit([made], permit(1))
    assert postgres.query("SELECT * FROM t", (), database) == expected


@pytest.fixture
def lacking(postgres: PostgresServer, database: str) -> Iterator[str]:
    """A user without rights, and a table `t` with its table of commits."""
    postgres.query("CREATE TABLE t (n int, text text)", (), database)
    Postgres(postgres.dsn(database), "t").open("job-1234", "out")
    postgres.query("CREATE ROLE lacking")
    yield postgres.dsn(database, options="-c role=lacking")
    postgres.query("DROP OWNED BY lacking; DROP ROLE lacking", (), database)


@pytest.mark.parametrize(
    ("granted", "options", "missing"),
    [
        (["INSERT ON t", "SELECT, INSERT ON rekindle_commits"], {}, 'GRANT DELETE ON "public"."rekindle_commits"'),
        (["SELECT ON t", "DELETE ON rekindle_commits"], {}, 'GRANT SELECT, INSERT ON .*; GRANT INSERT ON "public"."t"'),
        (["INSERT ON t", "ALL ON rekindle_commits"], ATOMIC, 'GRANT CREATE ON SCHEMA "public"'),
    ],
)
def test_a_user_who_lacks_rights_is_refused_before_anything_runs(
    postgres: PostgresServer,
    database: str,
    lacking: str,
    granted: Sequence[str],
    options: dict[str, Any],
    missing: str,
) -> None:
    sink = Postgres(lacking, "t", **options)
    for right in granted:
        postgres.query(f"GRANT {right} TO lacking", (), database)
    with pytest.raises(SinkError, match=f'lacks rights: {missing} TO "lacking"') as error:
        sink.open("job-1234", "out")
    assert error.value.code == "SINK_TARGET_INVALID"
    for right in ("INSERT (n, text) ON t", "SELECT, INSERT, DELETE ON rekindle_commits", "CREATE ON SCHEMA public"):
        postgres.query(f"GRANT {right} TO lacking", (), database)
    sink.open("job-1234", "out")


def test_a_commit_that_may_not_forget_old_names_any_more_is_a_commit(
    postgres: PostgresServer, database: str, lacking: str
) -> None:
    postgres.query("GRANT ALL ON t, rekindle_commits TO lacking", (), database)
    sink = Postgres(lacking, "t")
    sink.open("job-1234", "out")
    postgres.query("REVOKE DELETE ON rekindle_commits FROM lacking", (), database)
    made = sink.prepare(PlainFrame([(7, "a")]), batch_of(0))  # type: ignore[arg-type]
    sink.commit(made, permit(1))
    assert postgres.query("SELECT * FROM t", (), database) == [(7, "a")]
