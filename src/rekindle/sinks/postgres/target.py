"""The table that a sink writes to: what it has to be like for this sink, and for rows of a schema.

This module must not know batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.sinks.postgres.catalog import Catalog, make_commits, make_table
from rekindle.sinks.postgres.checkpoint_column import TYPE, CheckpointColumn
from rekindle.sinks.postgres.columns import Column, definition, fitting
from rekindle.sinks.postgres.database import Connection, TableName
from rekindle.sinks.postgres.rights import check_rights

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Target:
    """A table as one sink needs it. All methods raise ValueError, with the reason, where it is not so."""

    table: TableName
    #: columns of an upsert; empty: rows are added
    key: Sequence[str]
    number: CheckpointColumn | None

    def read(self, connection: Connection) -> Catalog | None:
        """Read the table; None where there is none."""
        found = Catalog.read(connection, self.table)
        if found is not None:
            found.check_key(self.key)
            if self.number is not None:
                self.number.check(found)
        return found

    def writable(self, connection: Connection, *, stages: bool) -> Catalog | None:
        """Read the table; the user must have the rights that batches and commits need (`check_rights`)."""
        found = self.read(connection)
        check_rights(connection, self.table, stages=stages)
        return found

    def read_or_make(self, connection: Connection, schema: StructType) -> Catalog:
        """Read the table; make it for rows of a schema, where it is not there, and `rekindle_commits` beside it."""
        make_commits(connection, self.table)
        found = self.read(connection)
        if found is None:
            make_table(connection, self.table, self._definition(schema), self.key)
            found = self.read(connection)
        if found is None:
            raise ValueError("it was dropped at this moment")
        return found

    def columns(self, schema: StructType, found: Catalog | None) -> list[Column]:
        """Return the columns that rows of a schema fill; none yet of a table that is to be made for them."""
        self._refuse_number(schema)
        if found is None:
            self._definition(schema)
            return []
        columns = fitting(schema, found.columns)
        found.check_updates(columns, self.key)
        return columns

    def _definition(self, schema: StructType) -> list[tuple[str, str]]:
        self._refuse_number(schema)
        return [*definition(schema), *([] if self.number is None else [(self.number.name, TYPE)])]

    def _refuse_number(self, schema: StructType) -> None:
        if self.number is not None and self.number.name in schema.names:
            raise ValueError(f"they have a column {self.number.name!r}, which is the checkpoint_column")
