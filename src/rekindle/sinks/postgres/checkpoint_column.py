"""A column with the number of the checkpoint that committed a row, and a table that goes back by it.

A number does not say whose checkpoint it is: each job counts its own, and two sinks of a job share them. So the column
belongs to one sink. `rekindle_commits` notes which one, and in rows of others the column is null.

What is taken back is noted as committed, in the transaction that deletes its rows: a driver that was taken for dead and
commits it later finds nothing left to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from rekindle.sinks.postgres.attempts import PostgresAttempts
from rekindle.sinks.postgres.catalog import Catalog, lock
from rekindle.sinks.postgres.columns import Column
from rekindle.sinks.postgres.database import Connection, TableName
from rekindle.sinks.two_phase import Committable

TYPE = "bigint"


@dataclass(frozen=True, slots=True)
class CheckpointColumn:
    """The column of one sink."""

    table: TableName
    name: str
    #: the job, and its sink
    owner: str

    def check(self, found: Catalog) -> None:
        """Raise ValueError where the table cannot take the numbers, or would give some to rows of others."""
        column = next((one for one in found.columns if one.name == self.name), None)
        quoted = '"{}"'.format(self.name.replace('"', '""'))
        if column is None:
            statement = f"ALTER TABLE {self.table} ADD COLUMN {quoted} {TYPE}"
            raise ValueError(f"it has no column {self.name!r} for the number of the checkpoint: {statement}")
        if column.type != "int8":
            reason = f"its column {self.name!r} is {column.type}, and numbers of checkpoints take {TYPE}"
            raise ValueError(f"{reason}: choose another checkpoint_column")
        if column.has_default:
            reason = f"its column {self.name!r} has a default, so rows of others would have numbers of checkpoints"
            raise ValueError(f"{reason}: choose another checkpoint_column, or drop the default")

    def found_by(self, columns: Sequence[Column]) -> Committable:
        """Return what a committable says, so that the rows are found by their numbers."""
        table = [self.table.schema, self.table.name]
        return {"checkpoint_column": self.name, "table": table, "columns": [column.name for column in columns]}

    def take(self, connection: Connection) -> None:
        """Note in the open transaction that the column is this sink's.

        Raises:
            ValueError: it is another's, or has values that this sink has not written.
        """
        noted = sql.SQL("INSERT INTO {} (name, owner) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING true")
        if connection.execute(noted.format(self.table.commits), (self._note, self.owner)).fetchone() is None:
            owner = self.noted_owner(connection)
            if owner != self.owner:
                raise ValueError(f"its column {self.name!r} belongs to {owner}: choose another checkpoint_column")
            return
        found = Catalog.read(connection, self.table)
        if found is None or all(column.name != self.name for column in found.columns):
            return
        looked = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {} IS NOT NULL)")
        [(filled,)] = connection.execute(looked.format(self.table.quoted, sql.Identifier(self.name))).fetchall()
        if filled:
            reason = f"its column {self.name!r} has values that this sink has not written"
            raise ValueError(f"{reason}: choose another checkpoint_column")

    def noted_owner(self, connection: Connection) -> str | None:
        """Return the owner that is noted for the column; None where none is."""
        asked = sql.SQL("SELECT owner FROM {} WHERE name = %s").format(self.table.commits)
        found = connection.execute(asked, (self._note,)).fetchone()
        return None if found is None else str(found[0])

    @property
    def _note(self) -> str:
        column, table = (json.dumps(name, ensure_ascii=False) for name in (self.name, self.table.name))
        return f"checkpoint column {column} of {table}"

    def delete(self, connection: Connection, checkpoints: Sequence[int]) -> None:
        """Delete the rows of these checkpoints."""
        found = Catalog.read(connection, self.table)
        if found is None:
            return  # it was dropped, and its rows with it
        self.check(found)
        # Without parameters, since a name may hold "%".
        statement = sql.SQL("DELETE FROM {} WHERE {} = ANY({}::bigint[])")
        connection.execute(statement.format(self.table.quoted, sql.Identifier(self.name), [*checkpoints]))


def unnumbered(mode: str, column: str | None, act: str) -> str | None:
    """Return why rows do not tell which checkpoint committed them; None: they do.

    Args:
        act: what the sink cannot do then.
    """
    if mode == "upsert":
        return f"a row that it has replaced is not kept: only mode='append' with checkpoint_column=... can {act}"
    if column is None:
        return "its rows do not tell which checkpoint committed them: that takes checkpoint_column=... from the start"
    return None


def take_back(
    connection: Connection, attempts: PostgresAttempts, owner: str, commits: Mapping[int, Sequence[Committable]]
) -> None:
    """Delete what these checkpoints have committed, or were about to, in one transaction.

    Args:
        owner: whose column it has to be.

    Raises:
        ValueError: with the reason; nothing was deleted.
    """
    numbers = _numbers(attempts.table, commits)
    noted = sql.SQL("INSERT INTO {} (name, owner) VALUES (%s, %s) ON CONFLICT DO NOTHING")
    with connection.transaction():
        lock(connection, attempts.owner)  # as a commit does
        for name, checkpoints in numbers.items():
            column = CheckpointColumn(attempts.table, name, owner)
            column.take(connection)
            column.delete(connection, checkpoints)
        for name in (one["name"] for committables in commits.values() for one in committables):
            connection.execute(noted.format(attempts.table.commits), (name, attempts.owner))
            attempts.drop(connection, name)


def _numbers(table: TableName, commits: Mapping[int, Sequence[Committable]]) -> dict[str, list[int]]:
    """Return column → the checkpoints whose numbers are in it."""
    found: dict[str, list[int]] = {}
    for number, committables in sorted(commits.items()):
        for one in committables:
            if "checkpoint_column" not in one:
                raise ValueError(f"rows of checkpoint {number} were written without checkpoint_column")
            if one["table"] != [table.schema, table.name]:
                raise ValueError(f"checkpoint {number} wrote to {'.'.join(one['table'])}, and the table is {table} now")
            found.setdefault(one["checkpoint_column"], []).append(number)
    return found
