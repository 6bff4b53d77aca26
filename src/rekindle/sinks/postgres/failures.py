"""The errors of this sink: a server that failed is tried again, rows that it refuses are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from rekindle.errors import SinkError
from rekindle.sinks.postgres.database import redacted


def refuses_rows(error: Exception) -> bool:
    """Return whether the rows are what is wrong: the same ones are refused again, whenever they come.

    Rows that a foreign key refers to may come later. A ValueError is of a value that was not sent to the server.
    """
    if isinstance(error, psycopg.errors.ForeignKeyViolation):
        return False
    return isinstance(error, psycopg.DataError | psycopg.IntegrityError | ValueError)


def failure(sink: str, said: str, rows_refused: bool) -> SinkError:
    """Return the error for what the server, or an executor, has said."""
    code = "SINK_ROWS_REFUSED" if rows_refused else "SINK_SERVER_FAILED"
    return SinkError(code, sink=sink, server="PostgreSQL", reason=said)


@contextmanager
def failures(sink: str, dsn: str) -> Iterator[None]:
    """Turn what the server says into an error of ours, without its cause, which may hold the password."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(sink, redacted(error, dsn), refuses_rows(error)) from None
