"""Connections and statements that both sides use, and what must never be shown: the password.

Identifiers and names come from users: they go into statements through `psycopg.sql` and as parameters only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
import stamina
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rekindle.sinks import retrying

Connection = psycopg.Connection[tuple[Any, ...]]

COMMITS = "rekindle_commits"
"""The table of what has been committed: each transaction writes its own name into it."""

# A wait of a minute for a lock never ends: an error says so. A driver that is frozen in the middle of a transaction
# loses its locks before that, so that the one that has taken over can commit. And what is prepared has to survive.
_SESSION = """
SELECT set_config('lock_timeout', '60s', false) WHERE current_setting('lock_timeout') = '0'
UNION ALL SELECT set_config('idle_in_transaction_session_timeout', '30s', false)
    WHERE current_setting('idle_in_transaction_session_timeout') = '0'
UNION ALL SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""

PATIENCE_S = 20.0
ATTEMPTS = 12
"""More than there are in that time if each fails at once, as where the server's port is closed."""


_LINK = {
    "connect_timeout": "20",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""Without these, a connection to a server that the network has lost may wait for many minutes."""


def patience(dsn: str) -> dict[str, str]:
    """Return the settings of a connection that limit how long a silent server is waited for; none of the user's own.

    Raises:
        psycopg.Error: the connection string cannot be read.
    """
    given = conninfo_to_dict(dsn)
    if "service" in given:
        return {}  # the file may have settings
    of_environment = {"connect_timeout"} if "PGCONNECT_TIMEOUT" in os.environ else set()
    return {name: value for name, value in _LINK.items() if name not in given.keys() | of_environment}


def connect(dsn: str, what: str) -> Connection:
    """Return a connection in autocommit; a server that is being restarted is waited for, `PATIENCE_S` at most."""
    for attempt in retrying.trying(_may_connect(dsn), ATTEMPTS, PATIENCE_S):
        with attempt:
            # Not a pool: a batch and a commit need one for a moment, and each finds the server as it is then.
            settings: dict[str, Any] = {"fallback_application_name": what[:63], **patience(dsn)}
            connection = psycopg.connect(dsn, autocommit=True, **settings)
            connection.execute(_SESSION)
            return connection
    raise AssertionError("stamina raises what the last attempt has raised")


def trying() -> Iterator[stamina.Attempt]:
    """Try again where the connection is lost, or another driver is at the same transaction at this moment."""
    return retrying.trying(_may_pass, ATTEMPTS, PATIENCE_S)


_REFUSALS = 3

_REFUSING = ("28", "3D")
"""Classes of SQLSTATE: the user is not let in, or the database is not there."""


def _may_pass(error: Exception) -> bool:
    if isinstance(error, psycopg.errors.IdleInTransactionSessionTimeout):
        return True
    return isinstance(error, psycopg.OperationalError) and not (error.sqlstate or "").startswith(_REFUSING)


def _may_connect(dsn: str, ping_s: int = 2) -> Callable[[Exception], bool]:
    """Return a function that says whether to try again to connect, where the reason has no SQLSTATE, only words.

    A server that takes connections, and refuses this one, has a reason that lasts. It may also have come up since: so
    that is seen `_REFUSALS` times.
    """
    refusals = count(1)

    def may_connect(error: Exception) -> bool:
        if not _may_pass(error) or getattr(error, "sqlstate", None) is not None:
            return _may_pass(error)
        return _is_away(dsn, error, ping_s) or next(refusals) < _REFUSALS

    return may_connect


def _is_away(dsn: str, error: Exception, ping_s: int) -> bool:
    """Return True where the server that refused a connection takes none at this moment, or does not answer.

    libpq's ping stops all threads of this process, so it goes to the address that refused alone, for a short time.
    """
    refused = error.pgconn if isinstance(error, psycopg.Error) else None
    if refused is None:
        return True  # no server answered in time, or the name of its host is not known
    if refused.used_password or refused.needs_password:
        return False  # a server that is starting or ending asks for none
    address = {"host": refused.host.decode(), "hostaddr": refused.hostaddr.decode(), "port": refused.port.decode()}
    asked = make_conninfo(dsn, **address, connect_timeout=ping_s)
    return pq.PGconn.ping(asked.encode()) in (pq.Ping.REJECT, pq.Ping.NO_RESPONSE)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name, with its schema."""

    schema: str
    name: str

    @property
    def quoted(self) -> sql.Identifier:
        """Return the name as it is written in a statement."""
        return sql.Identifier(self.schema, self.name)

    def beside(self, name: str) -> TableName:
        """Return the name of another table in the same schema."""
        return TableName(self.schema, name)

    @property
    def commits(self) -> sql.SQL:
        """Return the table of the names of commits, as it is written in a statement with parameters."""
        return sql.SQL(self.beside(COMMITS).quoted.as_string().replace("%", "%%"))

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


def note_commit(connection: Connection, table: TableName, name: str, owner: str) -> None:
    """Note, in the transaction that is open, that `name` was committed."""
    connection.execute(sql.SQL("INSERT INTO {} (name, owner) VALUES (%s, %s)").format(table.commits), (name, owner))


def names_of(columns: Iterable[str]) -> sql.Composed:
    """Return the names of columns, quoted, with commas."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in columns)


def described(dsn: str) -> str:
    """Return where a connection string leads, without secrets."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "a connection string that cannot be read"
    return " ".join(f"{key}={parts[key]}" for key in ("host", "port", "dbname", "user") if key in parts)


def dataset_of(dsn: str, table: TableName) -> tuple[str, str]:
    """Return the server and the full name of a table, as OpenLineage names them."""
    parts = conninfo_to_dict(dsn)
    place = f"postgres://{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}"
    return place, f"{parts.get('dbname') or parts.get('user') or ''}.{table.schema or 'public'}.{table.name}"


def redacted(error: BaseException, dsn: str) -> str:
    """Return what an error says, in one line, without the password; a malformed connection string is not repeated."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "the connection string cannot be read: use 'host=... dbname=...' or 'postgresql://...'"
    said = " ".join(str(error).split()) or type(error).__name__
    for secret in ("password", "sslpassword"):
        if value := parts.get(secret):
            said = said.replace(" ".join(str(value).split()), "***")
    return said
