"""The rows that checkpoints have committed, read back by executors: by the numbers in the column of the checkpoint.

Values come as texts, since PostgreSQL has types of its own: the code that compares them knows what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from rekindle.errors import SinkError
from rekindle.sinks.postgres.catalog import Catalog
from rekindle.sinks.postgres.checkpoint_column import CheckpointColumn
from rekindle.sinks.postgres.columns import Column
from rekindle.sinks.postgres.database import Connection, TableName, connect, redacted
from rekindle.sinks.reading import AS_TEXT, quoted
from rekindle.sinks.two_phase import Commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHAT = "rekindle shadow"
"""Name of the connections."""

_ROWS = 10_000
"""Number of rows that are given to Spark at a time."""

_TEXTS = {"bytea": "encode({}, 'hex')", "timestamptz": "({} AT TIME ZONE 'UTC')::text || 'Z'"}
"""Type → its text, as Spark casts it back; of others it is PostgreSQL's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRows:
    """The function that Spark is given; it is pickled, so it holds plain data."""

    dsn: str = field(repr=False)
    table: TableName
    columns: list[Column]
    #: the column of the checkpoint
    number: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Read the rows of the checkpoints whose numbers are given."""
        import pyarrow as pa

        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        if not numbers:
            return
        names = [column.name for column in self.columns]
        try:
            with (
                connect(self.dsn, _WHAT) as connection,
                connection.cursor() as cursor,
                cursor.copy(self._statement(numbers)) as copy,
            ):
                copy.set_types(["text"] * len(names))
                rows = copy.rows()
                while chunk := list(islice(rows, _ROWS)):
                    values = [pa.array(column, pa.string()) for column in zip(*chunk, strict=True)]
                    yield pa.RecordBatch.from_arrays(values, names=names)
        except psycopg.Error as error:
            raise RuntimeError(f"PostgreSQL table {self.table}: {redacted(error, self.dsn)}") from None

    def _statement(self, numbers: Sequence[int]) -> sql.Composed:
        texts = [
            sql.SQL(_TEXTS.get(column.type, "{}::text")).format(sql.Identifier(column.name)) for column in self.columns
        ]
        return sql.SQL("COPY (SELECT {} FROM {} WHERE {} = ANY({}::bigint[])) TO STDOUT").format(
            sql.SQL(", ").join(texts), self.table.quoted, sql.Identifier(self.number), [*numbers]
        )


def read_committed(spark: SparkSession, dsn: str, job: str, sink: str, commits: Commits) -> DataFrame:
    """Return the rows of these checkpoints, as texts.

    Raises:
        SinkError: ``SINK_READ_BACK_FAILED``.
    """
    try:
        found = _NumberedRows.of(commits)
        with connect(dsn, _WHAT) as connection:
            columns = found.columns_in(connection, f"{job}/{sink}")
    except (psycopg.Error, ValueError) as error:
        raise SinkError("SINK_READ_BACK_FAILED", sink=sink, reason=redacted(error, dsn)) from None
    read = CommittedRows(dsn=dsn, table=found.table, columns=columns, number=found.number)
    checkpoints = spark.createDataFrame([(one,) for one in found.checkpoints], "checkpoint long")
    frame = checkpoints.mapInArrow(read, ", ".join(f"{quoted(one.name)} string" for one in columns))
    # What is binary has the same type on both sides.
    frame = frame.selectExpr(*(_typed(one) for one in columns))
    for name in [one.name for one in columns if one.type != "bytea"]:
        frame = frame.withMetadata(name, {AS_TEXT: True})
    return frame


def _typed(column: Column) -> str:
    name = quoted(column.name)
    return f"unhex({name}) AS {name}" if column.type == "bytea" else name


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberedRows:
    """The table and the numbers by which committed rows are found."""

    table: TableName
    #: the column of the checkpoint
    number: str
    checkpoints: tuple[int, ...]
    #: names of the columns that were written; none: an older version did not say
    written: tuple[str, ...]

    @classmethod
    def of(cls, commits: Commits) -> _NumberedRows:
        """Return where these checkpoints' rows are; raise ValueError where they cannot be separated from others."""
        written = [(checkpoint, one) for checkpoint, each in sorted(commits.items()) for one in each]
        for checkpoint, one in written:
            if "checkpoint_column" not in one:
                raise ValueError(f"rows of checkpoint {checkpoint} were written without checkpoint_column")
        places = {(*one["table"], one["checkpoint_column"]) for _, one in written}
        if len(places) != 1:
            raise ValueError("its rows are in several tables, or their numbers in several columns")
        [(schema, name, number)] = places
        return cls(
            table=TableName(schema, name),
            number=number,
            checkpoints=tuple(dict.fromkeys(checkpoint for checkpoint, _ in written)),
            written=tuple(dict.fromkeys(name for _, one in written for name in one.get("columns", ()))),
        )

    def columns_in(self, connection: Connection, owner: str) -> list[Column]:
        """Return the columns to be read.

        Args:
            owner: the job, and its sink: whose column the numbers have to be in.

        Raises:
            ValueError: with the reason why they cannot be.
        """
        found = Catalog.read(connection, self.table)
        if found is None:
            raise ValueError(f"the table {self.table} is gone")
        numbers = CheckpointColumn(self.table, self.number, owner)
        numbers.check(found)
        if (noted := numbers.noted_owner(connection)) != owner:
            raise ValueError(f"the column {self.number!r} of {self.table} belongs to {noted}, and not to {owner}")
        names = {one.name for one in found.columns}
        if lost := [name for name in self.written if name not in names]:
            raise ValueError(f"the table {self.table} has no column {lost[0]!r} any more")
        wanted = self.written or names - {self.number}
        return [one for one in found.columns if one.name in wanted]
