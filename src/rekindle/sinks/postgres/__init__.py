"""A table in PostgreSQL. `sink` is the driver's side, `writer` the executors'; `columns` says what fits where.

Needs the extra ``rekindle[postgres]`` (psycopg 3, stamina), on the driver and on the executors.
"""

from rekindle.sinks.postgres.sink import Postgres

__all__ = ["Postgres"]
