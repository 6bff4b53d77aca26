"""Statistics of a Parquet file, from its footer: what lets the readers of a table skip files.

Statistics are a help and never a reason to fail: whatever cannot be read or said is left out. A bound that is given
holds for every row of the file; where one row group does not tell its own, there is none. Bounds are plain values, the
same for all tables: numbers, strings and bytes; a date is a number of days since 1970, a timestamp one of microseconds.
So a day before the year 1, or after 9999, is a number like any other, and each table says which of them it can write.

Left out are bounds of floats among which is a NaN, of strings that are no UTF-8, of types that are not known here.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

DELTA_COLUMNS = 32
"""Number of leading columns that have statistics, as in Delta's own writers."""

DELTA_STRING = 256
"""Largest length of a string's bound in Delta's log: the log is to stay small."""

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  moved into a zone below
_MICROS = {"milliseconds": 1000, "microseconds": 1}
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The statistics of a column in a file; a struct has some for each of its fields."""

    #: names from the table's column down; a list's elements and a map's keys and values have Parquet's own
    path: tuple[str, ...]
    #: ``boolean``, ``integer``, ``float``, ``decimal``, ``date``, ``timestamp``, ``timestamp_ntz``, ``string``,
    #: ``binary``; empty where it is not known
    kind: str
    #: inside a list or a map
    repeated: bool
    #: number of values, nulls among them
    values: int
    nulls: int | None
    #: lower and upper bound of all values but nulls
    bounds: tuple[Any, Any] | None
    size_bytes: int


def columns_of(footer: Any) -> list[ColumnStatistics]:
    """Return the statistics of each column in a file's footer (`pyarrow.parquet.FileMetaData`)."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    paths = _paths(footer)
    often = Counter(".".join(path) for path in paths)
    return [_column(footer, groups, index, path, often[".".join(path)] == 1) for index, path in enumerate(paths)]


def _column(footer: Any, groups: Sequence[Any], index: int, path: tuple[str, ...], known: bool) -> ColumnStatistics:
    schema = footer.schema.column(index)
    kind, scale = "", 0
    with suppress(Exception):
        kind, scale = _kind(schema)
    chunks = [group.column(index) for group in groups]
    parts = [_part(chunk) for chunk in chunks]
    bounds = None
    if kind and known:
        with suppress(Exception):
            bounds = _bounds(parts, kind, scale)
    return ColumnStatistics(
        path=path,
        kind=kind,
        repeated=schema.max_repetition_level > 0,
        values=sum(chunk.num_values for chunk in chunks),
        nulls=_nulls(parts),
        bounds=bounds,
        size_bytes=sum(chunk.total_compressed_size for chunk in chunks),
    )


def _part(chunk: Any) -> Any:
    try:
        return chunk.statistics
    except Exception:
        return None


def _nulls(parts: Sequence[Any]) -> int | None:
    if not all(part is not None and part.has_null_count for part in parts):
        return None
    return sum(int(part.null_count) for part in parts)


def _bounds(parts: Sequence[Any], kind: str, scale: int) -> tuple[Any, Any] | None:
    """Return bounds that hold in every row group; None where one with values does not give any, or gives a NaN."""
    found = []
    for part in parts:
        if part is not None and part.has_min_max:
            found.append((_plain(part.min_raw, kind, scale), _plain(part.max_raw, kind, scale)))
        elif part is None or part.num_values > 0:
            return None
    lows, highs = [low for low, _ in found], [high for _, high in found]
    if not found or any(value != value for value in (*lows, *highs)):  # noqa: PLR0124  not a number is not
        return None
    return min(lows), max(highs)


def _kind(schema: Any) -> tuple[str, int]:
    """Return the kind of a column's values, and the scale of a decimal or the microseconds of a timestamp's unit."""
    physical, logical = schema.physical_type, schema.logical_type
    if logical.type == "DECIMAL":
        return "decimal", schema.scale
    if logical.type == "TIMESTAMP":
        said = msgspec.json.decode(logical.to_json())
        unit = _MICROS.get(said["timeUnit"], 0)
        return ("timestamp" if said["isAdjustedToUTC"] else "timestamp_ntz", unit) if unit else ("", 0)
    if logical.type == "DATE":
        return "date", 0
    if logical.type == "STRING":
        return "string", 0
    if logical.type == "INT":
        return ("integer" if msgspec.json.decode(logical.to_json())["isSigned"] else ""), 0
    plain = {"BOOLEAN": "boolean", "INT32": "integer", "INT64": "integer", "FLOAT": "float", "DOUBLE": "float"}
    return ({**plain, "BYTE_ARRAY": "binary"}.get(physical, "") if logical.type in ("NONE", "UNDEFINED") else ""), 0


def _plain(raw: Any, kind: str, scale: int) -> Any:
    """Return a bound as `ColumnStatistics` has it; raise an error where it cannot be read."""
    if kind == "string":
        return raw.decode() if isinstance(raw, bytes) else raw.encode().decode()
    if kind == "decimal":
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        # Made of its digits: arithmetic would round it.
        return Decimal((int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled))), -scale))
    return raw * scale if kind.startswith("timestamp") else raw


def _paths(footer: Any) -> list[tuple[str, ...]]:
    """Return the path of each column; where names hold dots, Parquet's own path does not show it."""
    plain = [tuple(footer.schema.column(index).path.split(".")) for index in range(footer.num_columns)]
    with suppress(Exception):
        exact = [path for field in footer.schema.to_arrow_schema() for path in _leaves(field.type, (field.name,))]
        if len(exact) == len(plain):
            return [path or shown for path, shown in zip(exact, plain, strict=True)]
    return plain


def _leaves(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the columns that a type consists of; an empty one for each inside a list or a map."""
    import pyarrow as pa  # only drivers need it; the command line starts without

    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type, (*path, field.name))
    elif pa.types.is_map(kind):
        yield from (() for part in (kind.key_type, kind.item_type) for _ in _leaves(part, path))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from (() for _ in _leaves(kind.value_type, path))
    else:
        yield path


# -- cut short ---------------------------------------------------------------------------------------------------------


def cut_lower(value: Any, length: int) -> Any:
    """Return a lower bound of at most `length` characters, or bytes, that is no greater than `value`."""
    return value[:length]


def cut_upper(value: Any, length: int) -> Any:
    """Return an upper bound of at most `length` characters, or bytes, that is no less than `value`; None: none is."""
    if len(value) <= length:
        return value
    for end in range(length, 0, -1):
        above = _next(value[end - 1])
        if above is not None:
            return value[: end - 1] + above
    return None


def _next(one: Any) -> Any:
    """Return the character after this one, in the order of their UTF-8, or the next byte; None after the last."""
    if isinstance(one, int):
        return bytes([one + 1]) if one < 0xFF else None
    code = ord(one) + 1
    if code > 0x10FFFF:
        return None
    return chr(0xE000 if 0xD800 <= code < 0xE000 else code)  # surrogates are no characters


# -- Delta -------------------------------------------------------------------------------------------------------------


def delta_statistics(footer: Any) -> str:
    """Return JSON with ``numRecords``, ``minValues``, ``maxValues``, ``nullCount``, as Delta's log holds it.

    A file has the bounds of all its columns or of none: where one of them is missing, delta-rs takes that for a bound
    that no value is within, and skips the file whenever that column is asked for.
    """
    found: dict[str, Any] = {"numRecords": footer.num_rows}
    with suppress(Exception):
        columns = [column for column in columns_of(footer)[:DELTA_COLUMNS] if not column.repeated]
        counts: dict[str, Any] = {}
        for column in columns:
            if column.nulls is not None:
                _put(counts, column.path, column.nulls)
        found["nullCount"] = counts
        lows, highs = dict[str, Any](), dict[str, Any]()
        for column in columns:
            if column.kind == "binary" or column.nulls == column.values:
                continue
            low, high = (_said(column.kind, column.bounds, upper=upper) for upper in (False, True))
            if low is None or high is None:
                break
            _put(lows, column.path, low)
            _put(highs, column.path, high)
        else:
            found |= {"minValues": lows, "maxValues": highs}
    return _ENCODER.encode(found).decode()


def _said(kind: str, bounds: tuple[Any, Any] | None, *, upper: bool) -> Any:
    """Return a bound in Delta's JSON; None where the JSON cannot express it."""
    if bounds is None:
        return None
    value = bounds[upper]
    if kind == "float":
        return value if math.isfinite(value) else None
    if kind == "decimal":
        return msgspec.Raw(f"{value:f}".encode())  # a number with all of its digits, and without an exponent
    if kind == "string":
        return cut_upper(value, DELTA_STRING) if upper else cut_lower(value, DELTA_STRING)
    try:  # four digits are a year in JSON
        if kind == "date":
            return (_EPOCH + dt.timedelta(days=value)).date()
        if kind == "timestamp_ntz":
            return _EPOCH + dt.timedelta(microseconds=value)
        if kind == "timestamp":
            return (_EPOCH + dt.timedelta(microseconds=value)).replace(tzinfo=dt.timezone.utc)
    except OverflowError:
        return None
    return value


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value
