"""The table as PostgreSQL's catalog describes it, and the tables that are made for it.

This module must not know batches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg import sql

from rekindle.sinks.postgres.columns import Column
from rekindle.sinks.postgres.database import COMMITS, Connection, TableName, names_of

_COLUMNS = """
SELECT a.attname, CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname END, a.atthasdef OR a.attidentity <> '',
    a.attgenerated <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

# Of an index over an expression the columns are not known: null.
_INDEXES = """
SELECT i.indisunique AND i.indimmediate AND i.indpred IS NULL,
    coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
    ARRAY(SELECT a.attname::text FROM unnest(i.indkey[0:i.indnkeyatts - 1]) k
          LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k AND k <> 0)
FROM pg_index i WHERE i.indrelid = %s AND (i.indisunique OR i.indisexclusion)
"""

_REQUIRED = "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnotnull AND attname = ANY(%s)"

_CHECKS = """
SELECT c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c
WHERE c.conrelid = %s AND c.contype = 'c' AND c.conkey <@
    ARRAY(SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = c.conrelid AND a.attname = ANY(%s))
"""

# For each row, before an insert.
_EDITS = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = %s AND NOT tgisinternal AND tgtype & 7 = 7)"

_OID = """
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""


@dataclass(frozen=True, slots=True)
class Index:
    """A unique index or an exclusion constraint."""

    #: null for an expression
    columns: tuple[str | None, ...]
    #: True: ``ON CONFLICT`` can use it
    decides: bool
    #: True: two nulls are the same to it
    takes_nulls: bool


@dataclass(frozen=True, slots=True)
class Catalog:
    """A table as it is now."""

    table: TableName
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]

    @classmethod
    def read(cls, connection: Connection, table: TableName) -> Catalog | None:
        """Read the description of a table; None where there is no such table."""
        found = connection.execute(_OID, (table.schema, table.name)).fetchone()
        if found is None:
            return None
        return cls(
            table,
            tuple(Column(*described) for described in connection.execute(_COLUMNS, found)),
            tuple(Index(tuple(names), *kind) for *kind, names in connection.execute(_INDEXES, found)),
        )

    def check_key(self, key: Sequence[str]) -> None:
        """Raise ValueError where `key` does not tell rows apart."""
        if key and not any(index.decides and set(index.columns) == set(key) for index in self.indexes):
            names = ", ".join(f'"{name}"' for name in key)
            raise ValueError(f"it has no unique index over the key: CREATE UNIQUE INDEX ON {self.table} ({names})")

    def without_nulls(self, key: Sequence[str]) -> Collection[str]:
        """Return the columns of `key` if rows that have nulls there would be added again and again."""
        return () if any(index.takes_nulls and set(index.columns) == set(key) for index in self.indexes) else key

    def may_wait(self, written: Collection[str]) -> bool:
        """Return whether two transactions that insert the same rows would wait for each other.

        An index with a column that is not written is filled by a default, a sequence most often.
        """
        return any(all(name is None or name in written for name in index.columns) for index in self.indexes)


def default_schema(connection: Connection) -> str:
    """Return the schema of a table that is named without one."""
    found = connection.execute("SELECT current_schema()").fetchone()
    if found is None or found[0] is None:
        raise ValueError("its search_path leads to no schema: say table='schema.table'")
    return str(found[0])


def make_commits(connection: Connection, table: TableName) -> None:
    """Make `rekindle_commits` beside the table, where it is not there yet."""
    _make(
        connection,
        table.beside(COMMITS),
        sql.SQL("name text PRIMARY KEY, owner text NOT NULL, prepared_at timestamptz NOT NULL DEFAULT now()"),
    )


def make_table(
    connection: Connection, table: TableName, definition: Sequence[tuple[str, str]], key: Sequence[str]
) -> None:
    """Make the table itself; types are ours, names are the user's."""
    parts = [sql.SQL("{} {}").format(sql.Identifier(name), _type(kind)) for name, kind in definition]
    if key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(names_of(key)))
    _make(connection, table, sql.SQL(", ").join(parts))


def _type(kind: str) -> sql.SQL:
    return sql.SQL(kind)  # of our own table of types, and not from outside


def _make(connection: Connection, table: TableName, definition: sql.Composable) -> None:
    if exists(connection, table):
        return  # no matter who made it: then no right to make tables is needed
    with connection.transaction():
        lock(connection, str(table))
        connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table.quoted, definition))


def guards(
    connection: Connection, table: TableName, written: Sequence[str], key: Sequence[str]
) -> Sequence[sql.Composable]:
    """Return what a staging table has to refuse because the table would, as parts of an ``ALTER TABLE``.

    A unique index, a foreign key and a partition that is missing are not seen before the commit.
    """
    found = connection.execute(_OID, (table.schema, table.name)).fetchone()
    described = Catalog.read(connection, table)
    if found is None or described is None or connection.execute(_EDITS, found).fetchone() == (True,):
        return []  # a trigger may give a row what it lacks
    required = {name for (name,) in connection.execute(_REQUIRED, (*found, [*written]))}
    checks = connection.execute(_CHECKS, (*found, [*written]))
    return [
        *(
            sql.SQL("ALTER COLUMN {} SET NOT NULL").format(sql.Identifier(name))
            for name in sorted(required | {*described.without_nulls(key)})
        ),
        *(sql.SQL("ADD CONSTRAINT {} {}").format(sql.Identifier(name), sql.SQL(check)) for name, check in checks),
    ]


def exists(connection: Connection, table: TableName) -> bool:
    """Return whether there is a table of this name."""
    return connection.execute(_OID, (table.schema, table.name)).fetchone() is not None


def lock(connection: Connection, name: str) -> None:
    """Take a lock until the end of the transaction: ``IF NOT EXISTS`` fails where two make a table at once."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
