"""Rows of a state store in Spark's own encoding: checked columns in, the bytes of keys and values out.

A store keeps a key and a value as Spark's `UnsafeRow`. What a shuffle hands on consists of such rows, a structure in it
too, so its bytes are taken from it by an expression, on the executors: each type is encoded as Spark itself encodes it,
and no row passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructField, StructType

from rekindle.session.failures import brief

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


class NotAsKept(ValueError):
    """Raised where what was returned cannot be encoded as this state is; says why."""


def conformed(frame: DataFrame, wanted: StructType) -> DataFrame:
    """Return the columns of `frame` with the names, order and types of `wanted`, each of which may be null.

    Types are converted where every value of the one has its like in the other, as that of a literal.

    Raises:
        NotAsKept: a column is missing, is not known, or is of a type that cannot be converted.
    """
    twice = {name for name in frame.columns if frame.columns.count(name) > 1}
    wrong = [f"it has two columns {name}" for name in sorted(twice)]
    wrong = wrong or [*_differences(frame.sparkSession, frame.schema, wanted, "")]
    if wrong:
        raise NotAsKept("; ".join(wrong))
    kind = nullable(wanted)
    assert isinstance(kind, StructType)
    try:
        return frame.to(kind)
    except AnalysisException as error:
        raise NotAsKept(brief(error)) from error


def _differences(spark: SparkSession, found: DataType, wanted: DataType, place: str) -> Iterator[str]:
    """Yield what one has and the other has not, and what is of a type that the other does not hold."""
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        names = {field.name: field.dataType for field in found}
        for field in wanted:
            if field.name not in names:
                yield f"{place}{field.name} is missing"
            else:
                yield from _differences(spark, names[field.name], field.dataType, f"{place}{field.name}.")
        known = set(wanted.fieldNames())
        yield from (f"{place}{name} is not known" for name in names if name not in known)
    elif isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        yield from _differences(spark, found.elementType, wanted.elementType, place)
    elif isinstance(found, MapType) and isinstance(wanted, MapType):
        yield from _differences(spark, found.keyType, wanted.keyType, place)
        yield from _differences(spark, found.valueType, wanted.valueType, place)
    elif not _is_held(spark, found, wanted):
        yield f"{place.rstrip('.')} is {found.simpleString()} in place of {wanted.simpleString()}: cast it"


def _is_held(spark: SparkSession, found: DataType, wanted: DataType) -> bool:
    """Return True where every value of one type has its like in the other."""
    if found == wanted:
        return True
    if isinstance(wanted, StringType):
        return isinstance(found, NullType)
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    first, second = (session.parseDataType(kind.json()) for kind in (found, wanted))
    return bool(getattr(jvm, f"{_EXPRESSIONS}.Cast").canUpCast(first, second))


def nullable(kind: DataType) -> DataType:
    """Return the type with everything in it nullable, which says what may come, not what is allowed."""
    if isinstance(kind, StructType):
        return StructType([StructField(one.name, nullable(one.dataType), True, one.metadata) for one in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType), True)
    return kind


def null_where_none_may_be(column: Column, kind: DataType) -> Column | None:
    """Return a condition that holds where a null stands in `column` at a place that cannot hold one.

    Spark reads such a place without looking, and would find a zero. None: there is no such place.
    """
    found: Column | None = None
    if isinstance(kind, StructType):
        for field in kind:
            inner = column.getField(field.name)
            found = _either(found, None if field.nullable else inner.isNull())
            found = _either(found, null_where_none_may_be(inner, field.dataType))
    elif isinstance(kind, ArrayType):
        found = _any(column, kind.elementType, nullable=kind.containsNull)
    elif isinstance(kind, MapType):
        found = _either(
            _any(F.map_keys(column), kind.keyType, nullable=True),
            _any(F.map_values(column), kind.valueType, nullable=kind.valueContainsNull),
        )
    return found if found is None else column.isNotNull() & F.coalesce(found, F.lit(False))


def _any(elements: Column, kind: DataType, *, nullable: bool) -> Column | None:
    if nullable and null_where_none_may_be(F.lit(None), kind) is None:
        return None

    def wrong(element: Column) -> Column:
        found = _either(None if nullable else element.isNull(), null_where_none_may_be(element, kind))
        assert found is not None
        return found

    return F.exists(elements, wrong)


def _either(first: Column | None, second: Column | None) -> Column | None:
    if first is None or second is None:
        return second if first is None else first
    return first | second


def normalized(frame: DataFrame, name: str) -> Column:
    """Return a column as Spark has it in keys: one zero and one NaN, at any depth."""
    jvm: Any = frame.sparkSession._jvm
    rule = getattr(getattr(jvm.org.apache.spark.sql.catalyst.optimizer, "NormalizeFloatingNumbers$"), "MODULE$")
    return _column(jvm, rule.normalize(_attribute(frame, name))).alias(name)


def unsafe_bytes(frame: DataFrame, name: str) -> Column:
    """Return the bytes of a structure of `frame`, which a shuffle hands on: null where it is null.

    The structure has to stand in the shuffled rows as it is: one that is made of them afterwards is no `UnsafeRow`.
    """
    jvm: Any = frame.sparkSession._jvm
    objects, types = getattr(jvm, f"{_EXPRESSIONS}.objects"), jvm.org.apache.spark.sql.types
    row_type = types.ObjectType(jvm.java.lang.Class.forName(f"{_EXPRESSIONS}.UnsafeRow"))
    attribute = _attribute(frame, name)
    # There is no expression that only says of what class a row is; an option that is filled and emptied does.
    row = objects.UnwrapOption(row_type, objects.WrapOption(attribute, attribute.dataType()))
    none = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    binary = getattr(getattr(types, "BinaryType$"), "MODULE$")
    return _column(jvm, objects.Invoke(row, "getBytes", binary, none, none, True, True, True))


def _attribute(frame: DataFrame, name: str) -> Any:
    attributes = frame._jdf.queryExecution().analyzed().output()
    return next(one for one in map(attributes.apply, range(attributes.size())) if one.name() == name)


def _column(jvm: Any, expression: Any) -> Column:
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
