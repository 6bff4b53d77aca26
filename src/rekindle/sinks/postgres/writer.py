"""The work of an executor on a partition: COPY its rows into a prepared transaction or into a staging table.

A Spark task may run twice (a retry, a speculative copy), so each run is a *part* with a name of its own, and only the
parts whose names came back to the driver count. A crash between any two lines leaves one of these: nothing (the server
rolls back), a prepared transaction or staged rows that no batch record names. `Postgres.clean` removes them.

A partition without rows does not even connect. This module must not know which parts will be committed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import psycopg
from psycopg import sql

from rekindle.sinks.postgres.attempts import PostgresAttempts
from rekindle.sinks.postgres.catalog import exists, guards, lock
from rekindle.sinks.postgres.columns import PART, SENT_AS, Column, encode
from rekindle.sinks.postgres.database import Connection, TableName, connect, names_of, note_commit, redacted
from rekindle.sinks.postgres.failures import refuses_rows

RESULT = "part string, prepared boolean, rows bigint"
"""Columns of what comes back to the driver: one row for each partition that has rows."""

_FAILED, _REFUSES = "failed", "refuses rows"
_RAISED = re.compile(rf"^RuntimeError: PostgreSQL ({_FAILED}|{_REFUSES}): (table .+)$", re.MULTILINE)


def said_on_executor(error: BaseException) -> tuple[str, bool] | None:
    """Return what a `Writer` has raised, of which Spark hands on the text alone; None where it was something else.

    True with it: the rows are what is wrong.
    """
    found = _RAISED.findall(str(error))
    return (found[-1][1], found[-1][0] == _REFUSES) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The function that Spark is given; it is pickled, so it holds plain data."""

    dsn: str = field(repr=False)
    table: TableName
    columns: list[Column]
    #: the attempt: names of its transactions begin with it, and its staging table's comment is it
    name: str
    #: the sink, as all its commits are noted
    owner: str
    #: columns by which rows replace rows
    key: Sequence[str]
    #: number of transactions that may be prepared; partitions with this number or a higher one are staged
    slots: int

    @property
    def staging(self) -> TableName:
        """The table of the rows that are staged."""
        return PostgresAttempts(self.table, self.owner).staging(self.name)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write one partition."""
        import pyarrow as pa

        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        partition = first.column(PART)[0].as_py()
        part, prepared = f"{partition}.{secrets.token_hex(4)}", partition < self.slots
        try:
            with connect(self.dsn, f"rekindle {self.name}") as connection:
                write = self._prepare if prepared else self._stage
                written = write(connection, part, chain([first], filled))
        except (psycopg.Error, pa.ArrowInvalid, ValueError) as error:
            # Spark prints and keeps what is raised here.
            what = _REFUSES if refuses_rows(error) else _FAILED
            raise RuntimeError(f"PostgreSQL {what}: table {self.table}: {redacted(error, self.dsn)}") from None
        yield pa.RecordBatch.from_pydict({"part": [part], "prepared": [prepared], "rows": [written]})

    def _prepare(self, connection: Connection, part: str, batches: Iterator[Any]) -> int:
        gid = f"{self.name}:{part}"
        connection.execute("BEGIN")
        written = self._copy(connection, self.table, batches)
        note_commit(connection, self.table, gid, self.owner)
        connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))
        return written

    def _stage(self, connection: Connection, part: str, batches: Iterator[Any]) -> int:
        with connection.transaction():
            self._make_staging(connection)
        with connection.transaction():
            return self._copy(connection, self.staging, batches, part)

    def _make_staging(self, connection: Connection) -> None:
        """Make the staging table, unless another part has made it: it refuses what the commit could not insert."""
        lock(connection, str(self.staging))
        if exists(connection, self.staging):
            return
        names = [column.name for column in self.columns]
        connection.execute(
            sql.SQL("CREATE TABLE {} AS SELECT ''::text AS {}, {} FROM {} WITH NO DATA").format(
                self.staging.quoted,
                sql.Identifier(PART),
                names_of(names),
                self.table.quoted,
            )
        )
        if refused := guards(connection, self.table, names, self.key):
            connection.execute(sql.SQL("ALTER TABLE {} {}").format(self.staging.quoted, sql.SQL(", ").join(refused)))
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(self.staging.quoted, sql.Literal(self.name)))

    def _copy(self, connection: Connection, into: TableName, batches: Iterator[Any], part: str | None = None) -> int:
        names, types = [column.name for column in self.columns], [SENT_AS[column.type] for column in self.columns]
        ours = [] if part is None else [repeat(part)]
        if ours:
            names, types = [*names, PART], [*types, "text"]
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(into.quoted, names_of(names))
        written = 0
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(types)
            for batch in batches:
                values = [encode(column, batch.column(index)) for index, column in enumerate(self.columns)]
                for row in zip(*values, *ours, strict=False):  # repeat() has no end
                    copy.write_row(row)
                written += batch.num_rows
        return written
