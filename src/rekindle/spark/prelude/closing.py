"""The windows of a plan, and a batch plan that computes only those which a watermark has closed.

Spark's stream emits a window, and forgets it, once the watermark has reached its end; a batch knows no watermark. So a
filter with that very condition is put above the aggregate of the batch plan that makes the windows. Whatever the user
does with them afterwards stands above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame

from rekindle.session.classes import java_class
from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode, nodes
from rekindle.spark.plans.description import description_of

_CATALYST = "org.apache.spark.sql.catalyst"
_SESSION = "spark.sessionWindow"
"""The key that Spark adds to the metadata of a column of sessions."""

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
    #: longest time from a row to the end of one of its windows, microseconds; None: not known
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
    _refuse_other_times(below(frame))
    column = _window_column(plan[lowest].plan)
    for upper, lower in pairwise(made):
        _refuse_other_windows(plan[upper].plan, plan[lower].plan)
    attribute = plan[lowest].plan.output().apply(column)
    is_window = attribute.dataType().typeName() == "struct"
    return Windows(
        path=tuple((str(plan[index].plan.nodeName()), child) for index, child in path),
        column=column,
        is_window=is_window,
        length_us=_length_us(frame) if is_window else 0,
    )


def below(frame: DataFrame) -> Sequence[PlanNode]:
    """Return the nodes on a stream from which a query makes its windows."""
    plan = nodes(frame)
    lowest = max(index for index, node in enumerate(plan) if node.is_streaming and node.name == "Aggregate")
    return [node for node in plan[lowest + 1 :] if node.is_streaming and node.depth > plan[lowest].depth]


def closed(frame: DataFrame, windows: Windows, watermark_ms: int) -> DataFrame:
    """Return a batch query that has only the windows which end at a watermark or before.

    Args:
        frame: of the same function as the streaming query.

    Raises:
        NotClosedError: its plan has another shape than that of the stream.
    """
    jvm: Any = frame.sparkSession._jvm
    plan = frame._jdf.queryExecution().analyzed()
    for name, child in windows.path:
        if plan.nodeName() != name or child >= plan.children().size():
            raise NotClosedError("Spark plans it in another way where it is no stream")
        plan = plan.children().apply(child)
    if plan.nodeName() != "Aggregate" or windows.column >= plan.output().size():
        raise NotClosedError("Spark plans it in another way where it is no stream")
    made = java_class(jvm, f"{_CATALYST}.plans.logical.Filter")(_is_closed(jvm, plan, windows, watermark_ms), plan)
    # A map of Scala's is a function.
    replaced = java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap({plan: made})
    whole = frame._jdf.queryExecution().analyzed().transformUp(replaced)
    # The class has moved with Spark 4.0.
    of_rows = java_class(jvm, frame._jdf.getClass().getName()).ofRows
    return DataFrame(of_rows(frame._jdf.sparkSession(), whole), frame.sparkSession)


def _is_closed(jvm: Any, aggregate: Any, windows: Windows, watermark_ms: int) -> Any:
    expressions = f"{_CATALYST}.expressions"
    time = aggregate.output().apply(windows.column)
    kind = time.dataType()
    if windows.is_window:
        kind = kind.fields()[_END].dataType()
        time = java_class(jvm, f"{expressions}.GetStructField")(time, _END, jvm.scala.Option.apply(None))
    # A number below 2^31 would come to the JVM as an Integer.
    value = java_class(jvm, "java.lang.Long").valueOf(str(watermark_ms * 1000))
    watermark = java_class(jvm, f"{expressions}.Literal")(value, kind)
    return java_class(jvm, f"{expressions}.LessThanOrEqual")(time, watermark)


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
    keys = {key.exprId().id() for key in _all(aggregate.groupingExpressions()) if _is_attribute(key)}
    found = [index for index in range(output.size()) if output.apply(index).metadata().contains(WATERMARKED)]
    if len(found) != 1:
        raise NotClosedError("it has no window, or no event time, among the keys that it puts out")
    if output.apply(found[0]).metadata().contains(_SESSION):
        raise NotClosedError("a session that has begun before the watermark continues after it")
    made = expressions.apply(found[0])
    source = made if _is_attribute(made) else made.child()
    if not _is_attribute(source) or source.exprId().id() not in keys:
        raise NotClosedError("its event time is no key of its groups")
    return found[0]


def _refuse_other_times(plan: Sequence[PlanNode]) -> None:
    """Refuse an input whose windows go by another time than the one that its watermark does.

    Spark takes the columns of a union for those of its first part.
    """
    for node in plan:
        if node.name != "Union":
            continue
        parts = [list(_all(part.output())) for part in _all(node.plan.children())]
        timed = [[column.metadata().contains(WATERMARKED) for column in part] for part in parts]
        if any(one != timed[0] for one in timed):
            raise NotClosedError("an input gives its windows another time than its event time")


def _refuse_other_windows(upper: Any, lower: Any) -> None:
    """Refuse groups of groups that do not close with them."""
    windows = {column.exprId().id() for column in _all(lower.output()) if column.metadata().contains(WATERMARKED)}
    keys = [key for key in _all(upper.groupingExpressions()) if _is_attribute(key)]
    if not any(key.exprId().id() in windows for key in keys):
        raise NotClosedError("it makes other windows of its windows")


def _length_us(frame: DataFrame) -> int | None:
    numbers = [number for one in description_of(frame, "append").aggregates for number in one]
    return max(map(int, numbers), default=None) if all(number.isdigit() for number in numbers) else None


def _is_attribute(expression: Any) -> bool:
    return bool(expression.getClass().getSimpleName() == "AttributeReference")


def _all(expressions: Any) -> Iterator[Any]:
    return (expressions.apply(index) for index in range(expressions.size()))
