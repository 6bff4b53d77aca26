"""Values of a column that rises: as the database writes them, as Spark reads them, as a position holds them. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from rekindle.errors import DefinitionError, InputError
from rekindle.sources.split_source import Json

_FAR = 2**62
"""Largest number that bounds a range for Spark to divide."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)( \d\d:\d\d:\d\d)?(?:\.\d+)?([+-]\d\d(?::\d\d)?)?")


def refuse_changed(table: str, before: Any, now: Any, *, changed: Callable[[], None]) -> None:
    """Raise ``JDBC_COLUMNS_CHANGED`` if a column has another type than before. Both are schemas of Spark.

    Args:
        changed: called before that.
    """
    for old, new in zip(before, now, strict=True):
        if old.dataType != new.dataType:
            changed()
            kinds = f"{old.name} is {new.dataType.simpleString()} now, and was {old.dataType.simpleString()}"
            raise InputError("JDBC_COLUMNS_CHANGED", table=table, reason=kinds)


class Family(Enum):
    """Types whose values are in one order: a column may change its type within one."""

    NUMBER = "number"
    TIMESTAMP = "timestamp without time zone"
    INSTANT = "timestamp with time zone"
    DATE = "date"
    TEXT = "text"
    UUID = "uuid"

    @property
    def is_time(self) -> bool:
        """True if a value may be as old as the transaction that writes it: ``now()`` is when that began."""
        return self in (Family.TIMESTAMP, Family.INSTANT, Family.DATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value of the column, as the database writes it."""

    text: str
    family: Family


FAMILIES = {
    "smallint": Family.NUMBER,
    "integer": Family.NUMBER,
    "bigint": Family.NUMBER,
    "numeric": Family.NUMBER,
    "timestamp without time zone": Family.TIMESTAMP,
    "timestamp with time zone": Family.INSTANT,
    "date": Family.DATE,
    "text": Family.TEXT,
    "character varying": Family.TEXT,
    "character": Family.TEXT,
    "uuid": Family.UUID,
}
"""PostgreSQL's types of columns that can rise."""

ENDLESS = {"infinity", "Infinity", "NaN"}
"""Values after which no other comes."""


def of_spark(found: Any) -> tuple[str, Family | None]:
    """Return a value as Spark has read it: its text, and its family, which is None where it does not rise."""
    if isinstance(found, bool):
        return str(found), None
    if isinstance(found, dt.datetime):
        return found.isoformat(sep=" ", timespec="microseconds"), Family.TIMESTAMP if found.tzinfo is None else None
    families = {int: Family.NUMBER, Decimal: Family.NUMBER, dt.date: Family.DATE, str: Family.TEXT}
    return f"{found:f}" if isinstance(found, Decimal) else str(found), families.get(type(found))


def given_value(given: Any) -> Value | None:
    """Return a value that a user has said; None where values of its type do not rise."""
    if isinstance(given, dt.datetime) and given.tzinfo is not None:
        return Value(text=given.isoformat(sep=" "), family=Family.INSTANT)
    text, family = of_spark(given)
    return None if family is None else Value(text=text, family=family)


def next_time(value: Value) -> Value | None:
    """Return the time a microsecond after a time without a zone; None of other values, and after the last one."""
    if value.family is not Family.TIMESTAMP:
        return None
    try:
        return given_value(dt.datetime.fromisoformat(value.text) + dt.timedelta(microseconds=1))
    except OverflowError:
        return None


def bounds_of(first: Value, last: Value) -> tuple[str, str] | None:
    """Return about where a range begins and ends, as Spark takes it to divide it; None: it cannot be divided."""
    if first.family is Family.NUMBER:
        lower, upper = (str(max(-_FAR, min(_FAR, int(Decimal(one.text))))) for one in (first, last))
        return lower, upper
    found = _TIME.fullmatch(first.text), _TIME.fullmatch(last.text)
    if None in found or not first.family.is_time:
        return None
    lower, upper = ("".join(one.groups("")) for one in found if one)
    # Within hours the clock of Spark's zone may be put back, and the end would come before the beginning.
    is_short = first.family is Family.TIMESTAMP and lower[:10] == upper[:10]
    return None if is_short else (lower, upper)


def value_of(json: Json) -> Value | None:
    return None if json is None else Value(text=json["value"], family=Family(json["type"]))


def json_of(value: Value) -> Json:
    return {"value": value.text, "type": value.family.value}


def refused(argument: str, value: object, reason: str, hint: str) -> DefinitionError:
    """Return the error of an argument of `Jdbc`."""
    return DefinitionError(
        "ARGUMENT_INVALID", what="rk.sources.Jdbc", argument=argument, value=value, reason=reason, hint=hint
    )
