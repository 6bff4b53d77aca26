"""A table that grows is read by a column that rises: each row once, whoever commits when."""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as T

from rekindle.errors import DefinitionError, InputError
from rekindle.sources import Jdbc
from rekindle.sources.jdbc.settling import Candidate
from rekindle.sources.jdbc.values import Family, Value
from tests.servers.kafka import jars
from tests.servers.postgres import PASSWORD, USER, PostgresServer
from tests.waiting import until

_NAMES = count()


class Direct:
    """Stands in for Spark where nothing hangs on it: the same questions, asked without a JVM."""

    class _Frame:
        def __init__(self, options: dict[str, str]) -> None:
            self._options = options

        def _asked(self) -> tuple[list[str], list[Row]]:
            host, database = self._options["url"].removeprefix("jdbc:postgresql://").split("/")
            name, port = host.split(":")
            user, password = self._options["user"], self._options["password"]
            connection = psycopg.connect(host=name, port=port, dbname=database, user=user, password=password)
            with closing(connection):
                cursor = connection.execute(f"SELECT * FROM {self._options['dbtable']}")
                names = [column.name for column in cursor.description or ()]
                return names, [Row(**dict(zip(names, row, strict=True))) for row in cursor]

        def collect(self) -> list[Row]:
            return self._asked()[1]

        def first(self) -> Row | None:
            return next(iter(self.collect()), None)

        @property
        def schema(self) -> T.StructType:
            return T.StructType([T.StructField(name, T.NullType()) for name in self._asked()[0]])

    def __init__(self) -> None:
        self.read = self

    def format(self, name: str) -> Direct:
        assert name == "jdbc"
        return self

    def options(self, **options: str) -> Direct:
        self._options = options
        return self

    def load(self) -> Direct._Frame:
        return self._Frame(self._options)


class Shop:
    """A database of one test, and a source of it."""

    def __init__(self, server: PostgresServer, spark: Any) -> None:
        self.server, self.spark = server, spark
        self.database = f"shop{next(_NAMES)}"
        server.query(f"CREATE DATABASE {self.database}")

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.server.query(statement, parameters, self.database)

    def make(self, table: str | tuple[str, str] | None = "orders", *, column: str = "id", **more: Any) -> Jdbc:
        url = f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.database}"
        return Jdbc(url, table, column=column, options={"user": USER, "password": PASSWORD}, **more)

    @contextmanager
    def transaction(self) -> Iterator[Callable[[str], Any]]:
        """A transaction that is open until the block ends, unless it says otherwise."""
        with psycopg.connect(self.server.dsn(self.database), autocommit=False) as connection:
            yield connection.execute


class Reading:
    """Reads a source as a job does: one read after the other, each from where the last one led to."""

    def __init__(self, spark: Any, source: Jdbc, position: Any = None) -> None:
        self._spark, self._source = spark, source
        self.position = position
        self.rows: list[Any] = []
        self.batches: list[int] = []
        self.ended = False

    def once(self) -> int:
        """Read once; return how many rows came."""
        frame, self.position, self.ended = self._source.read(self._spark, "table", self.position)
        found = [] if frame is None else frame.collect()
        self.rows += found
        self.batches += [len(found)] if found else []
        return len(found)

    def all(self) -> list[Any]:
        """Read until nothing comes twice: what ends as the server answers is waited for until the next look."""
        nothing = 0
        while nothing < 2 and not self.ended:
            nothing = 0 if self.once() else nothing + 1
        return self.rows


@pytest.fixture
def shop(postgres: PostgresServer) -> Shop:
    return Shop(postgres, Direct())


@pytest.fixture
def shop_of_spark(postgres: PostgresServer, spark: SparkSession) -> Shop:
    if not jars("spark-postgres"):
        pytest.skip("no JDBC driver of PostgreSQL for Spark: `make setup` tries to fetch it")
    return Shop(postgres, spark)


@pytest.fixture
def orders(shop: Shop) -> Shop:
    shop.sql("CREATE TABLE orders (id bigserial PRIMARY KEY, item text)")
    return shop


def items(reading: Reading) -> list[str]:
    return sorted(row.item for row in reading.all())


def add(shop: Shop, *items: str) -> None:
    for item in items:
        shop.sql("INSERT INTO orders (item) VALUES (%s)", item)


def test_what_comes_later_is_read_on_from_there_and_an_empty_table_has_nothing(orders: Shop) -> None:
    reading = Reading(orders.spark, orders.make(rows_per_read=2))
    assert reading.all() == []
    add(orders, "a", "b", "c")
    reading.all()
    assert ([row.item for row in reading.rows], reading.batches) == (["a", "b", "c"], [2, 1])
    add(orders, "d")
    again = Reading(orders.spark, orders.make(), reading.position)
    assert [row.item for row in again.all()] == ["d"]
    assert again.all() == again.rows


def test_a_row_whose_transaction_commits_later_is_not_lost(orders: Shop) -> None:
    reading = Reading(orders.spark, orders.make())
    with orders.transaction() as late:
        late("INSERT INTO orders (item) VALUES ('late')")
        add(orders, "quick")
        assert reading.all() == []
        # Those that begin after the look are not waited for.
        with orders.transaction() as later:
            later("INSERT INTO orders (item) VALUES ('later')")
            late("COMMIT")
            assert items(reading) == ["late", "quick"]
            later("COMMIT")
    assert items(reading) == ["late", "later", "quick"]


def test_a_number_that_was_drawn_and_not_yet_written_is_waited_for(orders: Shop) -> None:
    reading = Reading(orders.spark, orders.make())
    with orders.transaction() as late:
        number = late("SELECT nextval('orders_id_seq')").fetchone()[0]
        add(orders, "quick")
        assert reading.all() == []
        late(f"INSERT INTO orders VALUES ({number}, 'late')")
        late("COMMIT")
    assert items(reading) == ["late", "quick"]


@pytest.mark.parametrize("column", ["id", "at"])
def test_a_transaction_that_is_prepared_meanwhile_is_waited_for(orders: Shop, column: str) -> None:
    orders.sql("ALTER TABLE orders ADD COLUMN at timestamptz NOT NULL DEFAULT now()")
    reading = Reading(orders.spark, orders.make(column=column))
    with orders.transaction() as late:
        late("INSERT INTO orders (item) VALUES ('late')")
        add(orders, "quick")
        assert reading.all() == []
        late("PREPARE TRANSACTION 'of the test'")
    assert reading.all() == []
    orders.sql("COMMIT PREPARED 'of the test'")
    assert items(reading) == ["late", "quick"]


def test_who_only_reads_holds_up_an_id_not_and_a_time_for_as_long_as_it_may_still_write(orders: Shop) -> None:
    orders.sql("ALTER TABLE orders ADD COLUMN at timestamptz NOT NULL DEFAULT now()")
    by_id, by_time = Reading(orders.spark, orders.make()), Reading(orders.spark, orders.make(column="at"))
    with orders.transaction() as late:
        late("SELECT 1")
        add(orders, "quick")
        assert [row.item for row in by_id.all()] == ["quick"]
        assert by_time.all() == []
        late("INSERT INTO orders (item) VALUES ('late')")  # with the time at which it began
        late("COMMIT")
    assert sorted(row.item for row in by_time.all()) == ["late", "quick"]


def test_transactions_of_other_databases_are_not_waited_for(orders: Shop) -> None:
    other = Shop(orders.server, orders.spark)
    other.sql("CREATE TABLE t (n int)")
    orders.sql("ALTER TABLE orders ADD COLUMN at timestamptz NOT NULL DEFAULT now()")
    with other.transaction() as elsewhere:
        elsewhere("INSERT INTO t VALUES (1)")
        add(orders, "a")
        assert len(Reading(orders.spark, orders.make()).all()) == 1
        assert len(Reading(orders.spark, orders.make(column="at")).all()) == 1


def test_a_user_without_rights_but_to_read_sees_whom_to_wait_for(orders: Shop) -> None:
    orders.sql("DROP ROLE IF EXISTS reader")
    orders.sql("CREATE ROLE reader LOGIN PASSWORD 'secret word'")
    orders.sql("GRANT SELECT ON orders TO reader")
    orders.sql("ALTER TABLE orders ADD COLUMN at timestamptz NOT NULL DEFAULT now()")
    url = f"jdbc:postgresql://127.0.0.1:{orders.server.port}/{orders.database}"
    sources = [
        Jdbc(url, "orders", column=column, options=lambda: {"user": "reader", "password": "secret word"})
        for column in ("id", "at")
    ]
    with orders.transaction() as late:
        late("INSERT INTO orders (item) VALUES ('late')")
        add(orders, "quick")
        assert [Reading(orders.spark, source).all() for source in sources] == [[], []]
    assert [len(Reading(orders.spark, source).all()) for source in sources] == [2, 2]
    orders.sql("REVOKE ALL ON orders FROM reader")


@pytest.mark.parametrize("seed", range(2))
def test_each_row_is_read_once_in_any_order_of_commits(orders: Shop, seed: int) -> None:
    chance = random.Random(seed)
    reading = Reading(orders.spark, orders.make(rows_per_read=chance.randint(1, 4)))
    dsn = orders.server.dsn(orders.database)
    writers = [psycopg.connect(dsn) for _ in range(3)]
    for step in range(25):
        doing = chance.choice(["write", "write", "commit", "read"])
        writer = chance.choice(writers)
        if doing == "write":
            writer.execute("INSERT INTO orders (item) VALUES (%s)", (str(step),))
        elif doing == "commit":
            chance.choice([writer.commit, writer.commit, writer.rollback])()
        else:
            reading.once()
    for writer in writers:
        writer.commit()
        writer.close()
    while reading.once() or reading.once():
        pass
    assert Counter(row.id for row in reading.rows) == Counter(
        number for (number,) in orders.sql("SELECT id FROM orders")
    )


VALUES = {
    "smallint": ["-3", "7", "8"],
    "integer": ["-3", "7", "2147483647"],
    "bigint": ["-3", "7", "9007199254740993"],
    "numeric": ["-0.1", "0.30000000000000000001", "12345678901234567890.5"],
    "timestamp": ["1890-01-01 00:00:00", "2025-03-30 02:30:00.000001", "2025-10-26 02:30:00.000002"],
    "timestamptz": ["1890-01-01 00:00:00+00", "2025-03-30 00:30:00.000001+00", "2025-10-26 00:30:00.000002+00"],
    "date": ["1582-10-10", "2025-03-30", "9999-12-31"],
    "text": ["", "a'; DROP TABLE t; --", "b\\' ? {fn x} \u00fc"],
    "varchar(20)": ["A", "a", "\u00e4"],
    "uuid": [
        "00000000-0000-0000-0000-000000000001",
        "0190163d-8694-739b-aea5-966c26f8ad91",
        "ffffffff-0000-0000-0000-000000000000",
    ],
}


def test_a_column_of_each_type_is_read_row_by_row_and_a_row_is_no_boundary_twice(shop: Shop) -> None:
    columns = ", ".join(f'"It\'s {kind}" {kind} NOT NULL' for kind in VALUES)
    shop.sql(f'CREATE TABLE "Odd. t" (n serial, {columns})')
    for values in zip(*VALUES.values(), strict=True):
        shop.sql(f'INSERT INTO "Odd. t" VALUES (DEFAULT, {", ".join(["%s"] * len(values))})', *values)
    for kind in VALUES:
        source = shop.make(("public", "Odd. t"), column=f"It's {kind}", rows_per_read=1, partitions=2)
        reading = Reading(shop.spark, source)
        # A read finds nothing as long as anyone on this server may bring a smaller value.
        until(lambda reading=reading: reading.once() == 0 and len(reading.rows) >= 3)
        assert [row.n for row in reading.rows] == [1, 2, 3], kind
        assert reading.batches == [1, 1, 1], kind


def test_a_time_is_the_same_whatever_the_zones_of_spark_and_of_the_server(shop_of_spark: Shop) -> None:
    shop = shop_of_spark
    shop.sql(f"ALTER DATABASE {shop.database} SET timezone = 'America/New_York'")
    shop.sql("CREATE TABLE t (n serial, at timestamptz NOT NULL, wall timestamp NOT NULL)")
    before = shop.spark.conf.get("spark.sql.session.timeZone")
    try:
        for column in ("at", "wall"):
            shop.sql("TRUNCATE t")
            reading = Reading(shop.spark, shop.make("t", column=column, rows_per_read=3, partitions=3))
            for hour, zone in enumerate(["Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin"]):
                shop.spark.conf.set("spark.sql.session.timeZone", zone)
                for minute in range(4):
                    time = f"2025-03-30 0{hour + 1}:{minute:02}:00"
                    shop.sql("INSERT INTO t (at, wall) VALUES (%s, %s)", time, time)
                reading.all()
            assert [row.n for row in sorted(reading.rows, key=lambda row: row.n)] == [
                row[0] for row in shop.sql("SELECT n FROM t ORDER BY n")
            ]
    finally:
        shop.spark.conf.set("spark.sql.session.timeZone", before)


def test_rows_with_one_value_are_in_one_read(shop: Shop) -> None:
    shop.sql("CREATE TABLE t (n serial, at timestamp NOT NULL)")
    shop.sql(
        "INSERT INTO t (at) SELECT timestamp '2025-01-01' + (i / 3) * interval '1 second' FROM generate_series(0, 8) i"
    )
    reading = Reading(shop.spark, shop.make("t", column="at", rows_per_read=2))
    assert sorted(row.n for row in reading.all()) == [*range(1, 10)]
    assert reading.batches == [3, 3, 3]


def test_a_row_that_is_changed_is_read_again_as_it_is_and_deletions_are_not_seen(shop: Shop) -> None:
    shop.sql("CREATE TABLE t (k text, v int, at timestamptz NOT NULL DEFAULT clock_timestamp())")
    shop.sql("INSERT INTO t VALUES ('a', 1), ('b', 1), ('c', 1)")
    reading = Reading(shop.spark, shop.make("t", column="at"))
    reading.all()
    shop.sql("UPDATE t SET v = 2, at = clock_timestamp() WHERE k = 'a'")
    shop.sql("DELETE FROM t WHERE k = 'b'")
    reading.all()
    assert sorted((row.k, row.v) for row in reading.rows) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


def test_a_bounded_source_ends_at_what_was_there_also_after_a_restart(orders: Shop) -> None:
    add(orders, "a", "b", "c")
    reading = Reading(orders.spark, orders.make(bounded=True, rows_per_read=2))
    reading.once()
    add(orders, "d")
    again = Reading(orders.spark, orders.make(bounded=True, rows_per_read=2), reading.position)
    again.all()
    assert [row.item for row in (*reading.rows, *again.rows)] == ["a", "b", "c"]
    assert (reading.ended, again.ended) == (False, True)


def test_a_bounded_source_of_an_empty_table_ends_and_one_that_is_written_to_waits(orders: Shop) -> None:
    empty = Reading(orders.spark, orders.make(bounded=True))
    assert (empty.once(), empty.ended) == (0, True)
    with orders.transaction() as late:
        late("INSERT INTO orders (item) VALUES ('late')")
        add(orders, "quick")
        reading = Reading(orders.spark, orders.make(bounded=True))
        assert (reading.once(), reading.ended) == (0, False)
        late("COMMIT")
    assert (reading.once(), reading.ended) == (2, True)


def test_a_query_gives_the_rows_and_the_column(orders: Shop) -> None:
    add(orders, "a", "b")
    reading = Reading(orders.spark, orders.make(None, query="SELECT id * 10 AS ten, item FROM orders;", column="ten"))
    assert [(row.ten, row.item) for row in reading.all()] == [(10, "a"), (20, "b")]


@pytest.mark.parametrize("bounded", [False, True])
def test_a_history_is_continued_right_after_where_it_ends(orders: Shop, bounded: bool) -> None:
    add(orders, "in the history", "too", "c", "d")
    orders.sql("ALTER TABLE orders ADD COLUMN at timestamptz")
    orders.sql("UPDATE orders SET at = timestamptz '2025-01-01 00:00Z' + id * interval '1 hour'")
    berlin = dt.timezone(dt.timedelta(hours=1))
    meet = {"id": 2, "at": dt.datetime(2025, 1, 1, 3, tzinfo=berlin), "item": "c"}
    for column, after in meet.items():
        source = orders.make(column=column, after=after, bounded=bounded, rows_per_read=1)
        left = ["d", "in the history", "too"] if column == "item" else ["c", "d"]
        assert items(Reading(orders.spark, source)) == left
    assert Reading(orders.spark, orders.make(after=4)).all() == []
    orders.sql("DELETE FROM orders WHERE id > 2")
    reading = Reading(orders.spark, orders.make(after=4))
    assert reading.all() == []
    add(orders, "e")
    assert items(reading) == ["e"]


def test_a_column_that_comes_later_is_left_out_and_one_that_goes_is_named(orders: Shop) -> None:
    add(orders, "a")
    reading = Reading(orders.spark, orders.make())
    reading.all()
    orders.sql("ALTER TABLE orders ADD COLUMN more int DEFAULT 1")
    add(orders, "b")
    assert [row.asDict().keys() for row in reading.all()] == [{"id", "item"}, {"id", "item"}]
    orders.sql("ALTER TABLE orders DROP COLUMN item")
    orders.sql("INSERT INTO orders (more) VALUES (2)")
    with pytest.raises(psycopg.Error, match="item"):
        reading.all()
    orders.sql("DROP TABLE orders")
    with pytest.raises(psycopg.Error, match="orders"):
        reading.all()


_WITHOUT_DEFAULT = "ALTER TABLE orders ALTER id DROP DEFAULT, ALTER id TYPE"

SPOILT = {
    "null in some": "ALTER TABLE orders DROP CONSTRAINT orders_pkey; ALTER TABLE orders ALTER id DROP NOT NULL; "
    "UPDATE orders SET id = NULL",
    "was number": "ALTER TABLE orders ALTER id TYPE text USING 'z' || id",
    "values do not rise": f"{_WITHOUT_DEFAULT} float USING id",
    "after which": f"{_WITHOUT_DEFAULT} numeric; UPDATE orders SET id = 'NaN' WHERE id = 2",
}


@pytest.mark.parametrize("reason", SPOILT)
def test_a_column_that_cannot_say_what_is_new_is_refused(orders: Shop, reason: str) -> None:
    add(orders, "a")
    reading = Reading(orders.spark, orders.make())
    reading.all()
    add(orders, "b")
    orders.sql(SPOILT[reason])
    with pytest.raises(InputError, match=reason) as caught:
        reading.all()
    assert caught.value.code == "JDBC_COLUMN_UNUSABLE"
    assert caught.value.permanent


def test_a_column_may_become_wider(orders: Shop) -> None:
    add(orders, "a")
    reading = Reading(orders.spark, orders.make())
    reading.all()
    orders.sql("ALTER TABLE orders ALTER id TYPE numeric")
    add(orders, "b")
    assert [row.item for row in reading.all()] == ["a", "b"]


@pytest.mark.parametrize("looked_between", [False, True])
def test_a_table_that_begins_again_is_noticed_and_one_whose_newest_rows_go_is_not(
    orders: Shop, looked_between: bool
) -> None:
    add(orders, "a", "b", "c", "d")
    reading = Reading(orders.spark, orders.make())
    reading.all()
    orders.sql("DELETE FROM orders WHERE id > 2")
    reading.all()
    orders.sql("DELETE FROM orders WHERE id > 1")
    reading.all()
    orders.sql("TRUNCATE orders RESTART IDENTITY")
    if looked_between:
        reading.all()
    add(orders, "again")
    if not looked_between:
        reading.all()
        add(orders, "and again")
    with pytest.raises(InputError, match="new rows have values up to"):
        reading.all()


def test_a_lag_lets_values_wait_and_no_transactions(orders: Shop) -> None:
    with orders.transaction() as late:
        late("INSERT INTO orders (item) VALUES ('late')")
        add(orders, "quick")
        assert Reading(orders.spark, orders.make(lag="1 hour")).all() == []
        assert [row.item for row in Reading(orders.spark, orders.make(lag="0 seconds")).all()] == ["quick"]


@pytest.mark.parametrize("lag", [None, "50 ms"])
def test_what_is_there_is_read_once_it_has_settled_and_nothing_after_it_where_a_run_is_of_that(
    orders: Shop, lag: str | None
) -> None:
    source = orders.make(lag=lag, rows_per_read=1)
    source.prepare_for_available_now(orders.spark)
    reading = Reading(orders.spark, source)
    with orders.transaction() as late:
        add(orders, "a", "b")
        late("INSERT INTO orders (item) VALUES ('c')")
        assert reading.once() == 0
        assert not source.has_caught_up("table", reading.position), "rows that are there are to be waited for"
    add(orders, "d")
    until(lambda: reading.once() or source.has_caught_up("table", reading.position))
    assert len(reading.all()) == 2 and items(reading) == ["a", "b"]
    assert source.has_caught_up("table", reading.position)


def test_an_empty_table_has_nothing_to_wait_for(orders: Shop) -> None:
    source = orders.make(lag="1 hour")
    source.prepare_for_available_now(orders.spark)
    reading = Reading(orders.spark, source)
    assert reading.once() == 0 and source.has_caught_up("table", reading.position)


def test_a_replica_is_refused_unless_a_lag_is_said(orders: Shop) -> None:
    add(orders, "a")
    orders.server.stop()
    standby = orders.server._data / "standby.signal"
    standby.touch()
    orders.server.start()
    try:
        with pytest.raises(InputError, match="the server is a replica"):
            Reading(orders.spark, orders.make()).all()
        assert items(Reading(orders.spark, orders.make(lag="0 seconds"))) == ["a"]
    finally:
        orders.server.stop()
        standby.unlink()
        orders.server.start()


def test_a_value_settles_when_its_time_is_up_and_all_that_ran_has_ended() -> None:
    one = Candidate.seen("5", ["3/1", "-1/7"], 100.0, 10.0)
    assert not one.is_settled(999.0)
    one = one.looked(["3/1", "4/1"])
    one = one.looked(["-1/8", "4/2"])
    assert not one.is_settled(999.0), "what was 3/1 may be -1/8 now"
    one = one.looked(["-1/9", "4/2"])
    assert (one.is_settled(109.9), one.is_settled(110.0)) == (False, True)
    assert Candidate.seen("5", [], 0.0, 0.0).is_settled(0.0)


def _in_memory(url: str) -> Callable[[pytest.FixtureRequest], str]:
    return lambda _: url.format(next(_NAMES))


def _of_mariadb(kind: str) -> Callable[[pytest.FixtureRequest], str]:
    def url(request: pytest.FixtureRequest) -> str:
        return f"jdbc:{kind}://127.0.0.1:{request.getfixturevalue('mariadb').port}/test"

    return url


DATABASES = {
    "derby": _in_memory("jdbc:derby:memory:shop{};create=true"),
    "h2": _in_memory("jdbc:h2:mem:shop{};DB_CLOSE_DELAY=-1"),
    "mariadb": _of_mariadb("mariadb"),
    "mysql": _of_mariadb("mysql"),
}
"""Kind of address → the address of a database that a test may fill; MySQL's driver speaks with MariaDB too."""

DRIVERS = {
    "derby": "org.apache.derby.jdbc.EmbeddedDriver",
    "h2": "org.h2.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
}


@pytest.mark.parametrize("kind", ["derby", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*DATABASES][1:])])
def test_other_databases_are_read_with_a_lag(spark: SparkSession, request: pytest.FixtureRequest, kind: str) -> None:
    if kind != "derby" and not jars("spark-jdbc"):
        pytest.skip("no JDBC drivers of other databases for Spark: `make setup` tries to fetch them")
    url, of_mariadb = DATABASES[kind](request), kind in ("mariadb", "mysql")
    options = {"user": "root"} if of_mariadb else {"driver": DRIVERS[kind]} if kind == "h2" else {}
    quote = "`" if of_mariadb else '"'
    t, n, at, day, d, s = (f"{quote}{name}{quote}" for name in ("t", "n", "at", "day", "d", "s"))
    properties = spark._jvm.java.util.Properties()
    for name, value in options.items():
        properties.setProperty(name, value)
    # Not by DriverManager, which does not see a jar of the job.
    connection = getattr(spark._jvm, DRIVERS[kind])().connect(url, properties)
    statement = connection.createStatement()
    time_type = "DATETIME(6)" if of_mariadb else "TIMESTAMP"
    if of_mariadb:
        statement.execute(f"DROP TABLE IF EXISTS {t}")
    statement.execute(f"CREATE TABLE {t} ({n} INT, {at} {time_type}, {day} DATE, {d} DECIMAL(9,2), {s} VARCHAR(9))")

    def fill(first: int) -> None:
        for number in range(first, first + 3):
            time = f"2025-03-30 02:3{number}:00.00000{number}"
            row = f"{number}, '{time}', '2025-03-0{number}', {number}.5, 'it''s {number}'"
            statement.execute(f"INSERT INTO {t} VALUES ({row})")

    fill(1)
    readings = {
        column: Reading(spark, Jdbc(url, "t", column=column, lag="0 seconds", rows_per_read=2, options=options))
        for column in ("n", "at", "day", "d", "s")
    }
    assert {column: [row.n for row in one.all()] for column, one in readings.items()} == {
        column: [1, 2, 3] for column in readings
    }
    fill(4)
    assert {column: [row.n for row in one.all()] for column, one in readings.items()} == {
        column: [1, 2, 3, 4, 5, 6] for column in readings
    }
    statement.execute(f"UPDATE {t} SET {d} = NULL WHERE {n} = 2")
    with pytest.raises(InputError, match="null in some"):
        readings["d"].all()


@pytest.mark.parametrize("rows_per_read", [1, 10])
def test_times_that_are_finer_than_spark_reads_them_are_refused_before_rows_are_lost(
    spark: SparkSession, request: pytest.FixtureRequest, rows_per_read: int
) -> None:
    url = DATABASES["derby"](request)
    connection = getattr(spark._jvm, DRIVERS["derby"])().connect(url, spark._jvm.java.util.Properties())
    statement = connection.createStatement()
    statement.execute('CREATE TABLE "t" ("at" TIMESTAMP)')
    source = Jdbc(url, "t", column="at", lag="0 seconds", rows_per_read=rows_per_read)
    reading = Reading(spark, source)
    statement.execute("INSERT INTO \"t\" VALUES ('2025-01-01 00:00:00.000001'), ('2025-01-01 00:00:00.000002')")
    assert len(reading.all()) == 2
    statement.execute("INSERT INTO \"t\" VALUES ('2025-01-01 00:00:00.000003'), ('2025-01-01 00:00:00.0000031')")
    with pytest.raises(InputError, match="finer than a microsecond"):
        reading.all()


@pytest.mark.parametrize("kind", ["bigint", "numeric", "timestamptz", "timestamp", "uuid"])
def test_spark_reads_what_is_asked_by_several_connections(shop_of_spark: Shop, kind: str) -> None:
    shop_of_spark.sql(f"CREATE TABLE t (n serial, at {kind} NOT NULL)")
    for value in VALUES[kind]:
        shop_of_spark.sql("INSERT INTO t (at) VALUES (%s)", value)
    source = shop_of_spark.make("t", column="at", rows_per_read=2, partitions=2)
    reading = Reading(shop_of_spark.spark, source)
    assert [row.n for row in sorted(reading.all())] == [1, 2, 3]
    assert reading.batches == [2, 1]


class Answering:
    """Stands in for Spark on a server whose answers are known."""

    def __init__(self, *answers: Row | None, of_value: T.DataType | None = None) -> None:
        self.read = self
        self.schema = T.StructType([T.StructField("rk_value", of_value or T.LongType())])
        self._answers = iter(answers)

    def format(self, name: str) -> Answering:
        return self

    def options(self, **options: str) -> Answering:
        self._options = options
        return self

    def load(self) -> Answering:
        return self

    def first(self) -> Row | None:
        assert self._options["preferTimestampNTZ"] == "true"
        return next(self._answers)


ELSEWHERE = "jdbc:sqlserver://host"


def test_a_time_with_a_zone_is_refused_where_the_server_compares_it_in_a_zone_of_its_own() -> None:
    source = Jdbc(ELSEWHERE, "t", column="at", lag="1 second")
    with pytest.raises(InputError, match="time zone") as caught:
        source.read(Answering(Row(rk_value=None), of_value=T.TimestampType()), "table", None)
    assert caught.value.code == "JDBC_COLUMN_UNUSABLE"


@pytest.mark.parametrize("first", [None, 4])
def test_values_may_rise_below_what_the_user_has_said(first: int | None) -> None:
    source = Jdbc(ELSEWHERE, "t", column="id", after=10, lag="0 seconds")
    found = [Row(rk_value=first, rk_is_after=0, rk_rose=1), Row(rk_value=5, rk_is_after=0, rk_rose=1)]
    spark = Answering(found[0], None, found[1], None)  # and no row is null
    assert source.read(spark, "table", None) == (None, None, False)
    assert source.read(spark, "table", None) == (None, None, False)


def test_once_a_column_has_changed_the_next_start_in_the_same_process_asks_for_it_again() -> None:
    source, spark = Jdbc(ELSEWHERE, "t", column="id", lag="0 seconds"), Answering()
    reader = copy.copy(source)  # as each attempt makes one
    source.schema(spark)
    spark.schema = T.StructType([T.StructField("rk_value", T.StringType())])
    with pytest.raises(InputError) as caught:
        reader._rows(spark, None, Value(text="5", family=Family.NUMBER))
    assert caught.value.code == "JDBC_COLUMNS_CHANGED"
    assert source.schema(spark) == spark.schema


WRONG: dict[str, dict[str, Any]] = {
    "url": {"url": "postgresql://host/db", "table": "t"},
    "table": {"url": "jdbc:postgresql://host/db"},
    "lag": {"url": "jdbc:oracle:thin:@host", "table": "t"},
    "after": {"url": "jdbc:postgresql://host/db", "table": "t", "after": 0.5},
    "rows_per_read": {"url": "jdbc:postgresql://host/db", "table": "t", "rows_per_read": 0},
}


@pytest.mark.parametrize("argument", WRONG)
def test_what_is_said_wrongly_is_refused_at_once(argument: str) -> None:
    with pytest.raises(DefinitionError, match=argument) as caught:
        Jdbc(column="id", **WRONG[argument])
    assert caught.value.code == "ARGUMENT_INVALID"


def test_a_database_without_a_driver_is_named(spark: SparkSession) -> None:
    source = Jdbc("jdbc:nosuch://host/db", "t", column="id", lag="1 second")
    with pytest.raises(DefinitionError, match="nosuch") as caught:
        source._inferred(spark)
    assert caught.value.code == "JDBC_DRIVER_MISSING"


@pytest.mark.parametrize("query", [None, "SELECT id AS at FROM orders"])
def test_a_column_that_is_not_there_is_refused_as_the_columns_are_asked(orders: Shop, query: str | None) -> None:
    source = orders.make(None if query else "orders", column="idd", query=query)
    with pytest.raises(psycopg.errors.UndefinedColumn, match="idd"):
        source.schema(orders.spark)
