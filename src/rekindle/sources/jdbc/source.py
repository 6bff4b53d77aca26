"""`Jdbc`: a table that grows, as a source of one split. Spark's own JDBC reader reads the rows, and asks what is there.

A read is a range of the column: after the position, up to a value that has *settled* (see `settling`), and no more rows
than a batch should have. The position is the end of the range. So rows with the same value are always in one read.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rekindle.config import duration_ms
from rekindle.errors import InputError
from rekindle.sources.connectors import driver_needed
from rekindle.sources.jdbc.dialects import Relation, dataset_of, dialect_of
from rekindle.sources.jdbc.settling import Candidate
from rekindle.sources.jdbc.values import (
    ENDLESS,
    FAMILIES,
    Family,
    Value,
    bounds_of,
    given_value,
    json_of,
    of_spark,
    refuse_changed,
    refused,
    value_of,
)
from rekindle.sources.split_source import Json, SplitSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Options = Mapping[str, str]

Answer = Mapping[str, Any]
"""The one row that a question has for an answer, by columns, see `Dialect.look`."""

_DEFAULTS = {"fetchsize": "10000"}
"""Options of the reader: without this one PostgreSQL's driver holds all rows of a read in memory."""


class Jdbc(SplitSource):
    """A table, or what a query gives, read by a column whose values rise: each row once, in the order of the column.

    A row is read if its value is greater than all that was read before. So a row whose value was changed to a greater
    one is read again, as it is then; other changes and deletions are not seen. Rows are not read before all rows with
    smaller values are visible; `lag` says how that is known.

    Args:
        url: of JDBC, ``"jdbc:postgresql://host/database"``.
        table: ``"table"`` or ``"schema.table"``; a pair where a name holds a dot. Letters are taken as they are.
        column: rises with each row that comes, or that changes; has no nulls: a number, a timestamp, a date, a text
            or a uuid. Rows may have the same value.
        query: a SELECT, instead of `table`. It has that column.
        after: rows with this value or a smaller one are not read: where a history ends that the table continues.
            Looked at when the job first reads. None: all are read.
        bounded: end at the greatest value that is there when the job first reads.
        lag: how long a value is to have been there before rows up to it are read, e.g. ``"1 minute"``; longer than any
            transaction that writes takes. None: on PostgreSQL for as long as transactions run that may write a smaller
            one; elsewhere it has to be said.
        rows_per_read: how many rows a batch has, and all others with the value of the last one.
        partitions: how many connections read a batch, each a range of the column, where that is a number or a time.
        options: of Spark's JDBC reader, such as ``user``, ``password``, ``driver``; or a function that returns them,
            called whenever the server is asked. Never stored, logged or shown.
        poll_every: how often it is looked for new rows.

    Raises:
        DefinitionError: ``ARGUMENT_INVALID``; when the job starts, ``JDBC_DRIVER_MISSING``.
        ConfigError: ``VALUE_INVALID`` for a time that cannot be understood.
    """

    kind: ClassVar[str] = "Jdbc"

    def __init__(
        self,
        url: str,
        table: str | tuple[str, str] | None = None,
        *,
        column: str,
        query: str | None = None,
        after: int | str | dt.date | None = None,
        bounded: bool = False,
        lag: str | None = None,
        rows_per_read: int = 1_000_000,
        partitions: int = 1,
        options: Options | Callable[[], Options] | None = None,
        poll_every: str = "5 seconds",
    ) -> None:
        self.bounded = bounded
        self.poll_every = poll_every
        self.schema = self._inferred
        try:
            self._dialect = dialect_of(url)
        except ValueError:
            raise refused("url", "(not shown)", "It is no address of JDBC.", "Use 'jdbc:postgresql://...'.") from None
        if (table is None) == (query is None):
            raise refused("table", table, "A table or a query is read, not both.", "Say one of them.")
        for name, value in {"rows_per_read": rows_per_read, "partitions": partitions}.items():
            if value < 1:
                raise refused(name, value, "It is a number of 1 or more.", "Leave it out for the usual one.")
        self._first = None if after is None else given_value(after)
        if after is not None and self._first is None:
            raise refused("after", after, "Values of its type do not rise.", "Use a number, a time, a date or a text.")
        if lag is None and not self._dialect.knows_transactions:
            hint = "Say a time that is longer than any transaction; '0 seconds' where one writer brings all rows."
            raise refused("lag", lag, "Only PostgreSQL says which transactions run.", hint)
        self._lag_s = None if lag is None else duration_ms("lag", lag) / 1000
        names = [table] if isinstance(table, str) else list(table or ())
        self._table = names[0].split(".", 1) if len(names) == 1 else names
        self._place = ".".join(self._table) or "a query"
        self._of: Relation = self._dialect.relation(self._table, query, column)
        self._url, self._column, self._options = url, column, options
        self._rows_per_read, self._partitions = rows_per_read, partitions
        #: columns of the rows, once they are known: one list of all copies that read
        self._columns: list[StructType] = []
        #: position that the last read led to; what is noted below holds from there on
        self._stands: Json = None
        #: waits until it settles
        self._candidate: Candidate | None = None
        #: type of the column as it is now
        self._family: Family | None = None
        #: looks for the greatest value that are left to make: one in a run of what is available now
        self._looks = math.inf
        #: up to which all rows are there
        self._settled: Value | None = None
        #: greatest value that was seen, where that is not after what was read
        self._below: Value | None = None
        #: True: there was no row at all after some were read
        self._emptied = False

    @property
    def dataset(self) -> tuple[str, str] | None:
        """Return server and table as OpenLineage names them; None of a query, or where the address does not tell."""
        return dataset_of(self._url, self._table)

    def splits(self) -> Iterable[Json]:
        """See `SplitSource`: the table is one."""
        return ["table"]

    def prepare_for_available_now(self, spark: SparkSession) -> None:
        """See `SplitSource`: the greatest value that the first read finds is the last one."""
        self._looks = 1

    def has_caught_up(self, split: Json, position: Json) -> bool:
        """See `SplitSource`: what was there has been read, or waits until it has settled."""
        return self._candidate is None

    def read(self, spark: SparkSession, split: Json, position: Json) -> tuple[DataFrame | None, Json, bool]:
        """See `SplitSource`."""
        if position != self._stands:
            self._settled = self._candidate = self._below = None
            self._emptied = False
        self._stands = position
        after, until = (value_of((position or {}).get(name)) for name in ("after", "until"))
        after = after or self._first
        upto = until or self._settled or (self._look(spark, after) if self._looks else None)
        if upto is None:
            # With nothing to come the end is reached, where there is one.
            return None, position, self.bounded and self._candidate is None
        self._settled = upto
        end = self._end_of_batch(spark, after, upto)
        self._refuse_finer(spark, end)
        frame = self._rows(spark, after, end)
        if end.text == upto.text:
            self._settled = None
        self._stands = {"after": json_of(end), **({"until": json_of(upto)} if self.bounded else {})}
        return frame, self._stands, self.bounded and end.text == upto.text

    # -- how far all rows are there -----------------------------------------------------------------------------------

    def _look(self, spark: SparkSession, after: Value | None) -> Value | None:
        """Return a value after the position up to which all rows are there; None where there is none yet."""
        found = self._ask(spark, self._dialect.look(self._of, after, self._below))
        assert found is not None
        self._refuse_nulls(spark, found)
        running = self._running(found)
        now_s, candidate = time.monotonic(), self._candidate
        # Of what the user has said nothing was read: values may rise below it, and the database knows its type.
        was_read = None if after == self._first else after
        if candidate is not None:
            candidate = candidate.looked(running)
        elif found["rk_value"] is None:
            self._emptied = was_read is not None
        else:
            newest = self._readvalue_of(found["rk_value"], found.get("rk_type"))
            if was_read is not None and was_read.family is not newest.family:
                raise self._unusable(f"it is {newest.family.value} now, and was {was_read.family.value}.")
            if found["rk_is_after"]:
                self._below, self._emptied = None, False
                self._family = newest.family
                candidate = Candidate.seen(newest.text, self._running(found), now_s, self._lag_s or 0.0)
            elif was_read is not None:
                self._refuse_smaller(found, was_read, newest)
        if candidate is not None and not candidate.is_settled(now_s):
            self._candidate = candidate
            return None
        self._candidate, self._looks = None, self._looks - 1
        if candidate is None:
            return None
        assert self._family is not None
        return Value(text=candidate.value, family=self._family)

    def _running(self, found: Answer) -> list[str]:
        """Return the transactions to wait for."""
        if self._lag_s is not None:
            return []
        if found["rk_replica"]:
            raise self._unusable("the server is a replica, which does not know what runs on its primary.")
        writers_only = self._family_of(found) not in (None, *(one for one in Family if one.is_time))
        return str(found["rk_writers" if writers_only else "rk_running"] or "").split()

    def _family_of(self, found: Answer) -> Family | None:
        return FAMILIES.get(found["rk_type"])

    def _refuse_nulls(self, spark: SparkSession, found: Answer) -> None:
        asking = self._dialect.nulls(self._of)
        if found["rk_nulls"] if asking is None else self._ask(spark, asking) is not None:
            raise self._unusable("it is null in some rows, which would never be read.")

    def _refuse_finer(self, spark: SparkSession, value: Value) -> None:
        if (asking := self._dialect.finer(self._of, value)) is not None and self._ask(spark, asking) is not None:
            raise self._unusable("its times are finer than a microsecond, which is as fine as Spark reads them.")

    def _refuse_smaller(self, found: Answer, after: Value, newest: Value) -> None:
        """Refuse a column that began again below what was read. That rows are deleted there is no sign of it."""
        if self._emptied or (found["rk_rose"] and self._below is not None):
            raise self._unusable(f"new rows have values up to {newest.text}, and all up to {after.text} were read.")
        self._below = newest

    def _readvalue_of(self, found: Any, kind: str | None) -> Value:
        if kind is not None:
            text, family = str(found), FAMILIES.get(kind)
        else:
            text, family = of_spark(found)
        if family is None:
            raise self._unusable(f"its type is {kind or type(found).__name__}, whose values do not rise.")
        if text.lstrip("-") in ENDLESS:
            raise self._unusable(f"it holds {text!r}, after which nothing comes.")
        return Value(text=text, family=family)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _end_of_batch(self, spark: SparkSession, after: Value | None, upto: Value) -> Value:
        found = self._ask(spark, self._dialect.nth(self._of, after, upto, self._rows_per_read))
        return upto if found is None else self._again(found["rk_value"], upto)

    def _again(self, found: Any, like: Value) -> Value:
        text = str(found) if self._dialect.knows_transactions else of_spark(found)[0]
        return Value(text=text, family=like.family)

    def _rows(self, spark: SparkSession, after: Value | None, upto: Value) -> DataFrame:
        known = self._inferred(spark)
        more = self._partitioned(spark, after, upto) if self._partitions > 1 else {}
        frame = self._load(spark, self._dialect.rows(self._of, known.fieldNames(), after, upto), more)
        # The next start asks for them again, in this process too.
        refuse_changed(self._place, known, frame.schema, changed=self._columns.clear)
        return frame

    def _partitioned(self, spark: SparkSession, after: Value | None, upto: Value) -> Options:
        """Return what lets Spark read a range by several connections. Which rows are read does not depend on it."""
        first = after
        if first is None:
            found = self._ask(spark, self._dialect.nth(self._of, None, upto, 1))
            first = None if found is None else self._again(found["rk_value"], upto)
        if first is None or (bounds := bounds_of(first, upto)) is None:
            return {}
        names = ("partitionColumn", "lowerBound", "upperBound", "numPartitions")
        return dict(zip(names, (self._column, *bounds, str(self._partitions)), strict=True))

    def _inferred(self, spark: SparkSession) -> StructType:
        """Return the columns as they were when the job started here: one that comes later is not read."""
        found = self._columns[:1]
        if not found:
            with driver_needed(self._url):
                found = self._columns[:] = [self._load(spark, self._dialect.columns(self._of)).schema]
        return found[0]

    def _ask(self, spark: SparkSession, sql: str) -> Answer | None:
        # A time without a zone is to come as it is in the table; what is an instant even so is written in some zone.
        frame = self._load(spark, sql, {"preferTimestampNTZ": "true"})
        if any(field.dataType.typeName() == "timestamp" for field in frame.schema):
            raise self._unusable("it is a time with a time zone, by which only PostgreSQL is read.")
        found = frame.first()
        return None if found is None else {name.lower(): value for name, value in found.asDict().items()}

    def _load(self, spark: SparkSession, sql: str, more: Options | None = None) -> DataFrame:
        given = self._options() if callable(self._options) else self._options or {}
        driver = {"driver": self._dialect.driver} if self._dialect.driver else {}
        place = {"url": self._dialect.address(self._url), "dbtable": f"({sql}) rk_read"}
        return spark.read.format("jdbc").options(**{**_DEFAULTS, **driver, **given, **(more or {}), **place}).load()

    def _unusable(self, reason: str) -> InputError:
        return InputError("JDBC_COLUMN_UNUSABLE", column=self._column, table=self._place, reason=reason)
