"""A Parquet file as Iceberg's metadata describes it: counts, bounds, and the partition that its rows belong to.

Bounds are a help, and one that cannot be written is left out. The partition is not: a reader finds no row that is put
into the wrong one. It is read off the bounds of the columns that it is computed from, which must be certain, and the
same for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rekindle.errors import one_line
from rekindle.sinks.footers import ColumnStatistics, columns_of, cut_lower, cut_upper
from rekindle.storage.addresses import hadoop_scheme
from rekindle.storage.open import open_store
from rekindle.storage.port import Store

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record

_BUCKETS = ("s3a", "abfs", "abfss", "gs")


def data_folder(table: Table) -> str:
    """Return where the table has its data files."""
    return table.properties.get("write.data.path", f"{table.location()}/data").rstrip("/")


def is_reached(folder: str) -> bool:
    """Return True if data files in a folder at this address can be written."""
    return hadoop_scheme(folder) in _BUCKETS or folder.removeprefix("file://").startswith("/")


def layout_of(table: Table) -> tuple[object, ...]:
    """Return which table it is, how it is partitioned, and where it has its data files."""
    return table.metadata.table_uuid, table.metadata.default_spec_id, data_folder(table)


def data_store(table: Table) -> Store:
    """Return the store of the table's data files."""
    return open_store(data_folder(table).removeprefix("file://"))


class NoPartitionError(ValueError):
    """The rows of a file belong to no partition that is known for certain."""


def partition_of(footer: Any, table: TableMetadata) -> Record:
    """Return the partition that all rows of a file belong to.

    Raises:
        NoPartitionError: there is none.
    """
    from pyiceberg.typedef import Record

    columns = {".".join(column.path): column for column in columns_of(footer)}
    partition = Record(*(_partition_value(field, table, columns) for field in table.spec().fields))
    try:
        table.spec().partition_to_path(partition, table.schema())  # pyiceberg does so when it is committed
    except Exception as error:
        raise NoPartitionError(one_line(error)) from error
    return partition


def _partition_value(field: PartitionField, table: TableMetadata, columns: Mapping[str, ColumnStatistics]) -> Any:
    name = table.schema().find_column_name(field.source_id) or ""
    column = columns.get(name)
    if column is None or column.nulls == column.values:
        return None  # a column that the rows do not have is null in all of them
    if column.nulls is None or column.nulls > 0 or column.bounds is None:
        raise NoPartitionError(f"{name!r} has values whose partition is not known, such as strings that are no UTF-8")
    transform = field.transform.transform(table.schema().find_field(field.source_id).field_type)
    try:
        low, high = map(transform, column.bounds)
    except Exception as error:
        raise NoPartitionError(f"{name!r}: {one_line(error)}") from error
    if low != high:
        raise NoPartitionError(f"{name!r} has values that Spark takes for the same and Iceberg does not")
    return low


def data_file(footer: Any, path: str, size_bytes: int, table: TableMetadata) -> DataFile:
    """Return the entry of a manifest for a file.

    Raises:
        NoPartitionError: see `partition_of`.
        ValueError: the table has lost a column of the file since it was written, or has another of this name.
    """
    from pyiceberg.io.pyarrow import compute_statistics_plan, parquet_path_to_id_mapping
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    counts: dict[str, dict[int, Any]] = {
        name: {} for name in ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    }
    ids, plan = parquet_path_to_id_mapping(table.schema()), compute_statistics_plan(table.schema(), table.properties)
    shown = [footer.schema.column(index).path for index in range(footer.num_columns)]
    _refuse_lost(shown, ids)
    for column, dotted in zip(columns_of(footer), shown, strict=True):
        number = ids.get(dotted)
        if number is None:
            continue
        _refuse_other_kind(dotted, column.kind, str(table.schema().find_type(number)))
        if number not in plan:
            continue
        counts["column_sizes"][number] = column.size_bytes
        mode = plan[number].mode
        if mode.type.value == "none":
            continue
        counts["value_counts"][number] = column.values
        if column.nulls is not None:
            counts["null_value_counts"][number] = column.nulls
        if mode.type.value == "counts" or column.repeated or column.bounds is None:
            continue
        low, high = column.bounds
        _put(counts["lower_bounds"], number, plan[number].iceberg_type, low, cut_lower, mode.length)
        _put(counts["upper_bounds"], number, plan[number].iceberg_type, high, cut_upper, mode.length)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition_of(footer, table),
        record_count=footer.num_rows,
        file_size_in_bytes=size_bytes,
        sort_order_id=None,
        spec_id=table.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        nan_value_counts={},
        split_offsets=_split_offsets(footer),
        **counts,  # type: ignore[arg-type]
    )


def _refuse_lost(shown: Sequence[str], ids: Mapping[str, int]) -> None:
    known = {path.partition(".")[0] for path in ids} | set(ids)
    lost = sorted({path for path in shown if path not in known and path.partition(".")[0] not in known})
    if lost:
        raise ValueError(f"the table has no columns {lost} any more")


_KINDS = {
    "boolean": "boolean",
    "int": "integer",
    "long": "integer",
    "float": "float",
    "double": "float",
    "decimal": "decimal",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "binary": "binary",
}
"""Type of Iceberg, without its size → kind of a column in a file, see `ColumnStatistics.kind`."""


def _refuse_other_kind(path: str, kind: str, of_table: str) -> None:
    expected = _KINDS.get(of_table.partition("(")[0])
    if kind and expected is not None and kind != expected:
        raise ValueError(f"column {path!r} is {kind}, in the table {of_table}")


def _put(
    into: dict[int, Any],
    number: int,
    kind: Any,
    value: Any,
    cut: Callable[[Any, int], Any],
    length: int | None,
) -> None:
    from pyiceberg.conversions import to_bytes

    with suppress(Exception):
        bound = cut(value, length) if length is not None and isinstance(value, str | bytes) else value
        if bound is not None:
            into[number] = to_bytes(kind, bound)


def _split_offsets(footer: Any) -> list[int]:
    firsts = [footer.row_group(index).column(0) for index in range(footer.num_row_groups)]
    return sorted(
        min(first.dictionary_page_offset, first.data_page_offset)
        if first.has_dictionary_page
        else first.data_page_offset
        for first in firsts
    )
