"""Columns of an Iceberg table: Arrow's type for each of Spark's, and the SQL that splits rows by a partition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rekindle.sinks.reading import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction

_UTC_DAY = "date_from_unix_date(int((unix_micros({0}) - pmod(unix_micros({0}), 86400000000)) div 86400000000))"
_UTC_HOUR = "(unix_micros({0}) - pmod(unix_micros({0}), 3600000000)) div 3600000000"

_SPLITS = {
    ("year", "timestamptz"): f"trunc({_UTC_DAY}, 'YEAR')",
    ("month", "timestamptz"): f"trunc({_UTC_DAY}, 'MM')",
    ("day", "timestamptz"): _UTC_DAY,
    ("hour", "timestamptz"): _UTC_HOUR,
    ("year", ""): "year({0})",
    ("month", ""): "trunc(date({0}), 'MM')",
    ("day", ""): "date({0})",
    ("hour", ""): "concat(date({0}), ' ', hour({0}))",
    ("identity", "string"): "concat('=', {0})",  # Spark has one folder for null and for ''
    ("identity", ""): "{0}",
}
"""Transform of a partition and type of its column ('' for all others) → SQL that splits rows into its files."""


def split_by(transform: str, kind: str) -> str | None:
    """Return SQL that splits rows as a partition does; None where there is none for this transform."""
    return _SPLITS.get((transform, kind)) or _SPLITS.get((transform, ""))


def source_of(schema: Schema, number: int) -> str:
    """Return SQL of the column with a number; it may be inside of a struct."""
    for field in schema.fields:
        if field.field_id == number:
            return quoted(field.name)
    return ".".join(map(quoted, (schema.find_column_name(number) or "").split(".")))


def fitting(table: Table, struct: Mapping[str, Any], *, merge: bool) -> Transaction | None:
    """Return the change, not made yet, after which rows fit a table; None: they fit it as it is.

    Args:
        struct: Spark's JSON of their schema.
        merge: columns may be added, and made wider.

    Raises:
        ValueError: with the reason, where they do not fit. pyiceberg raises errors of its own for types.
    """
    import pyarrow as pa

    required = {field.name for field in table.schema().fields if field.required}
    certain = {field["name"] for field in struct["fields"] if not field["nullable"]}
    if lacking := sorted(required - certain):
        raise ValueError(f"the table requires {lacking}, which may be null")
    change = table.transaction()
    with change.update_schema() as update:
        columns = [field.with_nullable(field.name not in required) for field in arrow_schema(struct)]
        update.union_by_name(pa.schema(columns))
    if change.table_metadata.schema() == table.schema():
        return None
    if not merge:
        new = {field.name for field in change.table_metadata.schema().fields} - set(table.schema().column_names)
        raise ValueError(f"the table has no columns {sorted(new)}" if new else "its columns are narrower")
    return change


def check_new(struct: Mapping[str, Any], partition_by: Sequence[str]) -> None:
    """Raise ValueError where no table can be made for rows of a schema, partitioned by these columns."""
    names = arrow_schema(struct).names
    for name in partition_by:
        if name not in names:
            raise ValueError(f"it cannot be partitioned by {name!r}, which is missing")


def arrow_schema(struct: Mapping[str, Any]) -> pa.Schema:
    """Return Arrow's schema for Spark's JSON of a schema."""
    import pyarrow as pa

    return pa.schema([(field["name"], _arrow(field["type"])) for field in struct["fields"]])


def _arrow(kind: Any) -> pa.DataType:
    """Return Arrow's type for Spark's JSON of a type; raise ValueError where Iceberg has none."""
    import pyarrow as pa

    names = {
        "boolean": pa.bool_(),
        "byte": pa.int32(),
        "short": pa.int32(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    if isinstance(kind, str) and kind in names:
        return names[kind]
    if isinstance(kind, str) and kind.startswith("decimal("):
        precision, scale = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if isinstance(kind, dict) and kind["type"] == "struct":
        return pa.struct(list(arrow_schema(kind)))
    if isinstance(kind, dict) and kind["type"] == "array":
        return pa.list_(_arrow(kind["elementType"]))
    if isinstance(kind, dict) and kind["type"] == "map":
        return pa.map_(_arrow(kind["keyType"]), _arrow(kind["valueType"]))
    raise ValueError(f"Iceberg has no type for {json.dumps(kind)}")
