"""A table of PostgreSQL goes back by the column with the numbers of checkpoints, on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rekindle.errors import DefinitionError, SinkError
from rekindle.sinks import Postgres
from rekindle.sinks.owners import Claim
from rekindle.sinks.two_phase import Committable, TwoPhaseSink
from rekindle.testing.effects import at_moments
from rekindle.testing.sink_under_test import batch_of, permit
from tests.jobs.kit import until
from tests.servers.postgres import PostgresServer
from tests.sinks import test_postgres, test_rewinding
from tests.sinks.plain_frames import PlainFrame

COLUMN = 'check"point 100%'


def claimed(sink: Postgres, name: str = "out") -> Postgres:
    """As a start has it."""
    sink.open("job-1234", name)
    sink.claim(Claim(owner="job-1234", sink=name, storage="here", now_ms=0, shared=True))
    return sink


@pytest.mark.slow
class TestNumbered(test_postgres.PostgresContract):
    """It holds the contract, as the sinks without such a column do."""

    def make(self, target: str) -> Postgres:
        return Postgres(self.server.dsn(target), self.table, checkpoint_column=COLUMN)


class TestRewound(test_rewinding.Rewinding):
    effects = (
        "psycopg.Connection.execute",
        "psycopg.Transaction.__exit__",
    )
    table = test_postgres.PostgresContract.table
    definition = None
    make = TestNumbered.make
    target = test_postgres.PostgresContract.target
    visible = test_postgres.PostgresContract.visible
    staged = test_postgres.PostgresContract.staged

    def opened(self, job: str = "job-1234", sink: str = "out") -> TwoPhaseSink:
        opened = super().opened(job, sink)
        opened.claim(Claim(owner=job, sink=sink, storage="here", now_ms=0))
        return opened


class Database:
    """A database with the sinks of one job."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name

    def sink(self, table: str | tuple[str, str] = "t", *, uid: str = "out", **options: Any) -> Postgres:
        return claimed(Postgres(self.server.dsn(self.name), table, **{"checkpoint_column": "rk", **options}), uid)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.query(statement, (), self.name)

    def committed(self, sink: Postgres, *numbers: int, uid: str = "out") -> dict[int, Sequence[Committable]]:
        """Checkpoints with a row each."""
        commits = {number: self.prepared(sink, number, uid=uid) for number in numbers}
        for number, made in commits.items():
            sink.commit(made, permit(number))
        return commits

    def prepared(self, sink: Postgres, number: int, *, uid: str = "out", attempt: str = "aa") -> Sequence[Committable]:
        frame: Any = PlainFrame([(number, uid)])
        return sink.prepare(frame, batch_of(number, sink=uid, attempt=attempt))


@pytest.fixture
def shop(postgres: PostgresServer, database: str) -> Database:
    return Database(postgres, database)


def test_rows_of_others_stay_and_no_two_sinks_share_a_column(shop: Database) -> None:
    shop.query("CREATE TABLE t (n int UNIQUE, text text, rk int8, rk2 int8)")
    one, two = shop.sink(), shop.sink(uid="two", checkpoint_column="rk2")
    commits = shop.committed(one, 1, 2, 3)
    shop.committed(two, 12, 13, uid="two")
    shop.query("INSERT INTO t VALUES (0, 'theirs')")
    assert shop.query("SELECT n, rk, rk2 FROM t ORDER BY n") == [
        (0, None, None), (1, 1, None), (2, 2, None), (3, 3, None), (12, None, 12), (13, None, 13),
    ]  # fmt: skip
    two.rewind(0, {})
    one.rewind(1, {number: commits[number] for number in (2, 3)})
    assert shop.query("SELECT n FROM t ORDER BY n") == [(0,), (1,), (12,), (13,)]
    with pytest.raises(SinkError, match=r"column 'rk' belongs to job-1234/out: choose another") as refused:
        shop.sink(uid="three")
    assert refused.value.code == "SINK_TARGET_INVALID"
    made = shop.prepared(one, 2, attempt="bb")
    one.commit(made, permit(4))
    assert shop.query("SELECT n, rk FROM t WHERE n = 2") == [(2, 4)]


def test_names_are_quoted_and_a_unique_index_over_some_rows_is_free_again(shop: Database) -> None:
    quoted = '"100%% ""schema"."t.%%s"'
    shop.query(f"""CREATE SCHEMA "100%% ""schema"; CREATE TABLE {quoted} (n int, text text, "check""point 100%%" int8);
        CREATE UNIQUE INDEX ON {quoted} (n) WHERE text = 'out'""")
    sink = shop.sink(('100% "schema', "t.%s"), checkpoint_column=COLUMN)
    commits = shop.committed(sink, 7)
    sink.rewind(6, commits)
    sink.commit(sink.prepare(PlainFrame([(7, "out")]), batch_of(8)), permit(8))
    assert shop.query(f"SELECT * FROM {quoted}") == [(7, "out", 8)]


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("", r"no column 'rk' for the number of the checkpoint: ALTER TABLE public.t ADD COLUMN \"rk\" bigint"),
        (", rk text", "column 'rk' is text, and numbers of checkpoints take bigint"),
        (", rk int", "column 'rk' is int4, and numbers of checkpoints take bigint"),
        (", rk int8 DEFAULT 7", "column 'rk' has a default, so rows of others would have numbers of checkpoints"),
        (", rk int8 GENERATED BY DEFAULT AS IDENTITY", "column 'rk' has a default"),
    ],
)
def test_a_column_that_others_fill_or_that_takes_no_numbers_is_refused(
    shop: Database, definition: str, reason: str
) -> None:
    shop.query(f"CREATE TABLE t (n int, text text{definition})")
    with pytest.raises(SinkError, match=reason) as refused:
        shop.sink()
    assert refused.value.code == "SINK_TARGET_INVALID"


def test_a_column_with_values_of_others_is_not_taken(shop: Database) -> None:
    shop.query("CREATE TABLE t (n int, text text, rk int8); INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', 2)")
    for _ in range(2):
        with pytest.raises(SinkError, match="column 'rk' has values that this sink has not written"):
            shop.sink()
    shop.query("UPDATE t SET rk = NULL")
    shop.committed(shop.sink(), 1)
    shop.sink()
    assert shop.query("SELECT n FROM t WHERE rk = 1") == [(1,)]


def test_nothing_is_deleted_by_a_column_that_was_given_to_another(shop: Database) -> None:
    sink = shop.sink()
    commits = shop.committed(sink, 1)
    shop.query("UPDATE rekindle_commits SET owner = 'other-job/out' WHERE starts_with(name, 'checkpoint column')")
    with pytest.raises(SinkError, match=r"SINK_REWIND_FAILED.*'rk' belongs to other-job/out"):
        sink.rewind(0, commits)
    assert shop.query("SELECT n FROM t") == [(1,)]


def test_rows_with_a_column_of_that_name_do_not_fit(shop: Database) -> None:
    with pytest.raises(SinkError, match="they have a column 'text', which is the checkpoint_column") as refused:
        shop.prepared(shop.sink(checkpoint_column="text"), 1)
    assert refused.value.code == "SINK_SCHEMA_MISMATCH"


def test_what_was_written_without_the_column_or_elsewhere_is_not_taken_back_and_nothing_else_is(
    shop: Database,
) -> None:
    shop.query("CREATE TABLE t (n int, text text, rk int8); CREATE TABLE u (n int, text text, rk int8)")
    plain = shop.committed(shop.sink(checkpoint_column=None), 1)
    elsewhere = shop.committed(shop.sink("u"), 2)
    numbered = shop.committed(shop.sink(), 3)
    for earlier, reason in ((plain, "checkpoint 1 were written without"), (elsewhere, "2 wrote to public.u, and the")):
        with pytest.raises(SinkError, match=f"SINK_REWIND_FAILED.*{reason}"):
            shop.sink().rewind(0, {**earlier, **numbered})
    assert shop.query("SELECT n FROM t UNION SELECT n FROM u ORDER BY n") == [(1,), (2,), (3,)]
    assert shop.query("SELECT count(*) FROM rekindle_commits WHERE starts_with(name, 'rekindle:')") == [(3,)]


def test_what_was_prepared_with_the_column_has_its_number_even_if_the_job_has_none_by_now(shop: Database) -> None:
    made = shop.prepared(shop.sink(), 1)
    shop.sink(checkpoint_column=None).commit(made, permit(5))
    assert shop.query("SELECT n, rk FROM t") == [(1, 5)]


def test_a_delete_that_the_server_refuses_takes_nothing_back(shop: Database) -> None:
    sink = shop.sink()
    commits = shop.committed(sink, 1, 2)
    left = shop.prepared(sink, 3)
    shop.query(
        "ALTER TABLE t ADD UNIQUE (n); CREATE TABLE child (n int REFERENCES t (n)); INSERT INTO child VALUES (2)"
    )
    with pytest.raises(SinkError, match=r"SINK_REWIND_FAILED.*violates foreign key constraint"):
        sink.rewind(0, {**commits, 3: left})
    assert shop.query("SELECT n FROM t ORDER BY n") == [(1,), (2,)]
    sink.commit(left, permit(3))
    assert shop.query("SELECT n FROM t ORDER BY n") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("moment", ["_move/before", "_insert/after", "note_commit/after", "_move/after"])
def test_a_driver_that_is_paused_in_its_commit_and_wakes_after_a_rewind_leaves_nothing(
    shop: Database, moment: str
) -> None:
    paused, successor = shop.sink(), shop.sink()
    commits = {2: shop.prepared(paused, 2)}
    effects = [f"rekindle.sinks.postgres.committing.{name}" for name in ("Committing._move", "Committing._insert")]
    with ThreadPoolExecutor(1) as pool:
        rewinding = []

        def pause(at: str) -> None:
            if at.endswith(moment) and not rewinding:
                rewinding.append(pool.submit(successor.rewind, 1, commits))
                waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                until(lambda: rewinding[0].done() or bool(shop.query(waits)))

        with at_moments(pause, [*effects, "rekindle.sinks.postgres.committing.note_commit"]):
            paused.commit(commits[2], permit(2))
        rewinding[0].result()
    assert shop.query("SELECT n FROM t") == []
    paused.commit(commits[2], permit(2))
    assert shop.query("SELECT n FROM t") == []


@pytest.mark.parametrize(
    "moment", ["CheckpointColumn.delete/after", "PostgresAttempts.drop/before", "PostgresAttempts.drop/after"]
)
def test_a_driver_that_wakes_in_the_middle_of_a_rewind_commits_nothing(shop: Database, moment: str) -> None:
    woken, successor = shop.sink(), shop.sink()
    commits = {number: shop.prepared(woken, number) for number in (2, 3)}
    with ThreadPoolExecutor(1) as pool:
        late = []

        def wake(at: str) -> None:
            if at.endswith(moment) and not late:
                late.append(pool.submit(woken.commit, commits[3], permit(3)))
                waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
                until(lambda: late[0].done() or bool(shop.query(waits)))

        column = "rekindle.sinks.postgres.checkpoint_column.CheckpointColumn.delete"
        with at_moments(wake, [column, "rekindle.sinks.postgres.attempts.PostgresAttempts.drop"]):
            successor.rewind(1, commits)
        late[0].result()
    assert shop.query("SELECT n FROM t") == []


def test_a_table_that_is_gone_goes_back_to_nothing(shop: Database) -> None:
    sink = shop.sink()
    commits = shop.committed(sink, 1)
    shop.query("DROP TABLE t")
    sink.rewind(0, commits)
    shop.committed(sink, 2)
    assert shop.query("SELECT n, rk FROM t") == [(2, 2)]


def test_a_sink_says_why_it_cannot_go_back_and_an_upsert_takes_no_column() -> None:
    assert Postgres("", "t", checkpoint_column="rk").cannot_rewind is None
    assert "checkpoint_column=" in (Postgres("", "t").cannot_rewind or "")
    assert "mode='append'" in (Postgres("", "t", mode="upsert", key="n").cannot_rewind or "")
    with pytest.raises(DefinitionError, match="goes with mode='append'"):
        Postgres("", "t", mode="upsert", key="n", checkpoint_column="rk")
    with pytest.raises(DefinitionError, match="names a column"):
        Postgres("", "t", checkpoint_column="")
