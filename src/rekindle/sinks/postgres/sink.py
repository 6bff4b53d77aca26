"""The driver's side of the PostgreSQL sink.

Executors write a batch in *parts* (see `writer`). A part is *prepared* (a transaction of its own, ``PREPARE
TRANSACTION``) or *staged* (rows of a table of the attempt's own). What is committed is durable in the same transaction
as the rows: its name in the table `rekindle_commits` (see `committing`).

All that is staged of a checkpoint is moved in one transaction, so it is seen at once; prepared transactions are
committed one by one. Which way a batch goes:

- ``atomic`` and ``upsert``: staged, and so with ``checkpoint_column``: the number is known when a batch is committed;
- a table with a unique index or an exclusion constraint over columns that are written: staged. A prepared transaction
  that no driver may touch yet (its driver may only be paused) would keep a second attempt at the same rows waiting;
- else prepared, but a batch takes at most half of the prepared transactions that the server has left. Partitions beyond
  that, all of them where the server allows none, are staged.

This module must not know Spark beyond a DataFrame, nor rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, Literal

import psycopg

from rekindle.errors import SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.owners import Claim
from rekindle.sinks.postgres.arguments import check_arguments
from rekindle.sinks.postgres.attempts import PostgresAttempts
from rekindle.sinks.postgres.catalog import default_schema, exists, lock, make_commits
from rekindle.sinks.postgres.checkpoint_column import CheckpointColumn, take_back, unnumbered
from rekindle.sinks.postgres.columns import Column, expressions
from rekindle.sinks.postgres.committing import Committing
from rekindle.sinks.postgres.database import (
    COMMITS,
    Connection,
    TableName,
    connect,
    dataset_of,
    described,
    redacted,
    trying,
)
from rekindle.sinks.postgres.failures import failure, failures
from rekindle.sinks.postgres.owners import OwnerRows
from rekindle.sinks.postgres.reading import read_committed
from rekindle.sinks.postgres.target import Target
from rekindle.sinks.postgres.writer import RESULT, Writer, said_on_executor
from rekindle.sinks.two_phase import Commits, Committable, SinkBatch, TwoPhaseSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Postgres(TwoPhaseSink):
    """The table `table` of the PostgreSQL database at `dsn`.

    Args:
        dsn: a connection string of libpq, ``"host=db dbname=shop user=etl"`` or ``"postgresql://..."``, or a function
            that returns one, such as ``lambda: os.environ["SHOP_DSN"]``: it is called on the driver whenever a
            connection is made. A password is never stored, logged or shown.
        table: ``"table"`` or ``"schema.table"``; a pair where a name holds a dot. Letters are taken as they are. If it
            is not there, the first batch makes it.
        mode: ``append`` adds rows. ``upsert`` replaces the row with the same `key`; it also takes the output of tasks
            in update mode. Of several rows with one key, that of the later batch wins; within a batch, any.
        key: columns of a unique index or primary key, for ``upsert``.
        atomic: a checkpoint is seen as a whole or not at all, at the price of writing rows twice. With ``upsert`` it
            always is.
        checkpoint_column: a ``bigint`` column of the table that no one else fills, in which each row has the number of
            the checkpoint that committed it: with it the table can go back (``--rewind-sinks``). With ``append`` only,
            which then is atomic. It is made with the table; in a table that is there it has to be there.
    """

    kind: ClassVar[str] = "Postgres"

    def __init__(
        self,
        dsn: str | Callable[[], str],
        table: str | tuple[str, str],
        *,
        mode: Literal["append", "upsert"] = "append",
        key: str | Sequence[str] = (),
        atomic: bool = False,
        checkpoint_column: str | None = None,
    ) -> None:
        self.key = (key,) if isinstance(key, str) else tuple(key)
        check_arguments(mode, self.key, checkpoint_column)
        schema, dot, name = table.partition(".") if isinstance(table, str) else (table[0], ".", table[1])
        self.table = TableName(schema, name) if dot else TableName("", schema)
        self.mode = mode
        self.checkpoint_column = checkpoint_column
        self.atomic_commit = atomic or mode == "upsert" or checkpoint_column is not None
        if mode == "upsert":
            self.output_modes = ("append", "update")
        self._dsn = dsn
        self._job = self._sink = self._owner = ""

    @property
    def dataset(self) -> tuple[str, str]:
        return dataset_of(self._current_dsn(), self.table)

    def __repr__(self) -> str:
        return f"Postgres({str(self.table)!r}, mode={self.mode!r})"

    # -- the contract -------------------------------------------------------------------------------------------------

    def examine(self, claim: Claim, columns: StructType | None) -> int | None:
        """Look for the table, its owner, its columns, and the rights of this user."""
        dsn = self._begin(claim.owner, claim.sink)
        with self._refused(dsn), connect(dsn, self._owner) as connection:
            self._name_schema(connection)
            found = self._target.writable(connection, stages=self.atomic_commit)
            if exists(connection, self.table.beside(COMMITS)):
                claim.check(OwnerRows(connection, self.table), self._place(dsn))
            if columns is not None:
                with self._misfits():
                    self._target.columns(columns, found)
        return None

    def open(self, job: str, sink: str) -> None:
        """See that the server answers and the table, if it is there, can be written; make `rekindle_commits`."""
        dsn = self._begin(job, sink)
        with self._refused(dsn), connect(dsn, self._owner) as connection:
            self._name_schema(connection)
            make_commits(connection, self.table)
            self._target.writable(connection, stages=self.atomic_commit)

    def _begin(self, job: str, sink: str) -> str:
        self._job, self._sink = job, sink
        # Names in PostgreSQL are short, uids need not be.
        digest = hashlib.sha256(f"{job}/{sink}".encode()).hexdigest()
        self._owner = f"rekindle:{job[:16]}-{digest[:12]}"
        return self._current_dsn()

    @contextmanager
    def _refused(self, dsn: str) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, ValueError) as error:
            raise self._invalid(redacted(error, dsn)) from None  # the cause may hold the password

    def _name_schema(self, connection: Connection) -> None:
        if not self.table.schema:
            self.table = TableName(default_schema(connection), self.table.name)

    def claim(self, claim: Claim) -> None:
        """Take the table, also one that is still to be made."""
        dsn = self._current_dsn()
        with failures(self._sink, dsn):
            for attempt in trying():
                with attempt, connect(dsn, self._owner) as connection, connection.transaction():
                    lock(connection, f"owners of {self.table}")
                    claim.make(OwnerRows(connection, self.table), self._place(dsn))
                    if (number := self._number) is not None:
                        try:
                            number.take(connection)
                        except ValueError as error:
                            raise self._invalid(str(error)) from None

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Let the executors write the batch; what a failed attempt has left is removed at once, as far as it can be."""
        dsn, name = self._current_dsn(), self._name(batch)
        with failures(self._sink, dsn):
            with connect(dsn, self._owner) as connection:
                columns, slots = self._look(connection, df.schema)
            writer = Writer(
                dsn=dsn, table=self.table, columns=columns, name=name, owner=self._owner, key=self.key, slots=slots
            )
            try:
                parts = df.selectExpr(*expressions(df.schema)).mapInArrow(writer, RESULT).collect()
            except BaseException as error:
                with suppress(Exception):
                    self._discard(dsn, name, ())
                if (said := said_on_executor(error)) is not None:
                    raise failure(self._sink, *said) from error
                raise
            prepared = sorted(row.part for row in parts if row.prepared)
            staged = sorted(row.part for row in parts if not row.prepared)
            self._discard(dsn, name, prepared, staged=bool(staged))
        if not parts:
            return []
        rows = sum(row.rows for row in parts)
        made = {"name": name, "prepared": prepared, "staged": staged, "rows": rows}
        number = self._number
        return [made if number is None else made | number.found_by(columns)]

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Move what is staged, in one transaction; commit what is prepared."""
        dsn = self._current_dsn()
        with failures(self._sink, dsn):
            for attempt in trying():
                with attempt, connect(dsn, self._owner) as connection:
                    committing = Committing(self._sink, self._attempts, self.key)
                    committing.commit(connection, committables, permit.checkpoint)

    def abort(self, committables: Sequence[Committable]) -> None:
        """Roll back what is prepared, drop what is staged."""
        dsn = self._current_dsn()
        with failures(self._sink, dsn):
            for committable in committables:
                self._discard(dsn, committable["name"], ())

    @property
    def cannot_rewind(self) -> str | None:
        return unnumbered(self.mode, self.checkpoint_column, "go back")

    @property
    def cannot_read_back(self) -> str | None:
        return unnumbered(self.mode, self.checkpoint_column, "be read back")

    def read_back(self, spark: SparkSession, commits: Commits, *, job: str, sink: str) -> DataFrame:
        """Let executors read the rows that have the numbers of the checkpoints, in the `checkpoint_column`."""
        return read_committed(spark, self._current_dsn(), job, sink, commits)

    def rewind(self, to: int, commits: Commits) -> None:
        """Delete the rows that have the numbers of these checkpoints, in one transaction."""
        dsn = self._current_dsn()
        try:
            for attempt in trying():
                with attempt, connect(dsn, self._owner) as connection:
                    take_back(connection, self._attempts, f"{self._job}/{self._sink}", commits)
        except (psycopg.Error, ValueError) as error:
            reason = redacted(error, dsn)
            raise SinkError("SINK_REWIND_FAILED", sink=self._sink, checkpoint=to, reason=reason) from None

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """Roll back and drop what attempts have left that no batch record names: prepared transactions hold locks."""
        dsn = self._current_dsn()
        kept = {committable["name"] for committable in named}
        with failures(self._sink, dsn):
            with connect(dsn, self._owner) as connection:
                prepared = {gid.rpartition(":")[0] for gid in self._attempts.prepared(connection)}
                left = prepared | self._attempts.staged(connection)
            for name in sorted(left - kept):
                batch = SinkBatch.named(name.rpartition(":")[2], job=self._job, sink=self._sink)
                if batch is not None and may_remove(batch):
                    self._discard(dsn, name, ())

    # -- prepare ------------------------------------------------------------------------------------------------------

    def _look(self, connection: Connection, schema: StructType) -> tuple[list[Column], int]:
        """Return the columns to fill, and how many transactions may be prepared."""
        with self._misfits():
            found = self._target.read_or_make(connection, schema)
            columns = self._target.columns(schema, found)
        if self.atomic_commit or found.may_wait({column.name for column in columns}):
            return columns, 0
        free = "SELECT current_setting('max_prepared_transactions')::int - count(*) FROM pg_prepared_xacts"
        [(slots,)] = connection.execute(free).fetchall()
        return columns, slots // 2

    @contextmanager
    def _misfits(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise SinkError("SINK_SCHEMA_MISMATCH", sink=self._sink, target=self.table, reason=error) from None

    @property
    def _target(self) -> Target:
        return Target(self.table, self.key, self._number)

    @property
    def _number(self) -> CheckpointColumn | None:
        column = self.checkpoint_column
        return None if column is None else CheckpointColumn(self.table, column, f"{self._job}/{self._sink}")

    def _place(self, dsn: str) -> str:
        return f"{described(dsn)} table={self.table}"

    def _invalid(self, reason: str) -> SinkError:
        target = self._place(self._current_dsn())
        return SinkError("SINK_TARGET_INVALID", sink=self._sink, target=target, reason=reason)

    # -- attempts -----------------------------------------------------------------------------------------------------

    def _discard(self, dsn: str, name: str, keep: Collection[str], *, staged: bool = False) -> None:
        with connect(dsn, self._owner) as connection:
            self._attempts.discard(connection, name, keep, staged=staged)

    @property
    def _attempts(self) -> PostgresAttempts:
        return PostgresAttempts(self.table, self._owner)

    def _name(self, batch: SinkBatch) -> str:
        """Return an attempt's name: its transactions' names begin with it, its staging table's comment is it."""
        return f"{self._owner}:{batch.name}"

    # -- secrets ------------------------------------------------------------------------------------------------------

    def _current_dsn(self) -> str:
        return self._dsn() if callable(self._dsn) else self._dsn
