"""The remains of a sink's attempts in the database: prepared transactions, staging tables, names of commits."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql

from rekindle.sinks.postgres.database import Connection, TableName


@dataclass(frozen=True)
class PostgresAttempts:
    """The attempts of one sink. Each has a name: its transactions' begin with it, its staging table's comment is it."""

    table: TableName
    #: begins the names of all attempts of the sink
    owner: str

    def staging(self, name: str) -> TableName:
        """Return the table of the rows that an attempt stages."""
        return self.table.beside(f"rekindle_{hashlib.sha256(name.encode()).hexdigest()[:24]}")

    def prepared(self, connection: Connection) -> set[str]:
        """Return the names of this sink's prepared transactions."""
        found = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)",
            (f"{self.owner}:",),
        )
        return {gid for (gid,) in found}

    def staged(self, connection: Connection) -> set[str]:
        """Return the names of the attempts that have a staging table."""
        found = connection.execute(
            "SELECT obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND starts_with(c.relname::text, 'rekindle_')"
            " AND starts_with(obj_description(c.oid, 'pg_class'), %s)",
            (self.table.schema, f"{self.owner}:"),
        )
        return {name for (name,) in found}

    def committed(self, connection: Connection, names: Sequence[str]) -> set[str]:
        """Return those of these names that are committed."""
        found = connection.execute(
            sql.SQL("SELECT name FROM {} WHERE name = ANY(%s)").format(self.table.commits), (names,)
        )
        return {name for (name,) in found}

    def discard(self, connection: Connection, name: str, keep: Collection[str], *, staged: bool = False) -> None:
        """Remove what an attempt has left, except the prepared parts in `keep` and, if `staged`, its staging table."""
        for gid in self.prepared(connection):
            attempt, _, part = gid.rpartition(":")
            if attempt == name and part not in keep:
                self.roll_back(connection, gid)
        if not staged:
            self.drop(connection, name)

    def roll_back(self, connection: Connection, gid: str) -> None:
        """Roll back a prepared transaction."""
        with suppress(psycopg.errors.UndefinedObject):  # another driver is at it too
            connection.tpc_rollback(gid)

    def drop_unused(self, connection: Connection, name: str) -> None:
        """Drop the staging table of an attempt at once; an error where a task still writes into it."""
        staging = self.staging(name).quoted
        with connection.transaction():
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE NOWAIT").format(staging))
            self.drop(connection, name)

    def drop(self, connection: Connection, name: str) -> None:
        """Drop the staging table of an attempt."""
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.staging(name).quoted))
