"""The rights that a user needs in the database, as far as PostgreSQL tells them without a try."""

from __future__ import annotations

from psycopg import sql

from rekindle.sinks.postgres.catalog import exists
from rekindle.sinks.postgres.database import COMMITS, Connection, TableName

_ON_COLUMNS = ("INSERT",)
_ON_COMMITS = ("SELECT", "INSERT", "DELETE")


def check_rights(connection: Connection, table: TableName, *, stages: bool) -> None:
    """Raise ValueError, with the reason, where this user lacks a right that each checkpoint needs.

    Args:
        stages: each batch makes a table for its rows.
    """
    commits = table.beside(COMMITS)
    for one, rights, function in (
        (table, _ON_COLUMNS, "has_any_column_privilege"),
        (commits, _ON_COMMITS, "has_table_privilege"),
    ):
        if not exists(connection, one):
            stages = True
            continue
        name = one.quoted.as_string(connection)
        for right in rights:
            if not _may(connection, function, name, right):
                raise ValueError(f"this user has no right to {right} in {one}")
    if stages and not _may(connection, "has_schema_privilege", table.schema, "CREATE"):
        raise ValueError(f"this user has no right to create tables in the schema {table.schema}")


def _may(connection: Connection, function: str, name: str, right: str) -> bool:
    asked = sql.SQL("SELECT {}(%s, %s)").format(sql.Identifier(function))
    return connection.execute(asked, (name, right)).fetchone() == (True,)
