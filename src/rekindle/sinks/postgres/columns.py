"""The types of a DataFrame that fit the columns of a table, and their values in PostgreSQL's binary COPY.

Rows are given to psycopg as plain Python values, one by one, so whatever a column needs is done to a whole Arrow array
before: checked conversions, and for times the number that PostgreSQL itself stores. (Python's own datetimes cost six
times as much as all the rest.)

This module must not know connections.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rekindle.sinks.reading import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PART = "rekindle_part"
"""A column of our own: in the DataFrame the number of the partition, in a staging table which part a row belongs to."""

_LONGEST_NAME = 63
"""Bytes of a name, unless PostgreSQL was built otherwise."""

_US_TO_2000 = 946_684_800_000_000
_DAYS_TO_2000 = 10_957

Encode = Callable[[Any], list[Any]]
"""A function that turns an Arrow array into what psycopg is given."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    name: str
    #: PostgreSQL's name of the type, e.g. ``int8``; ``enum`` for all of these
    type: str
    #: True: PostgreSQL fills it in rows that give it no value
    has_default: bool = False
    #: True: PostgreSQL computes it, and takes no value
    computed: bool = False
    #: True: PostgreSQL takes a value for it in a new row only
    never_updated: bool = False


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of PostgreSQL: the types of Spark that fit it, and the values that psycopg is given."""

    #: types of Spark that fit
    spark: tuple[str, ...]
    #: the type given to psycopg, whose binary form is the wanted one
    sent_as: str
    encode: Encode


def _cast(arrow_type: str) -> Encode:
    """Return an encoder that raises an error where a value does not fit, instead of cutting it off."""
    return lambda values: values.cast(arrow_type).to_pylist()


def _since_2000(arrow_type: str, offset: int) -> Encode:
    """Return an encoder of times, which PostgreSQL counts from 2000 on; one that is too early is an error."""

    def encode(values: Any) -> list[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            counted: list[Any] = pc.subtract_checked(values.cast(arrow_type), offset).to_pylist()
        except pa.ArrowInvalid as error:
            raise ValueError(f"a date or a time is out of range: {error}") from error
        return counted

    return encode


def _jsonb(values: Any) -> list[Any]:
    return [None if value is None else f"\x01{value}" for value in values.to_pylist()]  # a version, and the text


def _uuid(values: Any) -> list[Any]:
    return [None if value is None else uuid.UUID(value).bytes for value in values.to_pylist()]


_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TEXT = _Type(("string",), "text", _cast("string"))

_TYPES: Mapping[str, _Type] = {
    "bool": _Type(("boolean",), "bool", _cast("bool")),
    "int2": _Type(_WHOLE, "int2", _cast("int16")),
    "int4": _Type(_WHOLE, "int4", _cast("int32")),
    "int8": _Type(_WHOLE, "int8", _cast("int64")),
    "float4": _Type(("float",), "float4", _cast("float")),
    "float8": _Type(("float", "double"), "float8", _cast("double")),
    "numeric": _Type((*_WHOLE, "decimal"), "numeric", lambda values: values.to_pylist()),
    "text": _TEXT,
    "varchar": _TEXT,
    "bpchar": _TEXT,
    "citext": _TEXT,
    "enum": _TEXT,
    "xml": _TEXT,
    "json": _Type(("string", "json"), "text", _cast("string")),
    "jsonb": _Type(("string", "json"), "text", _jsonb),
    "uuid": _Type(("string",), "bytea", _uuid),
    "bytea": _Type(("binary",), "bytea", _cast("binary")),
    "date": _Type(("date",), "int4", _since_2000("int32", _DAYS_TO_2000)),
    "timestamptz": _Type(("timestamp",), "int8", _since_2000("int64", _US_TO_2000)),
    "timestamp": _Type(("timestamp_ntz",), "int8", _since_2000("int64", _US_TO_2000)),
}

_CREATED: Mapping[str, str] = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "json": "jsonb",
}

SENT_AS = {name: kind.sent_as for name, kind in _TYPES.items()}
"""PostgreSQL's type → the type given to psycopg."""


def encode(column: Column, values: Any) -> list[Any]:
    """Return the values of an Arrow array as psycopg is given them."""
    return _TYPES[column.type].encode(values)


def _family(spark_type: str) -> str:
    """Return the family of a type: ``decimal(10,2)`` → ``decimal``; structs, maps and arrays are written as JSON."""
    name = spark_type.partition("(")[0].partition("<")[0]
    return {"varchar": "string", "char": "string", "struct": "json", "map": "json", "array": "json"}.get(name, name)


def definition(schema: StructType) -> list[tuple[str, str]]:
    """Return the names and types of a table that is made for such rows.

    Raises:
        ValueError: with the reason, where PostgreSQL has no type for a column.
    """
    made = []
    for field in schema.fields:
        kind = field.dataType.simpleString()
        made_as = kind.replace("decimal", "numeric") if _family(kind) == "decimal" else _CREATED.get(_family(kind))
        if made_as is None:
            raise ValueError(f"column {field.name!r} is {kind}, which has no type in PostgreSQL")
        if len(field.name.encode()) > _LONGEST_NAME:
            raise ValueError(f"PostgreSQL cuts names off after {_LONGEST_NAME} bytes, also that of {field.name!r}")
        made.append((field.name, made_as))
    return made


def fitting(schema: StructType, columns: Iterable[Column]) -> list[Column]:
    """Return the columns of the table that such rows fill, in the order of the rows.

    Raises:
        ValueError: with the reason, where they do not fit.
    """
    there = {column.name: column for column in columns}
    filled = []
    for field in schema.fields:
        kind = field.dataType.simpleString()
        column = there.get(field.name)
        if column is None:
            raise ValueError(f"it has no column {field.name!r}; it has: {', '.join(there)}")
        if column.type not in _TYPES:
            raise ValueError(f"its column {column.name!r} is {column.type}, which is not supported")
        if column.computed:
            raise ValueError(f"its column {column.name!r} is GENERATED ALWAYS AS (...) STORED, and takes no values")
        if _family(kind) not in _TYPES[column.type].spark:
            wanted = " or ".join(_TYPES[column.type].spark)
            raise ValueError(f"its column {column.name!r} is {column.type} and takes {wanted}, not {kind}")
        filled.append(column)
    return filled


def expressions(schema: StructType) -> list[str]:
    """Return what Spark is to select: the columns, nested ones as JSON, and the number of the partition.

    They get plain names, since `mapInArrow` looks columns up by their names, where a dot leads into a struct.
    """
    columns = [(quoted(field.name), _family(field.dataType.simpleString())) for field in schema.fields]
    values = [f"to_json({name})" if family == "json" else name for name, family in columns]
    return [*(f"{value} AS c{index}" for index, value in enumerate(values)), f"spark_partition_id() AS {PART}"]
