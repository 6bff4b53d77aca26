"""The columns that partition a Delta table: which can, and what the folders of a file say about its values. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import unquote

from rekindle.sinks.writing import NULL_FOLDER

PARTITION_TYPES = {"string", "byte", "short", "integer", "long", "date", "boolean"}
"""Types whose values read the same in Spark's folder names and in Delta's log."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def unpartitioned(by: Sequence[str], columns: Mapping[str, object], table: Sequence[str] | None) -> str | None:
    """Return why rows of these columns are not partitioned as it was asked for; None where they are.

    Args:
        by: what was asked for; empty: as the table is.
        table: columns that partition the table; None: it is to be made.
    """
    for name in by:
        if columns.get(name) not in PARTITION_TYPES:
            return f"it cannot be partitioned by {name!r}, which is {columns.get(name, 'missing')}"
    return f"it is partitioned by {list(table)}" if table is not None and by and list(by) != list(table) else None


def partition_of(folders: Sequence[str]) -> dict[str, str | None]:
    """Return column → value of a file's partition, from the names of its folders."""
    values = (folder.split("=", 1) for folder in folders)
    return {unquote(name): None if text == NULL_FOLDER else unquote(text) for name, text in values}


def unnamed_day(paths: Iterable[str], dates: Collection[str]) -> str | None:
    """Return which of the columns `dates` has a day that Delta's log cannot name, in any of the files; None if none."""
    for path in paths:
        for name, value in partition_of(path.split("/")[:-1]).items():
            if name in dates and value is not None and not _DAY.fullmatch(value):
                return f"{name} is {value}, and Delta's log has only days of the years 1 to 9999"
    return None


def repartitioned(partitions: Iterable[Mapping[str, str | None]], table: Sequence[str]) -> str | None:
    """Return why the partitions of files are none of a table that these columns partition now; None if they are."""
    for partition in partitions:
        if partition.keys() != set(table):
            return f"it is partitioned by {list(table)} now, and the files of these rows by {list(partition)}"
    return None
