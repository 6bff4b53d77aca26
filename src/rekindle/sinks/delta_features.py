"""Features of a Delta table that Spark's Parquet writer knows nothing of: such a table is refused by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltalake import DeltaTable

_REFUSED_PROPERTIES = ("delta.columnMapping.mode", "delta.constraints.", "delta.enableRowTracking")
_REFUSED_OF_COLUMNS = ("delta.generationExpression", "delta.identity.", "delta.invariants")


def features_refused(table: DeltaTable) -> list[str]:
    """Return the names of a table's features that no file of ours would honour."""
    set_to = table.metadata().configuration
    return [
        *(name for name in set_to if name.startswith(_REFUSED_PROPERTIES) and set_to[name] not in {"none", "false"}),
        *(name for field in table.schema().fields for name in field.metadata if name.startswith(_REFUSED_OF_COLUMNS)),
    ]
