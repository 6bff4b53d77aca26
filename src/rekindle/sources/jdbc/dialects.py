"""The questions of `Jdbc` to a database, in SQL. Pure: no connection, no Spark.

All that compares values is left to the database, in whose order they rise: a text by its collation, a time by its zone.
So a value goes from the answer to one question into the next one as a literal, and nothing else is made of it. Names
are quoted, and literals escaped; a user's query is taken as it is.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.sources.jdbc.values import Family, Value, next_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """The table or query that is read, in SQL, and the column that rises, quoted."""

    sql: str
    column: str


class Dialect(ABC):
    """The SQL of one kind of database."""

    #: True: the server says which transactions run
    knows_transactions = False
    #: class of the usual driver, which Spark finds in a jar of the job only by its name; None: there is none
    driver: str | None = None

    _quote = '"'
    _nth = "OFFSET {skipped} ROWS FETCH NEXT 1 ROWS ONLY"

    def address(self, url: str) -> str:
        """Return the address that Spark is given."""
        return url

    def quoted(self, *names: str) -> str:
        """Return a name, or one within another, as it is written in a statement."""
        return ".".join(f"{self._quote}{name.replace(self._quote, 2 * self._quote)}{self._quote}" for name in names)

    def relation(self, table: Sequence[str], query: str | None, column: str) -> Relation:
        """Return what is read: a table, or what a query gives."""
        sql = self.quoted(*table) if query is None else f"({query.strip().rstrip(';')})"
        return Relation(sql=sql, column=f"rk.{self.quoted(column)}")

    @abstractmethod
    def literal(self, value: Value) -> str:
        """Return a value as it is written in a statement."""

    @abstractmethod
    def look(self, of: Relation, after: Value | None, below: Value | None) -> str:
        """Ask for the greatest value there is: one row, of which ``rk_value`` is null where there is none.

        ``rk_is_after`` is 1 if it is greater than `after`, ``rk_rose`` if it is greater than `below`; 1 where
        these are None. A dialect may add columns, see `PostgreSql`.
        """

    def nulls(self, of: Relation) -> str | None:
        """Ask for a row where the column is null: a row, or none; None where `look` asks for that too."""
        return f"SELECT 1 AS rk_found FROM {of.sql} rk WHERE {of.column} IS NULL"

    def finer(self, of: Relation, value: Value) -> str | None:
        """Ask for a time just after `value` that Spark would read as that: a row, or none; None: there can be none."""
        return None

    def nth(self, of: Relation, after: Value | None, upto: Value | None, number: int) -> str:
        """Ask for the value of the row that is the nth of a range, from 1: one row, or none."""
        last = self._nth.format(skipped=number - 1)
        where = self._range(of, after, upto) or f"{of.column} IS NOT NULL"
        return (
            f"SELECT {self._as_text(of.column)} AS rk_value FROM {of.sql} rk WHERE {where} ORDER BY {of.column} {last}"
        )

    def columns(self, of: Relation) -> str:
        """Ask for all columns; the database refuses that if the column that rises is none of them."""
        return f"SELECT * FROM {of.sql} rk WHERE {of.column} IS NOT NULL"

    def rows(self, of: Relation, columns: Sequence[str], after: Value | None, upto: Value) -> str:
        """Ask for the rows of a range."""
        chosen = ", ".join(f"rk.{self.quoted(name)}" for name in columns)
        return f"SELECT {chosen} FROM {of.sql} rk WHERE {self._range(of, after, upto)}"

    def _as_text(self, column: str) -> str:
        return column

    def _range(self, of: Relation, after: Value | None, upto: Value | None) -> str:
        parts = [f"{of.column} > {self.literal(after)}"] if after else []
        return " AND ".join([*parts, f"{of.column} <= {self.literal(upto)}"] if upto else parts)

    def _greater(self, value: str, than: Value | None) -> str:
        return "1" if than is None else f"CASE WHEN {value} > {self.literal(than)} THEN 1 ELSE 0 END"


_WRITES = "'RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'"

# Each transaction holds a lock of its own id, and of what it writes, or draws a number from, another one to its end.
# Its locks are seen as they are, not as of the moment of the statement: so after the value was.
_WRITERS = f"""SELECT string_agg(DISTINCT virtualtransaction, ' ') FROM pg_locks
WHERE locktype = 'relation' AND mode IN ({_WRITES}) AND pid IS DISTINCT FROM pg_backend_pid()
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

# Those that clear up and those of other databases write no rows here. What is prepared is looked at last.
_RUNNING = """SELECT string_agg(name, ' ') FROM (
SELECT held.virtualtransaction AS name FROM pg_locks held LEFT JOIN pg_stat_activity of USING (pid)
WHERE held.locktype = 'virtualxid' AND held.granted AND held.pid <> pg_backend_pid()
AND (of.pid IS NULL OR (of.usesysid IS NOT NULL AND of.datname = current_database()))
UNION ALL SELECT '-1/' || transaction FROM pg_prepared_xacts WHERE database = current_database()) running"""


class PostgreSql(Dialect):
    """PostgreSQL. A value is its text: PostgreSQL writes each so that it reads the same one again."""

    knows_transactions = True
    driver = "org.postgresql.Driver"
    _nth = "LIMIT 1 OFFSET {skipped}"

    def literal(self, value: Value) -> str:
        # Without a type, which it takes from the column. E: it means the same whatever the server is set to.
        escaped = value.text.replace("\\", "\\\\").replace("'", "''")
        return f"E'{escaped}'"

    def look(self, of: Relation, after: Value | None, below: Value | None) -> str:
        """See `Dialect`. It adds ``rk_type``, ``rk_nulls``, ``rk_replica``, and the names of transactions that run.

        ``rk_writers`` are those that have written something or drawn a number, ``rk_running`` are all.
        """
        newest = (
            f"SELECT {of.column}::text AS rk_value, pg_typeof({of.column})::text AS rk_type, "
            f"{self._greater(of.column, after)} AS rk_is_after, {self._greater(of.column, below)} AS rk_rose "
            f"FROM {of.sql} rk WHERE {of.column} IS NOT NULL ORDER BY {of.column} DESC LIMIT 1"
        )
        nulls = f"EXISTS (SELECT 1 FROM {of.sql} rk WHERE {of.column} IS NULL)"
        return (
            f"SELECT newest.*, {nulls} AS rk_nulls, pg_is_in_recovery() AS rk_replica, "
            f"({_WRITERS}) AS rk_writers, ({_RUNNING}) AS rk_running "
            f"FROM (SELECT 1) one LEFT JOIN ({newest}) newest ON true"
        )

    def nulls(self, of: Relation) -> str | None:
        return None

    def _as_text(self, column: str) -> str:
        return f"{column}::text"


class Standard(Dialect):
    """Databases that keep to the standard: Oracle, SQL Server, Db2, Derby, H2."""

    def literal(self, value: Value) -> str:
        if value.family is Family.NUMBER:
            return value.text
        escaped = value.text.replace("'", "''")
        # Escapes of JDBC, which each driver writes as its database has it.
        return {Family.TIMESTAMP: f"{{ts '{escaped}'}}", Family.DATE: f"{{d '{escaped}'}}"}.get(
            value.family, f"'{escaped}'"
        )

    def finer(self, of: Relation, value: Value) -> str | None:
        following = next_time(value)
        if following is None:
            return None
        rows = f"{of.column} > {self.literal(value)} AND {of.column} < {self.literal(following)}"
        return f"SELECT 1 AS rk_found FROM {of.sql} rk WHERE {rows}"

    def look(self, of: Relation, after: Value | None, below: Value | None) -> str:
        return (
            f"SELECT newest.top AS rk_value, {self._greater('newest.top', after)} AS rk_is_after, "
            f"{self._greater('newest.top', below)} AS rk_rose "
            f"FROM (SELECT MAX({of.column}) AS top FROM {of.sql} rk) newest"
        )


class MySql(Standard):
    """MySQL."""

    driver = "com.mysql.cj.jdbc.Driver"
    _quote = "`"
    _nth = "LIMIT 1 OFFSET {skipped}"

    def finer(self, of: Relation, value: Value) -> str | None:
        return None  # it has microseconds at most

    def literal(self, value: Value) -> str:
        # Not JDBC's escapes for times: with them MySQL's driver misses rows by their microseconds.
        if word := {Family.TIMESTAMP: "TIMESTAMP", Family.DATE: "DATE"}.get(value.family):
            return f"{word}'{value.text}'"
        return super().literal(Value(text=value.text.replace("\\", "\\\\"), family=value.family))


class MariaDb(MySql):
    """MariaDB."""

    driver = "org.mariadb.jdbc.Driver"

    def address(self, url: str) -> str:
        """See `Dialect`. Spark knows only MySQL's addresses. With others it quotes names as the standard does, and here
        ``"name"`` is a text: each row would hold the names of its columns.
        """
        return f"jdbc:mysql:{url.split(':', 2)[2]}{'&' if '?' in url else '?'}permitMysqlScheme"


_DIALECTS: dict[str, type[Dialect]] = {"postgresql": PostgreSql, "mysql": MySql, "mariadb": MariaDb}

_URL = re.compile(r"jdbc:([a-z0-9+.-]+):", re.IGNORECASE)


_PLACE = re.compile(r"jdbc:postgresql://(?P<host>[^/:,?@]+)(:(?P<port>\d+))?/(?P<database>[^?]+)")


def dataset_of(url: str, table: Sequence[str]) -> tuple[str, str] | None:
    """Return server and table as OpenLineage names them; None of a query, or where the address does not tell."""
    found = _PLACE.match(url)
    if found is None or not table:
        return None
    names = [found["database"], *(table if len(table) == 2 else ["public", *table])]
    return f"postgres://{found['host']}:{found['port'] or 5432}", ".".join(names)


def dialect_of(url: str) -> Dialect:
    """Return the SQL of the database that an address leads to.

    Raises:
        ValueError: it is no address of JDBC.
    """
    found = _URL.match(url)
    if found is None:
        raise ValueError(url)
    return _DIALECTS.get(found[1].lower(), Standard)()
