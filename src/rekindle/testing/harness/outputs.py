"""The sink that stands in for a job's own: what a checkpoint commits is kept in memory, and shown as plain rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.two_phase import Committable, SinkBatch, TwoPhaseSink

Row = dict[str, Any]


class CollectingSink(TwoPhaseSink):
    """A sink that keeps rows; it outlives the drivers of one test.

    Args:
        output_modes: of the sink that it stands in for.
    """

    kind: ClassVar[str] = "Collecting"

    def __init__(self, output_modes: Sequence[str]) -> None:
        self.output_modes = tuple(output_modes)
        self._lock = threading.Lock()
        self._staged: dict[str, list[Row]] = {}
        #: attempt → its rows, in the order in which they were committed
        self._committed: dict[str, list[Row]] = {}
        self._shown = 0

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Collect the rows of a batch."""
        shown = _shown_as(df.schema)
        rows = [shown(row) for row in df.collect()]
        with self._lock:
            self._staged[batch.name] = rows
        return [{"attempt": batch.name, "rows": len(rows)}]

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Show the rows of committables; those that are shown already stay as they are."""
        with self._lock:
            for one in committables:
                name = one["attempt"]
                if name not in self._committed:
                    self._committed[name] = self._staged.pop(name)

    def abort(self, committables: Sequence[Committable]) -> None:
        """Forget the rows of committables."""
        with self._lock:
            for one in committables:
                self._staged.pop(one["attempt"], None)

    def rows(self) -> list[Row]:
        """Return what is committed."""
        with self._lock:
            return [dict(row) for rows in self._committed.values() for row in rows]

    def new_rows(self) -> list[Row]:
        """Return what was committed since this was last called."""
        rows = self.rows()
        new, self._shown = rows[self._shown :], len(rows)
        return new


def ordered(rows: Iterable[Row], by: Sequence[str]) -> list[Row]:
    """Return the rows in the order of some columns, nulls first."""
    return sorted(rows, key=lambda row: [_key(row[name]) for name in by])


def _key(value: Any) -> Any:
    if isinstance(value, dict):
        return [_key(one) for one in value.values()]
    return (value is not None, value if value is not None else 0)


def _shown_as(kind: T.DataType) -> Callable[[Any], Any]:
    """Return what makes plain values of those that PySpark has collected, some of which are in the machine's zone."""
    if isinstance(kind, T.TimestampType):
        return _in_utc
    if isinstance(kind, T.StructType):
        fields = [(field.name, _shown_as(field.dataType)) for field in kind.fields]
        return _unless_null(lambda row: {name: show(row[at]) for at, (name, show) in enumerate(fields)})
    if isinstance(kind, T.ArrayType):
        element = _shown_as(kind.elementType)
        return _unless_null(lambda values: [element(value) for value in values])
    if isinstance(kind, T.MapType):
        key, entry = _shown_as(kind.keyType), _shown_as(kind.valueType)
        return _unless_null(lambda values: {key(one): entry(other) for one, other in values.items()})
    return _as_it_is


def _in_utc(value: datetime | None) -> datetime | None:
    """Return a time of the machine's zone in UTC; PySpark says which of two it is where clocks were set back."""
    return None if value is None else value.astimezone(timezone.utc)


def _as_it_is(value: Any) -> Any:
    return value


def _unless_null(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else show(value)
