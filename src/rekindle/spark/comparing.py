"""The rows of a job and of its shadow, compared by Spark: as multisets, and by key where there is one.

Each row is counted four times: how often each side has it, and how often each side has it among those that the other
must have (`due`). All else follows from these numbers, so one shuffle compares any amount of rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType

from rekindle.sinks.reading import AS_TEXT, TEXT_OF, quoted
from rekindle.spark.state import AS_JSON

_COUNTS = ("our_due", "our_all", "their_due", "their_all")
_FLOATS = (FloatType, DoubleType)
_NESTED = (ArrayType, MapType, StructType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The rows of one side; None where there are none."""

    #: those that the other side must have
    due: DataFrame | None
    #: those that it may still write
    pending: DataFrame | None

    @property
    def frames(self) -> tuple[DataFrame | None, DataFrame | None]:
        """The rows that are due, and those that are pending."""
        return self.due, self.pending

    def schema(self) -> StructType | None:
        """Return the columns of all that is there; None where nothing is."""
        fields = {field.name: field for frame in self.frames if frame is not None for field in frame.schema.fields}
        return StructType([*fields.values()]) if fields else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that are compared, and those that cannot be."""

    both: tuple[str, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The result of comparing two sides: how many rows are equal, and how many differ in which way."""

    equal: int
    different: int
    missing: int
    extra: int
    pending: tuple[int, int]
    #: rows of each side as JSON, or None where it has none
    examples: tuple[tuple[str | None, str | None], ...]


def columns_of(original: Side, shadow: Side, ignored: Collection[str]) -> Columns:
    """Return which columns both sides have, with the same type. A side without rows has all that the other has."""
    ours, theirs = original.schema() or shadow.schema(), shadow.schema() or original.schema()
    if ours is None or theirs is None:
        return Columns(both=(), gone=(), new=(), changed=())
    left = {field.name: field for field in ours.fields if field.name not in ignored}
    right = {field.name: field for field in theirs.fields if field.name not in ignored}
    changed = [
        name
        for name, field in left.items()
        if name in right
        and not field.metadata.get(AS_TEXT)
        and field.dataType.simpleString() != right[name].dataType.simpleString()
    ]
    return Columns(
        both=tuple(name for name in left if name in right and name not in changed),
        gone=tuple(name for name in left if name not in right),
        new=tuple(name for name in right if name not in left),
        changed=tuple(changed),
    )


def compared(
    original: Side, shadow: Side, columns: Sequence[str], *, key: Sequence[str], tolerance: float, examples: int
) -> Difference:
    """Compare the rows of two sides.

    Args:
        columns: those that count; both sides have them.
        key: columns that tell which rows are to be the same; none: each row stands for itself.
        tolerance: by what part of the greater one two numbers with a point may differ; with a key only.
        examples: so many rows that differ are returned.
    """
    types = _as_they_were(shadow.schema() or original.schema())
    if types is None or not columns:
        return Difference(equal=0, different=0, missing=0, extra=0, pending=(0, 0), examples=())
    rows = _counted(original, shadow, columns, types)
    equal = F.least("our_all", "their_all")
    missing = F.greatest(F.col("our_due") - F.col("their_all"), F.lit(0))
    extra = F.greatest(F.col("their_due") - F.col("our_all"), F.lit(0))
    compared = rows.select(
        "row",
        equal.alias("equal"),
        F.lit(0).cast("long").alias("different"),
        missing.alias("missing"),
        extra.alias("extra"),
        (F.col("our_all") - equal - missing).alias("our_pending"),
        (F.col("their_all") - equal - extra).alias("their_pending"),
        F.when(F.col("our_all") > equal, F.col("row")).alias("ours"),
        F.when(F.col("their_all") > equal, F.col("row")).alias("theirs"),
    )
    if key:
        compared = _by_key(compared, key, types, columns, tolerance)
    counts = ("equal", "different", "missing", "extra", "our_pending", "their_pending")
    [sums] = compared.agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in counts)).collect()
    # Once more, and only where it is worth it: to keep what was shuffled would take the room of all rows.
    is_equal = not (sums["different"] or sums["missing"] or sums["extra"])
    differs = compared.where("different + missing + extra > 0").limit(0 if is_equal else examples)
    found = differs.select(*(F.to_json(side, AS_JSON) for side in ("ours", "theirs"))).collect()
    return Difference(
        equal=sums["equal"],
        different=sums["different"],
        missing=sums["missing"],
        extra=sums["extra"],
        pending=(sums["our_pending"], sums["their_pending"]),
        examples=tuple((row[0], row[1]) for row in found),
    )


def _counted(original: Side, shadow: Side, columns: Sequence[str], types: StructType) -> DataFrame:
    """Return each row once, with how often each side has it."""

    schemas = [schema for side in (original, shadow) if (schema := side.schema()) is not None]
    texts = {field.name for schema in schemas for field in schema.fields if field.metadata.get(AS_TEXT)}

    def parts() -> Iterator[DataFrame]:
        for which, side in (("our", original), ("their", shadow)):
            for name, frame in (("due", side.due), ("all", side.pending)):
                if frame is None:
                    continue
                counts = [F.lit(int(count.startswith(which) and count.endswith((name, "all")))) for count in _COUNTS]
                named = [count.cast("long").alias(alias) for count, alias in zip(counts, _COUNTS, strict=True)]
                yield frame.select(F.struct(*_comparable(frame, columns, types, texts)).alias("row"), *named)

    whole = reduce(DataFrame.unionByName, parts())
    return whole.groupBy("row").agg(*(F.sum(count).alias(count) for count in _COUNTS))


def _as_they_were(found: StructType | None) -> StructType | None:
    """Return the columns with the types that their texts had, where that is known."""
    if found is None:
        return None
    kinds = [json.loads(field.metadata.get(TEXT_OF) or field.dataType.json()) for field in found]
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in zip(found.names, kinds, strict=True)
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def _comparable(
    frame: DataFrame, columns: Sequence[str], types: StructType, texts: Collection[str]
) -> Iterator[Column]:
    """Yield the columns with values in a form that both sides can have.

    Args:
        texts: columns that one side has as texts.
    """
    for name in columns:
        if name not in frame.columns:  # added since: older rows do not have it
            yield _ordered(F.lit(None).cast(types[name].dataType), types[name].dataType).alias(name)
            continue
        column, kind = F.col(quoted(name)), frame.schema[name].dataType
        if name in texts:
            column, kind = _out_of_text(column, kind, types[name].dataType), types[name].dataType
        yield _ordered(column, kind).alias(name)


def _out_of_text(value: Column, kind: DataType, wanted: DataType) -> Column:
    """Return a value as it reads after it was written as text: nested types go through JSON, others are cast."""
    if not isinstance(wanted, _NESTED):
        return value.cast(wanted)
    return F.from_json(F.to_json(value) if isinstance(kind, _NESTED) else value, wanted)


def _ordered(value: Column, kind: DataType) -> Column:
    """Return the value with maps as sorted lists and variants as JSON: Spark cannot compare either."""
    if isinstance(kind, MapType):
        entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
        return F.sort_array(F.transform(F.map_entries(value), lambda one: _ordered(one, entry)))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda one: _ordered(one, element)) if _has_map(element) else value
    if isinstance(kind, StructType) and _has_map(kind):
        fields = [_ordered(value.getField(field.name), field.dataType).alias(field.name) for field in kind.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    return F.to_json(F.struct(value)) if kind.typeName() == "variant" else value


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType) or kind.typeName() == "variant"


def _by_key(
    compared: DataFrame, key: Sequence[str], types: StructType, columns: Sequence[str], tolerance: float
) -> DataFrame:
    """Return a row for each key. Its rows that only one side has are paired, as far as both sides have some."""
    counts = ("equal", "missing", "extra", "our_pending", "their_pending")
    keys = [F.col("row").getField(name).alias(f"key_{number}") for number, name in enumerate(key)]
    found = (
        compared.select(*keys, *counts, "ours", "theirs")
        .groupBy(*(f"key_{number}" for number in range(len(key))))
        .agg(
            *(F.sum(name).alias(name) for name in counts), F.min("ours").alias("ours"), F.min("theirs").alias("theirs")
        )
    )
    ours, theirs = F.col("missing") + F.col("our_pending"), F.col("extra") + F.col("their_pending")
    close = (ours == 1) & (theirs == 1) & _is_close(types, columns, tolerance)
    pairs = F.when((F.col("missing") + F.col("extra") > 0) & ~close, F.least(ours, theirs)).otherwise(F.lit(0))
    found = found.withColumns({"close": close.cast("long"), "different": pairs})
    used = F.col("close") + F.col("different")
    missing = F.greatest(F.col("missing") - used, F.lit(0))
    extra = F.greatest(F.col("extra") - used, F.lit(0))
    return found.select(
        (F.col("equal") + F.col("close")).alias("equal"),
        "different",
        missing.alias("missing"),
        extra.alias("extra"),
        (ours - used - missing).alias("our_pending"),
        (theirs - used - extra).alias("their_pending"),
        "ours",
        "theirs",
    )


def _is_close(types: StructType, columns: Sequence[str], tolerance: float) -> Column:
    if tolerance <= 0:
        return F.lit(False)
    same = F.lit(True)
    for name in columns:
        ours, theirs = F.col("ours").getField(name), F.col("theirs").getField(name)
        equal = ours.eqNullSafe(theirs)
        if isinstance(types[name].dataType, _FLOATS):
            near = F.abs(ours - theirs) <= F.lit(tolerance) * F.greatest(F.abs(ours), F.abs(theirs))
            equal = equal | F.coalesce(near, F.lit(False))
        same = same & equal
    return same
