"""The windows of a plan, and a batch plan that computes only those which a watermark has closed.

Spark's stream emits a window, and forgets it, once the watermark has reached its end; a batch knows no watermark. So a
filter with that very condition is put above the aggregate of the batch plan that makes the windows. Whatever the user
does with them afterwards stands above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame

from rekindle.session.classes import java_class
from rekindle.spark.expressions import every, is_a, is_attribute, number_of, numbers_read
from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode, nodes
from rekindle.spark.plans.description import description_of, gap_us
from rekindle.spark.plans.session_filters import is_session_column

CATALYST = "org.apache.spark.sql.catalyst"
_NEVER = "spark_partition_id() < 0"
"""A condition that never holds, and keeps Spark's optimizer from filtering rows before they are put into sessions."""

_ONE_BY_ONE = frozenset({"Project", "Filter", "SubqueryAlias", "View", "Generate", "ResolvedHint", "Aggregate", "Join"})
"""The nodes that may stand above the windows."""

_END = 1
"""The number of the field of a window that is its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The place in a query's plan where its windows are made."""

    #: names of the nodes from the uppermost down to the aggregate, and which of its children each leads to
    path: tuple[tuple[str, int], ...]
    #: number of the column of the aggregate that is the window, or the time
    column: int
    #: it is a window; else a time
    is_window: bool
    #: it is the window of a session, which grows with its rows
    is_session: bool
    #: longest time from a row to the end of one of its windows, or its gap, microseconds; None: not known
    length_us: int | None


class NotClosedError(Exception):
    """Raised where a watermark does not close the groups of a query for good; says why."""


def windows_of(frame: DataFrame) -> Windows:
    """Find the windows of a streaming query that has an aggregate.

    Raises:
        NotClosedError: they are of another kind.
    """
    plan = nodes(frame)
    made = [index for index, node in enumerate(plan) if node.is_streaming and node.name == "Aggregate"]
    lowest = made[-1]
    path = _path(plan, lowest)
    above = [index for index, _ in path]
    if not set(made) <= {*above, lowest}:
        raise NotClosedError("it has several aggregates beside each other")
    if any(plan[index].name not in _ONE_BY_ONE for index in above):
        raise NotClosedError("its windows are put together with other rows")
    refuse_other_times(plan)
    column = _window_column(plan[lowest].plan)
    for upper, lower in pairwise(made):
        _refuse_other_windows(plan[upper].plan, plan[lower].plan)
    attribute = plan[lowest].plan.output().apply(column)
    is_window, is_session = attribute.dataType().typeName() == "struct", is_session_column(attribute)
    if is_session:
        _refuse_filters([plan[index].plan for index in reversed(above)], attribute)
    return Windows(
        path=tuple((str(plan[index].plan.nodeName()), child) for index, child in path),
        column=column,
        is_window=is_window,
        is_session=is_session,
        length_us=_length_us(frame, is_session=is_session) if is_window else 0,
    )


def joins_streams(join: Any) -> bool:
    """Return whether both sides of a join are streams."""
    return bool(join.left().isStreaming() and join.right().isStreaming())


def closed(frame: DataFrame, windows: Windows, watermark_ms: int) -> DataFrame:
    """Return a batch query that has only the windows which end at a watermark or before.

    Args:
        frame: of the same function as the streaming query.

    Raises:
        NotClosedError: its plan has another shape than that of the stream.
    """
    jvm: Any = frame.sparkSession._jvm
    plan = _aggregate(frame, windows)
    made = java_class(jvm, f"{CATALYST}.plans.logical.Filter")(_is_closed(frame, plan, windows, watermark_ms), plan)
    # A map of Scala's is a function.
    replaced = java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap({plan: made})
    whole = frame._jdf.queryExecution().analyzed().transformUp(replaced)
    return _frame_of(frame, whole)


def first_open_us(frame: DataFrame, windows: Windows, watermark_ms: int) -> int | None:
    """Return the begin of the first window that a watermark leaves open, microseconds; None: there is none.

    Args:
        frame: see `closed`.

    Raises:
        NotClosedError: see `closed`.
    """
    plan = _aggregate(frame, windows)
    made = _frame_of(frame, plan).toDF(*map(str, range(plan.output().size())))
    window = f"`{windows.column}`"
    is_open = f"unix_micros({window}.end) > {watermark_ms * 1000} OR {_NEVER}"
    found = made.where(is_open).selectExpr(f"unix_micros(min({window}.start))").first()
    return None if found is None else found[0]


def _aggregate(frame: DataFrame, windows: Windows) -> Any:
    """Return the node of a batch query that makes the windows."""
    plan = frame._jdf.queryExecution().analyzed()
    for name, child in windows.path:
        if plan.nodeName() != name or child >= plan.children().size():
            raise NotClosedError("Spark plans it in another way where it is no stream")
        plan = plan.children().apply(child)
    if plan.nodeName() != "Aggregate" or windows.column >= plan.output().size():
        raise NotClosedError("Spark plans it in another way where it is no stream")
    return plan


def _frame_of(frame: DataFrame, plan: Any) -> DataFrame:
    # The class has moved with Spark 4.0.
    of_rows = java_class(frame.sparkSession._jvm, frame._jdf.getClass().getName()).ofRows
    return DataFrame(of_rows(frame._jdf.sparkSession(), plan), frame.sparkSession)


def _is_closed(frame: DataFrame, aggregate: Any, windows: Windows, watermark_ms: int) -> Any:
    session: Any = frame.sparkSession._jsparkSession
    jvm: Any = frame.sparkSession._jvm
    expressions = f"{CATALYST}.expressions"
    time = aggregate.output().apply(windows.column)
    kind = time.dataType()
    if windows.is_window:
        kind = kind.fields()[_END].dataType()
        time = java_class(jvm, f"{expressions}.GetStructField")(time, _END, jvm.scala.Option.apply(None))
    # A number below 2^31 would come to the JVM as an Integer.
    value = java_class(jvm, "java.lang.Long").valueOf(str(watermark_ms * 1000))
    watermark = java_class(jvm, f"{expressions}.Literal")(value, kind)
    is_closed = java_class(jvm, f"{expressions}.LessThanOrEqual")(time, watermark)
    if not windows.is_session:
        return is_closed
    never = session.sessionState().sqlParser().parseExpression(_NEVER)
    return java_class(jvm, f"{expressions}.Or")(is_closed, never)


def _path(plan: Sequence[PlanNode], index: int) -> list[tuple[int, int]]:
    """Return the nodes above one, from the uppermost down, and which of its children each leads to."""
    found: list[tuple[int, int]] = []
    while plan[index].depth > plan[0].depth:
        depth, before = plan[index].depth, index - 1
        child = 0
        while plan[before].depth >= depth:
            child += plan[before].depth == depth
            before -= 1
        found.append((before, child))
        index = before
    return found[::-1]


def _window_column(aggregate: Any) -> int:
    output, expressions = aggregate.output(), aggregate.aggregateExpressions()
    keys = {number_of(key) for key in every(aggregate.groupingExpressions()) if is_attribute(key)}
    found = [index for index in range(output.size()) if output.apply(index).metadata().contains(WATERMARKED)]
    if len(found) != 1:
        raise NotClosedError("it has no window, or no event time, among the keys that it puts out")
    made = expressions.apply(found[0])
    source = made if is_attribute(made) else made.child()
    if not is_attribute(source) or number_of(source) not in keys:
        raise NotClosedError("its event time is no key of its groups")
    return found[0]


def refuse_other_times(plan: Sequence[PlanNode]) -> None:
    """Refuse an input whose windows go by another time than the one that its watermark does.

    Spark takes the columns of a union for those of its first part.
    """
    for node in plan:
        if node.name != "Union" or not node.is_streaming:
            continue
        parts = [list(every(part.output())) for part in every(node.plan.children())]
        timed = [[column.metadata().contains(WATERMARKED) for column in part] for part in parts]
        if any(one != timed[0] for one in timed):
            raise NotClosedError("an input gives its windows another time than its event time")


def _refuse_other_windows(upper: Any, lower: Any) -> None:
    """Refuse groups of groups that do not close with them."""
    windows = {number_of(column) for column in every(lower.output()) if column.metadata().contains(WATERMARKED)}
    keys = [key for key in every(upper.groupingExpressions()) if is_attribute(key)]
    if not any(number_of(key) in windows for key in keys):
        raise NotClosedError("it makes other windows of its windows")


def _refuse_filters(above: Sequence[Any], session: Any) -> None:
    """Refuse what Spark's optimizer would apply to the rows of a session as if each were one.

    Args:
        above: nodes above the sessions, the lowest first.
    """
    of_sessions = {number_of(session)}
    for node in above:
        for expression in every(node.expressions()):
            read = numbers_read(expression)
            if read & of_sessions:
                if node.nodeName() in ("Filter", "Join"):
                    raise NotClosedError("Spark filters rows by the begin or end of their session before it makes it")
                if is_a(expression, "Alias"):
                    of_sessions.add(number_of(expression))


def _length_us(frame: DataFrame, *, is_session: bool) -> int | None:
    if is_session:
        return gap_us(node.text for node in nodes(frame) if node.is_streaming)
    numbers = [number for one in description_of(frame, "append").aggregates for number in one]
    return max(map(int, numbers), default=None) if all(number.isdigit() for number in numbers) else None
