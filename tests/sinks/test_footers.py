"""Statistics of Parquet files: no value is too odd to be written, and no row lies outside of its file's bounds."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from rekindle.sinks.footers import columns_of, cut_lower, cut_upper, delta_statistics
from rekindle.sinks.iceberg_files import NoPartitionError, data_file, partition_of

_INT32, _INT64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))
_ODD_DAYS = st.sampled_from([-719_163, -719_162, 2_932_896, 2_932_897, -(1 << 31), (1 << 31) - 1])
_ODD_US = st.sampled_from([-62_135_596_800_000_001, -62_135_596_800_000_000, 253_402_300_799_999_999, 1 << 62])
_TEXT = st.one_of(
    st.text(max_size=9).map(str.encode),
    st.binary(max_size=9),
    st.integers(250, 320).map(lambda length: "\U0010ffff".encode() * length),
    st.integers(250, 320).map(lambda length: b"x" * length),
)


def raw(kind: pa.DataType, values: list[Any], plain: pa.DataType) -> pa.Array:
    """An array of values that Python's own types cannot hold."""
    return pa.Array.from_buffers(kind, len(values), pa.array(values, plain).buffers())


#: name → the type in Iceberg, values as the bounds have them, the array that holds them
KINDS: Mapping[str, tuple[IcebergType, st.SearchStrategy[Any], Any]] = {
    "flag": (BooleanType(), st.booleans(), lambda values: pa.array(values, pa.bool_())),
    "small": (IntegerType(), _INT32, lambda values: pa.array(values, pa.int32())),
    "big": (LongType(), _INT64, lambda values: pa.array(values, pa.int64())),
    "single": (FloatType(), st.floats(width=32), lambda values: pa.array(values, pa.float32())),
    "double": (DoubleType(), st.floats(), lambda values: pa.array(values, pa.float64())),
    "day": (DateType(), _INT32 | _ODD_DAYS, lambda values: raw(pa.date32(), values, pa.int32())),
    "ts": (TimestamptzType(), _INT64 | _ODD_US, lambda values: raw(pa.timestamp("us", "UTC"), values, pa.int64())),
    "ntz": (TimestampType(), _INT64 | _ODD_US, lambda values: raw(pa.timestamp("us"), values, pa.int64())),
    "money": (
        DecimalType(7, 2),
        st.decimals(-99999, 99999, places=2, allow_nan=False),
        lambda values: pa.array(values, pa.decimal128(7, 2)),
    ),
    "vast": (
        DecimalType(38, 18),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: decimal_of(number, 18)),
        lambda values: pa.array(values, pa.decimal128(38, 18)),
    ),
    "text": (StringType(), _TEXT, lambda values: raw(pa.string(), values, pa.binary())),
    "bytes": (BinaryType(), st.binary(max_size=40), lambda values: pa.array(values, pa.binary())),
}


def decimal_of(number: int, scale: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def footer_of(columns: Mapping[str, pa.Array], rows_a_group: int = 1 << 20) -> Any:
    file = io.BytesIO()
    pq.write_table(
        pa.table(dict(columns)), file, row_group_size=rows_a_group, store_decimal_as_integer=True, version="2.6"
    )
    return pq.read_metadata(io.BytesIO(file.getvalue()))


def metadata_of(fields: list[NestedField], *partition: PartitionField) -> TableMetadata:
    return new_table_metadata(Schema(*fields), PartitionSpec(*partition), UNSORTED_SORT_ORDER, "file:///nowhere")


def certain(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None and value == value]  # noqa: PLR0124


def in_delta(kind: str, said: Any) -> Any:
    """A bound of Delta's log, as the values have it."""
    if kind == "day":
        return (dt.date.fromisoformat(said) - dt.date(1970, 1, 1)).days
    if kind in ("ts", "ntz"):
        assert said.endswith("Z") == (kind == "ts")
        since = dt.datetime.fromisoformat(said.removesuffix("Z")) - dt.datetime.fromisoformat("1970-01-01")
        return since // dt.timedelta(microseconds=1)
    if kind in ("single", "double"):
        return float(said)
    return said.encode() if kind == "text" else said


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, list[Any]], int]:
    rows = draw(st.integers(1, 6))
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True))
    columns = {name: draw(st.lists(st.none() | KINDS[name][1], min_size=rows, max_size=rows)) for name in names}
    return columns, draw(st.integers(1, rows))


@settings(max_examples=300, deadline=None)
@given(made=tables())
def test_any_value_can_be_written_and_lies_within_every_bound_that_is_given(
    made: tuple[dict[str, list[Any]], int],
) -> None:
    columns, rows_a_group = made
    footer = footer_of({name: KINDS[name][2](values) for name, values in columns.items()}, rows_a_group)
    delta = json.loads(delta_statistics(footer), parse_float=Decimal)
    fields = [NestedField(number, name, KINDS[name][0], required=False) for number, name in enumerate(columns, 1)]
    iceberg = data_file(footer, "file:///nowhere/x.parquet", 1, metadata_of(fields))
    for field, (name, values) in zip(fields, columns.items(), strict=True):
        nulls = values.count(None)
        assert delta["nullCount"][name] == nulls
        assert iceberg.null_value_counts[field.field_id] == nulls
        for bounds, outside in ((delta.get("minValues", {}), min), (delta.get("maxValues", {}), max)):
            if name in bounds:
                bound = in_delta(name, bounds[name])
                assert outside([bound, *certain(values)]) == bound
        for bounds, outside in ((iceberg.lower_bounds, min), (iceberg.upper_bounds, max)):
            if field.field_id in bounds:
                bound = from_bytes(cast("Any", field.field_type), bounds[field.field_id])
                bound = bound.encode() if isinstance(bound, str) else bound
                assert outside([bound, *certain(values)]) == bound


@pytest.mark.parametrize("name", sorted(KINDS))
def test_bounds_are_given_where_nothing_is_odd(name: str) -> None:
    plain: list[Any] = {"flag": [True], "text": [b"a", b"b"], "bytes": [b"a", b"b"]}.get(name, [1, None, 2])
    values = [Decimal(value) if name in ("money", "vast") and value else value for value in plain]
    footer = footer_of({name: KINDS[name][2](values)}, 1)
    [column] = columns_of(footer)
    low, high = min(certain(plain)), max(certain(plain))
    assert column.bounds == ((low.decode(), high.decode()) if name == "text" else (low, high))
    found = json.loads(delta_statistics(footer))
    assert (name in found["minValues"]) == (name in found["maxValues"]) == (name != "bytes")
    entry = data_file(footer, "x", 1, metadata_of([NestedField(1, name, KINDS[name][0], required=False)]))
    assert entry.lower_bounds
    assert entry.upper_bounds


def test_a_row_group_that_tells_no_bounds_leaves_the_file_without_them() -> None:
    values = [b"a", b"x" * 5000 + b"\xff", b"b"]
    for order in (values, values[::-1]):
        [column] = columns_of(footer_of({"text": raw(pa.string(), order, pa.binary())}, 1))
        assert column.bounds is None
    [column] = columns_of(footer_of({"single": pa.array([0.5, float("nan"), 7.0], pa.float32())}, 1))
    assert column.bounds is None, "not a number lies in no bounds"


def test_columns_inside_structs_are_distinguished_from_columns_with_dots_in_their_names() -> None:
    inner = pa.array([{"b": 1}, {"b": 2}], pa.struct([("b", pa.int64())]))
    footer = footer_of({"a.b": pa.array([8, 9]), "a": inner, "x.y": pa.array([3, 4]), "many": pa.array([[5], [6]])})
    found = json.loads(delta_statistics(footer))
    assert "minValues" not in found, "which of a.b and a's b is meant, Parquet does not tell"
    assert found["nullCount"] == {"a.b": 0, "a": {"b": 0}, "x.y": 0}
    fields = [
        NestedField(1, "a", StructType(NestedField(2, "b", LongType(), required=False)), required=False),
        NestedField(3, "many", ListType(4, LongType(), element_required=False), required=False),
    ]
    footer = footer_of({"a": inner, "x.y": pa.array([3, 4])})
    assert json.loads(delta_statistics(footer))["maxValues"] == {"a": {"b": 2}, "x.y": 4}
    footer = footer_of({"a": inner, "many": pa.array([[5, 5], [6, None]])})
    entry = data_file(footer, "x", 1, metadata_of(fields))
    assert sorted(entry.value_counts.values()) == [2, 4]
    assert sorted(entry.null_value_counts.values()) == [0, 1]


def test_a_column_that_the_table_has_lost_is_an_error() -> None:
    footer = footer_of({"gone": pa.array([1]), "id": pa.array([1])})
    with pytest.raises(ValueError, match=r"no columns \['gone'\]"):
        data_file(footer, "x", 1, metadata_of([NestedField(1, "id", LongType(), required=False)]))


# -- cut short ---------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=6) | st.binary(max_size=6), st.text(max_size=3), st.integers(1, 4))
def test_a_bound_that_is_cut_short_still_holds(value: str | bytes, more: str, length: int) -> None:
    lower, upper = cut_lower(value, length), cut_upper(value, length)

    def order(of: str | bytes) -> bytes:
        return of.encode() if isinstance(of, str) else of

    assert len(lower) <= length
    assert order(lower) <= order(value)
    if upper is not None:
        assert len(upper) <= length
        assert order(value) <= order(upper)


def test_the_character_after_the_last_before_the_surrogates_is_the_first_after_them() -> None:
    assert cut_upper("\ud7ffx", 1) == "\ue000"
    assert cut_upper("a\U0010ffffx", 2) == "b"
    assert cut_upper("\U0010ffffx", 1) is None
    assert cut_upper(b"a\xff\xff", 2) == b"b"
    assert cut_upper(b"\xff\xff", 1) is None


# -- partitions --------------------------------------------------------------------------------------------------------


def partitioned(kind: IcebergType) -> TableMetadata:
    field = PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part")
    return metadata_of([NestedField(1, "part", kind, required=False)], field)


def test_rows_of_one_partition_are_put_there_whatever_its_value() -> None:
    for name, value in (("day", -700_000), ("text", "ü".encode()), ("flag", False), ("vast", decimal_of(7, 18))):
        kind, _, array = KINDS[name]
        footer = footer_of({"part": array([value] * 3)}, 2)
        found = partition_of(footer, partitioned(kind))[0]
        assert found == (value.decode() if isinstance(value, bytes) else value)
    assert partition_of(footer_of({"part": pa.nulls(3, pa.int64())}), partitioned(LongType()))[0] is None
    assert partition_of(footer_of({"other": pa.array([1])}), partitioned(LongType()))[0] is None


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (StringType(), raw(pa.string(), [b"\xff"], pa.binary())),
        (LongType(), pa.array([1, 2])),
        (LongType(), pa.array([1, None])),
        (DoubleType(), pa.array([float("nan")])),
        (DateType(), raw(pa.date32(), [5_000_000], pa.int32())),
    ],
)
def test_rows_without_one_certain_partition_are_refused(kind: IcebergType, array: pa.Array) -> None:
    with pytest.raises(NoPartitionError):
        partition_of(footer_of({"part": array}), partitioned(kind))
