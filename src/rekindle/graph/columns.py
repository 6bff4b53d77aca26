"""The changes of a task's columns, as far as readers of its channels see them.

Rows in flight were written with the columns that the task had then, and are read with those that it has now. A column
that a file does not have is null. A column that is not read is left out. Spark 4.0 or later reads a narrower type as a
wider one. Columns are compared as Spark finds them in a file: upper and lower case are the same.

Schemas are Spark's, as JSON. This module does not know where rows lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rekindle.graph.changes import Change, ChangeKind

Json = Mapping[str, Any]

_WIDER: dict[str, tuple[str, ...]] = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
"""A type in a Parquet file → the wider ones that Spark reads it as."""

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def column_changes(task: str, before: Json, now: Json, *, widens: bool) -> Iterator[Change]:
    """Find the differences in the columns that a task puts into its channels.

    Args:
        before: all columns that rows in flight may have.
        widens: True if this Spark reads narrower types as wider ones.
    """
    old = {field["name"].lower(): field for field in before["fields"]}
    new = {field["name"].lower(): field for field in now["fields"]}
    for name in dict.fromkeys((*new, *old)):
        if name not in old:
            yield Change(kind=ChangeKind.COLUMN_ADDED, uid=task, what=f"puts out {new[name]['name']} too")
        elif name not in new:
            yield Change(kind=ChangeKind.COLUMN_DROPPED, uid=task, what=f"puts out {old[name]['name']} no more")
        elif (types := (old[name]["type"], new[name]["type"]))[0] != types[1]:
            shown = [_shown(one) for one in types]
            kind = ChangeKind.TYPE_WIDENED if widens and _reads(*types) else ChangeKind.TYPE_CHANGED
            what = f"puts out {new[name]['name']} as {shown[1]}, and not as {shown[0]}"
            parameters = {"task": task, "column": new[name]["name"], "before": shown[0], "now": shown[1]}
            yield Change(kind=kind, uid=task, what=what, parameters=parameters)


def known_columns(before: Json, now: Json) -> Json:
    """Return all columns that rows in flight may have: those of now, and those that were dropped."""
    new = {field["name"].lower() for field in now["fields"]}
    dropped = [field for field in before["fields"] if field["name"].lower() not in new]
    return {**now, "fields": [*now["fields"], *dropped]}


def _reads(old: Any, new: Any) -> bool:
    """Return whether values of an old type can be read as values of a new one, in structs, arrays and maps too."""
    if old == new:
        return True
    if isinstance(old, str) and isinstance(new, str):
        return new in _WIDER.get(old, ()) or _is_wider_decimal(old, new)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or old["type"] != new["type"]:
        return False
    if old["type"] == "struct":
        fields = {field["name"].lower(): field["type"] for field in new["fields"]}
        names = [field["name"].lower() for field in old["fields"]]
        # A dropped field could come back with another type.
        return all(name in fields for name in names) and all(
            _reads(field["type"], fields[field["name"].lower()]) for field in old["fields"]
        )
    inner = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(old["type"], ())
    return bool(inner) and all(_reads(old[name], new[name]) for name in inner)


def _is_wider_decimal(old: str, new: str) -> bool:
    found = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if not found[0] or not found[1]:
        return False
    (precision, scale), (wider, longer) = (map(int, match.groups()) for match in found if match)
    return longer >= scale and wider - longer >= precision - scale


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
