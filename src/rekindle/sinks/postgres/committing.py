"""Commit what a checkpoint names: rows, and the names by which a repeated commit knows them, in one transaction.

name in rekindle_commits               committed, nothing to do
transaction or staging table is there  commit it
neither                                lost: an error, and nothing of the checkpoint is committed
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql

from rekindle.errors import SinkError
from rekindle.sinks.postgres.attempts import PostgresAttempts
from rekindle.sinks.postgres.catalog import Catalog, lock, make_commits
from rekindle.sinks.postgres.columns import PART
from rekindle.sinks.postgres.database import Connection, names_of, note_commit
from rekindle.sinks.two_phase import Committable, SinkBatch

_KEPT_DAYS = 7
"""Days for which the names of commits are kept: a driver that was paused may repeat its commit until then."""

_FORGOTTEN_AT_ONCE = 10_000
"""Number of names that a commit deletes at most, so that it does not take long where many are left."""


@dataclass(frozen=True)
class Committing:
    """Commit what one sink has prepared and staged."""

    sink: str
    attempts: PostgresAttempts
    #: columns by which rows replace rows; none: they are added
    key: Sequence[str]

    def commit(self, connection: Connection, committables: Sequence[Committable], checkpoint: int) -> None:
        """Commit all of them, or nothing if one is lost."""
        make_commits(connection, self.attempts.table)  # someone may have dropped it
        staged = [committable for committable in committables if committable["staged"]]
        gids = [f"{one['name']}:{part}" for one in committables for part in one["prepared"]]
        wanted = [*gids, *(one["name"] for one in staged)]
        # In this order: what another driver commits in between is in both.
        prepared, tables = self.attempts.prepared(connection), self.attempts.staged(connection)
        there = prepared | tables
        done = self.attempts.committed(connection, wanted)
        for name in wanted:
            if name not in there and name not in done:
                raise SinkError("SINK_STAGING_LOST", sink=self.sink, path=name)
        if any(one["name"] not in done for one in staged):
            self._move(connection, staged, checkpoint)
        for gid in gids:
            if gid not in done:
                self._commit_prepared(connection, gid)
        with suppress(psycopg.Error):  # it is committed; the next commit finds them again
            self._forget_old(connection, wanted)
            self._remove_stragglers(connection, prepared - {*wanted}, tables - {*wanted}, committables)

    def _remove_stragglers(
        self,
        connection: Connection,
        gids: Collection[str],
        tables: Collection[str],
        committables: Sequence[Committable],
    ) -> None:
        """Remove those of these whose batch is committed: they are not part of it, and never will be.

        A Spark task that outlives its attempt, or that ran twice, may prepare or stage rows after the attempt was
        cleaned up, and the server may be away when an attempt is to be cleaned up. While a prepared transaction is
        there, the server can neither release its locks nor clean up what is older than it.
        """
        last: dict[tuple[str, int, int], int] = {}
        for one in committables:
            if (batch := self._batch(one["name"])) is not None:
                last[_place(batch)] = max(batch.batch, last.get(_place(batch), -1))
        for gid in sorted(gids):
            batch = self._batch(gid.rpartition(":")[0])
            if batch is not None and batch.batch <= last.get(_place(batch), -1):
                self.attempts.roll_back(connection, gid)
        for name in sorted(tables):
            batch = self._batch(name)
            if batch is not None and batch.batch <= last.get(_place(batch), -1):
                self.attempts.drop_unused(connection, name)

    def _batch(self, name: str) -> SinkBatch | None:
        return SinkBatch.named(name.rpartition(":")[2], job="", sink=self.sink)

    def _forget_old(self, connection: Connection, wanted: Sequence[str]) -> None:
        """Delete old names, except the `wanted` ones. Earlier versions noted parts with their attempt as the owner."""
        old = sql.SQL(
            "DELETE FROM {0} WHERE name IN (SELECT name FROM {0} WHERE (owner = %s OR starts_with(owner, %s))"
            " AND name <> ALL(%s) AND prepared_at < now() - make_interval(days => %s) LIMIT %s)"
        )
        owner = self.attempts.owner
        connection.execute(
            old.format(self.attempts.table.commits), (owner, f"{owner}:", [*wanted], _KEPT_DAYS, _FORGOTTEN_AT_ONCE)
        )

    def _move(self, connection: Connection, staged: Sequence[Committable], checkpoint: int) -> None:
        with connection.transaction():
            lock(connection, self.attempts.owner)
            done = self.attempts.committed(connection, [one["name"] for one in staged])
            for one in staged:
                if one["name"] not in done:
                    connection.execute(self._insert(connection, one, checkpoint))
                    self.attempts.drop(connection, one["name"])
                    note_commit(connection, self.attempts.table, one["name"], self.attempts.owner)

    def _insert(self, connection: Connection, committable: Committable, checkpoint: int) -> sql.Composed:
        name = committable["name"]
        staging = self.attempts.staging(name)
        found = Catalog.read(connection, staging)
        if found is None:
            raise SinkError("SINK_STAGING_LOST", sink=self.sink, path=name)
        columns = [column.name for column in found.columns if column.name != PART]
        # By what the batch was prepared with: the job may have another sink in its place by now.
        numbered = [committable["checkpoint_column"]] if "checkpoint_column" in committable else []
        values = [*map(sql.Identifier, columns), *(sql.Literal(checkpoint) for _ in numbered)]
        statement = sql.SQL(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} {} FROM {} WHERE {} = ANY({})"
        ).format(
            self.attempts.table.quoted,
            names_of([*columns, *numbered]),
            sql.SQL("DISTINCT ON ({})").format(names_of(self.key)) if self.key else sql.SQL(""),
            sql.SQL(", ").join(values),
            staging.quoted,
            sql.Identifier(PART),
            sql.Literal(committable["staged"]),  # a name may hold "%", which parameters forbid
        )
        if not self.key:
            return statement
        replaced = [
            sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(column)) for column in columns if column not in self.key
        ]
        act = sql.SQL("UPDATE SET ") + sql.SQL(", ").join(replaced) if replaced else sql.SQL("NOTHING")
        # In the order of the key, so that two jobs that write the same rows do not block each other.
        return sql.SQL("{} ORDER BY {} ON CONFLICT ({}) DO {}").format(
            statement, names_of(self.key), names_of(self.key), act
        )

    def _commit_prepared(self, connection: Connection, gid: str) -> None:
        try:
            connection.tpc_commit(gid)
        except psycopg.errors.UndefinedObject:
            if not self.attempts.committed(connection, [gid]):
                raise SinkError("SINK_STAGING_LOST", sink=self.sink, path=gid) from None


def _place(batch: SinkBatch) -> tuple[str, int, int]:
    """Return what numbers its batches by itself."""
    return batch.task, batch.subtask, batch.lineage
