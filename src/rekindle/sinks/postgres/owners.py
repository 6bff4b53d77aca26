"""Notes of the jobs that write to the table, in the table of commits beside it: no other right or table is needed.

A row for each owner. Its name is of another form than those of commits, which begin with ``rekindle:``; nothing deletes
it. This module must not know what a note is for.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from psycopg import sql

from rekindle.sinks.owners import Note, parsed
from rekindle.sinks.postgres.database import Connection, TableName


@dataclass(frozen=True, slots=True)
class OwnerRows:
    """Notes on one table; what is written is seen by others at the end of the transaction."""

    connection: Connection
    table: TableName

    def owners(self) -> Collection[str]:
        """Return the owners that have a row."""
        prefix = self._name("")
        found = self._execute("SELECT name FROM {} WHERE starts_with(name, %s)", prefix)
        return [name.removeprefix(prefix) for (name,) in found]

    def read(self, owner: str) -> Note:
        """Read the row."""
        found = self._execute("SELECT owner FROM {} WHERE name = %s", self._name(owner))
        return parsed(found[0][0]) if found else {}

    def write(self, owner: str, note: Note) -> bool:
        """Add the row."""
        statement = "INSERT INTO {} (name, owner) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING true"
        return bool(self._execute(statement, self._name(owner), json.dumps(note)))

    def remove(self, owner: str) -> None:
        """Delete the row."""
        self._execute("DELETE FROM {} WHERE name = %s RETURNING true", self._name(owner))

    def _name(self, owner: str) -> str:
        """Return the name of an owner's row. The table is quoted: no table's notes begin like those of another."""
        return f"owner of {json.dumps(self.table.name, ensure_ascii=False)}: {owner}"

    def _execute(self, statement: str, *parameters: str) -> list[tuple[str, ...]]:
        return self.connection.execute(sql.SQL(statement).format(self.table.commits), parameters).fetchall()
