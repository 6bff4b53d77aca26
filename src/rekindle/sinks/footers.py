"""Statistics of a Parquet file, from its footer, as Delta's log holds them: what lets readers skip files.

A bound that is not certain is left out: not a number among floats, very long strings, what lies inside arrays and maps,
and what the pyarrow that is installed cannot read (older ones: decimals).
"""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import msgspec

MAX_COLUMNS = 32
"""As many leading columns have statistics, as in Delta's own writers."""

MAX_STRING = 256
"""Strings longer than this are no bounds: the log is to stay small."""

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def delta_statistics(file: BinaryIO) -> str:
    """JSON with ``numRecords``, ``minValues``, ``maxValues``, ``nullCount``."""
    import pyarrow.parquet as pq  # only drivers need it; the command line starts without

    footer = pq.read_metadata(file)
    found: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for index in range(min(footer.num_columns, MAX_COLUMNS)):
        if footer.schema.column(index).max_repetition_level == 0:
            parts = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
            if all(parts):
                _add(found, footer.schema.column(index).path.split("."), parts)
    return _ENCODER.encode(found).decode()


def _add(found: dict[str, Any], path: list[str], parts: list[Any]) -> None:
    if all(part.has_null_count for part in parts):
        _put(found["nullCount"], path, sum(part.null_count for part in parts))
    # A row group of nulls alone has no bounds and needs none.
    bounds = [_bounds(part) for part in parts if part.has_min_max]
    if not bounds or not all(_is_bound(value) for pair in bounds for value in pair):
        return
    if all(part.has_min_max or part.num_values == 0 for part in parts):
        _put(found["minValues"], path, min(low for low, _ in bounds))
        _put(found["maxValues"], path, max(high for _, high in bounds))


def _bounds(part: Any) -> tuple[Any, Any]:
    try:
        return part.min, part.max
    except NotImplementedError:
        return math.nan, math.nan


def _is_bound(value: Any) -> bool:
    if isinstance(value, bool | bytes):
        return False
    if isinstance(value, str):
        return len(value) <= MAX_STRING
    return bool(value == value)  # noqa: PLR0124  not a number is not


def _put(into: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value
