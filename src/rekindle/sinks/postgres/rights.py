"""The rights that a user needs, asked for before anything runs: no batch finds out that a commit lacks one.

Rights for single columns are rights, too. What an upsert may update depends on its rows, and is not asked for.
"""

from __future__ import annotations

from psycopg import sql

from rekindle.sinks.postgres.catalog import exists
from rekindle.sinks.postgres.database import COMMITS, Connection, TableName

_TABLE_RIGHT = """
SELECT CASE %(right)s WHEN 'DELETE' THEN has_table_privilege(%(table)s, 'DELETE')
    ELSE has_any_column_privilege(%(table)s, %(right)s) END
"""


def check_rights(connection: Connection, table: TableName, *, stages: bool) -> None:
    """Raise ValueError, with the statements that give them, where the user lacks rights.

    Args:
        stages: all rows wait in tables that are made for them.
    """
    needed = {table.beside(COMMITS): ("SELECT", "INSERT", "DELETE"), table: ("INSERT",)}
    creates, missing = stages, []
    for of, rights in needed.items():
        if not exists(connection, of):
            creates = True
            continue
        name = of.quoted.as_string()
        lacking = [right for right in rights if not _has(connection, _TABLE_RIGHT, right=right, table=name)]
        missing += [f"{', '.join(lacking)} ON {name}"] if lacking else []
    if creates and not _has(connection, "SELECT has_schema_privilege(%(schema)s, 'CREATE')", schema=table.schema):
        missing.append(f"CREATE ON SCHEMA {sql.Identifier(table.schema).as_string()}")
    if missing:
        [(user,)] = connection.execute("SELECT current_user").fetchall()
        to = sql.Identifier(user).as_string()
        raise ValueError(f"its user lacks rights: {'; '.join(f'GRANT {right} TO {to}' for right in missing)}")


def _has(connection: Connection, asked: str, **of: str) -> bool:
    return connection.execute(asked, of).fetchone() == (True,)
