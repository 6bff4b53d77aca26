"""The least event time of each Parquet file, from the statistics in its footer, and the files in that order.

A long history that is read in the order of time gives its results as it is read: the watermark follows the least time
that was not read yet, and nothing of it can be late. Statistics are taken for what they are, or not at all: every row
group of every file has to have them, for a column that holds instants (`isAdjustedToUTC`). Spark writes timestamps
without them, as INT96, unless ``spark.sql.parquet.outputTimestampType`` is ``TIMESTAMP_MICROS``.

This module does not know what becomes of the column above the files; its caller does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from rekindle.sources.trees import tree_of
from rekindle.storage.documents.sources import FrozenFile

_PER_MS = {"milliseconds": 1, "microseconds": 1_000, "nanoseconds": 1_000_000}
_READERS = 16


class NoStatisticsError(Exception):
    """The reason why the files cannot be put in order, in words."""


def by_time(files: Sequence[FrozenFile], column: str) -> tuple[FrozenFile, ...]:
    """Return the files by the least time in `column`, set as their ``first_ms``; those without any time come first.

    Raises:
        NoStatisticsError: a file has no usable statistics.
    """
    with ThreadPoolExecutor(_READERS) as pool:
        firsts = list(pool.map(partial(_first_ms, column=column), files))
    timed = [replace(file, first_ms=first) for file, first in zip(files, firsts, strict=True)]
    return tuple(sorted(timed, key=lambda file: (file.first_ms is not None, file.first_ms or 0, file.path)))


def _first_ms(file: FrozenFile, column: str) -> int | None:
    """Return the least time in a file, rounded down to ms since the epoch; None where no row has one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.size == 0:
        return None  # Spark reads no rows from it
    path = unquote(file.path.removeprefix("file://"))
    try:
        with tree_of(path).open(path) as opened:
            footer = pq.read_metadata(opened)
    except (OSError, pa.ArrowException) as error:
        raise NoStatisticsError(f"{path} cannot be read ({type(error).__name__}).") from error
    index, per_ms = _column(footer, path, column)
    groups = [footer.row_group(number).column(index) for number in range(footer.num_row_groups)]
    firsts = [_least(group, path, column) for group in groups]
    return min((first // per_ms for first in firsts if first is not None), default=None)


def _column(footer: Any, path: str, wanted: str) -> tuple[int, int]:
    """Return the index of the column, and how many of its units are a millisecond."""
    columns = [footer.schema.column(number) for number in range(footer.num_columns)]
    found = [number for number, one in enumerate(columns) if one.path.lower() == wanted.lower()]
    if len(found) != 1:
        raise NoStatisticsError(f"{path} has not one column {wanted!r}.")
    kind = json.loads(columns[found[0]].logical_type.to_json())
    if kind.get("Type") != "Timestamp" or not kind.get("isAdjustedToUTC"):
        stored = columns[found[0]].physical_type
        raise NoStatisticsError(f"column {wanted!r} of {path} is {stored}, without statistics that tell instants.")
    return found[0], _PER_MS[kind["timeUnit"]]


def _least(group: Any, path: str, column: str) -> int | None:
    statistics = group.statistics
    if group.num_values == 0:
        return None
    if statistics is not None and statistics.has_min_max:
        return int(statistics.min_raw)
    if statistics is not None and statistics.has_null_count and statistics.null_count == group.num_values:
        return None
    raise NoStatisticsError(f"{path} has no statistics of column {column!r}.")
