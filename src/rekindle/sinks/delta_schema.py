"""The columns of rows and of a Delta table, compared. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake import DeltaTable

_OF_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def columns_of(schema: str) -> dict[str, Any]:
    """Return name → type of the columns of a schema, as Spark and Delta write it in JSON; any may be null."""
    return {field["name"]: field["type"] for field in json.loads(schema, object_hook=relaxed)["fields"]}


def columns_in(footer: Any) -> dict[str, Any]:
    """Return the same of a Parquet file of Spark's, from its footer; empty where that does not say."""
    schema = (footer.metadata or {}).get(_OF_SPARK)
    return columns_of(schema.decode()) if schema else {}


def other_type(columns: Mapping[str, Any], table: Mapping[str, Any]) -> str | None:
    """Return which column of the rows has another type than in the table; None where none has."""
    for name, kind in columns.items():
        if name in table and table[name] != kind:
            return f"column {name!r} is {json.dumps(kind)}, in the table {json.dumps(table[name])}"
    return None


def misfit(columns: Mapping[str, Any], table: DeltaTable, *, merge: bool) -> str | None:
    """Return why rows of these columns cannot be added to a table; None where they can.

    Args:
        merge: columns may be added to the table.
    """
    fields = table.schema().fields
    if missing := sorted({field.name for field in fields if not field.nullable} - columns.keys()):
        return f"the table requires {missing}"
    has = columns_of(table.schema().to_json())
    new = [name for name in columns if name not in has]
    return other_type(columns, has) or (f"the table has no columns {new}" if new and not merge else None)


def changed(columns: Mapping[str, Any], table: Mapping[str, Any]) -> str | None:
    """Return why the table does not fit rows that it once fitted; None where it does."""
    if missing := [name for name in columns if name not in table]:
        return f"the table has no columns {missing} any more"
    return other_type(columns, table)


def relaxed(part: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a schema's JSON without its metadata, and with nulls allowed."""
    free = {"metadata": {}, "nullable": True, "containsNull": True, "valueContainsNull": True}
    return {name: free.get(name, value) for name, value in part.items()}
