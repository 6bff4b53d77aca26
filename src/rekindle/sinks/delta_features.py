"""Features of a Delta table that Spark's Parquet writer knows nothing of: such a table is refused by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltalake import DeltaTable

_REFUSED_PROPERTIES = ("delta.columnMapping.mode", "delta.constraints.", "delta.enableRowTracking")
_REFUSED_OF_COLUMNS = ("delta.generationExpression", "delta.identity.", "delta.invariants")


def not_honoured(table: DeltaTable) -> str | None:
    """Return which features of a table no file of ours would honour; None where it has none."""
    set_to = table.metadata().configuration
    refused = [
        *(name for name in set_to if name.startswith(_REFUSED_PROPERTIES) and set_to[name] not in {"none", "false"}),
        *(name for field in table.schema().fields for name in field.metadata if name.startswith(_REFUSED_OF_COLUMNS)),
    ]
    if not refused:
        return None
    return f"the table has {', '.join(sorted(refused))}, which Spark's Parquet writer does not honour"
