"""A batch plan that computes only the windows which a watermark has closed.

Spark's stream emits a window, and forgets it, once the watermark has reached its end; a batch knows no watermark. So a
filter with that very condition is put above each aggregate of the batch plan that makes windows. Whatever the user
does with them afterwards stands above it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from rekindle.session.classes import java_class
from rekindle.spark.expressions import CATALYST
from rekindle.spark.prelude.windows import NotClosedError, Place, Windows

_NEVER = "spark_partition_id() < 0"
"""A condition that never holds, and keeps Spark's optimizer from filtering rows before they are put into sessions."""

_END = 1
"""The number of the field of a window that is its end."""


def closed(frame: DataFrame, windows: Windows, watermark_ms: int) -> DataFrame:
    """Return a batch query that has only the windows which end at a watermark or before.

    Args:
        frame: of the same function as the streaming query.

    Raises:
        NotClosedError: its plan has another shape than that of the stream.
    """
    jvm: Any = frame.sparkSession._jvm
    filters = java_class(jvm, f"{CATALYST}.plans.logical.Filter")
    made = {}
    for place in windows.places:
        plan = _aggregate(frame, place)
        condition = _is_closed(frame, plan, place, watermark_ms, are_sessions=windows.are_sessions)
        made[plan] = filters(condition, plan)
    # A map of Scala's is a function.
    replaced = java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap(made)
    whole = frame._jdf.queryExecution().analyzed().transformUp(replaced)
    return _frame_of(frame, whole)


def first_open_us(frame: DataFrame, windows: Windows, watermark_ms: int) -> int | None:
    """Return the begin of the first session that a watermark leaves open, microseconds; None: there is none.

    Args:
        frame: see `closed`.

    Raises:
        NotClosedError: see `closed`.
    """
    (place,) = windows.places
    plan = _aggregate(frame, place)
    made = _frame_of(frame, plan).toDF(*map(str, range(plan.output().size())))
    window = f"`{place.column}`"
    is_open = f"unix_micros({window}.end) > {watermark_ms * 1000} OR {_NEVER}"
    found = made.where(is_open).selectExpr(f"unix_micros(min({window}.start))").first()
    return None if found is None else found[0]


def _aggregate(frame: DataFrame, place: Place) -> Any:
    """Return the node of a batch query that makes windows."""
    plan = frame._jdf.queryExecution().analyzed()
    for name, child in place.path:
        if plan.nodeName() != name or child >= plan.children().size():
            raise NotClosedError("Spark plans it in another way where it is no stream")
        plan = plan.children().apply(child)
    if plan.nodeName() != "Aggregate" or place.column >= plan.output().size():
        raise NotClosedError("Spark plans it in another way where it is no stream")
    return plan


def _frame_of(frame: DataFrame, plan: Any) -> DataFrame:
    # The class has moved with Spark 4.0.
    of_rows = java_class(frame.sparkSession._jvm, frame._jdf.getClass().getName()).ofRows
    return DataFrame(of_rows(frame._jdf.sparkSession(), plan), frame.sparkSession)


def _is_closed(frame: DataFrame, aggregate: Any, place: Place, watermark_ms: int, *, are_sessions: bool) -> Any:
    session: Any = frame.sparkSession._jsparkSession
    jvm: Any = frame.sparkSession._jvm
    expressions = f"{CATALYST}.expressions"
    time = aggregate.output().apply(place.column)
    kind = time.dataType()
    if place.is_window:
        kind = kind.fields()[_END].dataType()
        time = java_class(jvm, f"{expressions}.GetStructField")(time, _END, jvm.scala.Option.apply(None))
    # As a number, one below 2^31 microseconds would come to the JVM as an Integer, also one that Java made a Long.
    value = java_class(jvm, "java.time.Instant").ofEpochMilli(watermark_ms)
    watermark = java_class(jvm, f"{expressions}.Literal").create(value, kind)
    is_closed = java_class(jvm, f"{expressions}.LessThanOrEqual")(time, watermark)
    if not are_sessions:
        return is_closed
    never = session.sessionState().sqlParser().parseExpression(_NEVER)
    return java_class(jvm, f"{expressions}.Or")(is_closed, never)
