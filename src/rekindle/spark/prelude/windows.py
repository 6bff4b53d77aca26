"""The windows of a streaming query that a watermark closes for good, and where its plan makes them.

Above the aggregates that make windows may stand what turns one row into others, groups of the groups by the same
window, and inner joins of equal windows: what comes out of these belongs to one window, and comes when that is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame

from rekindle.spark.expressions import every, is_a, is_attribute, number_of, numbers_read
from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode, below, lowest, nodes
from rekindle.spark.plans.description import description_of, gap_us
from rekindle.spark.plans.join_bounds import equal_columns, joins_streams
from rekindle.spark.plans.session_filters import is_session_column
from rekindle.spark.plans.time_columns import joins_other_times

_ONE_BY_ONE = frozenset({"Project", "Filter", "SubqueryAlias", "View", "Generate", "ResolvedHint", "Aggregate", "Join"})
"""The nodes that may stand above the windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place in a query's plan of an aggregate that makes windows."""

    #: names of the nodes from the uppermost down to the aggregate, and which of its children each leads to
    path: tuple[tuple[str, int], ...]
    #: number of the column of the aggregate that is the window, or the time
    column: int
    #: it is a window; else a time
    is_window: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The windows of a query."""

    #: the places that make them: several if they are joined
    places: tuple[Place, ...]
    #: they are those of sessions, which grow with their rows
    are_sessions: bool
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
    paths = {index: _path(plan, index) for index in lowest(plan, made)}
    above = sorted({node for path in paths.values() for node, _ in path})
    if any(plan[index].name not in _ONE_BY_ONE for index in above):
        raise NotClosedError("its windows are put together with other rows")
    refuse_other_times(plan)
    columns = {index: _window_column(plan[index].plan) for index in paths}
    for index in above:
        if index in made:
            _refuse_other_windows(plan[index].plan, [plan[lower].plan for lower in made if lower in below(plan, index)])
    attributes = {index: plan[index].plan.output().apply(column) for index, column in columns.items()}
    windows = {index: number_of(attribute) for index, attribute in attributes.items()}
    for index, node in enumerate(plan):
        if node.is_streaming and node.name == "Join" and joins_streams(node.plan):
            _refuse_other_pairs(plan, index, windows)
    are_windows = {index: one.dataType().typeName() == "struct" for index, one in attributes.items()}
    are_sessions = any(map(is_session_column, attributes.values()))
    if are_sessions:
        (session,) = attributes.values()
        _refuse_filters([plan[index].plan for index in reversed(above)], session)
    return Windows(
        places=tuple(
            Place(
                path=tuple((str(plan[index].plan.nodeName()), child) for index, child in paths[made_at]),
                column=columns[made_at],
                is_window=are_windows[made_at],
            )
            for made_at in paths
        ),
        are_sessions=are_sessions,
        length_us=_length_us(frame, is_session=are_sessions) if any(are_windows.values()) else 0,
    )


def is_inner(join: PlanNode) -> bool:
    """Return whether a join puts out pairs, and nothing else."""
    return join.text.startswith(("Join Inner", "Join Cross"))


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
    """Refuse an input whose windows go by another time than the one that its watermark does."""
    if joins_other_times(plan):
        raise NotClosedError("an input gives its windows another time than its event time")


def _refuse_other_pairs(plan: Sequence[PlanNode], index: int, windows: Mapping[int, int]) -> None:
    """Refuse a join of streams whose pairs are not of equal windows.

    Args:
        index: the number of the join.
        windows: number of each aggregate that makes windows → that of its column.
    """
    beneath = below(plan, index)
    right = next(at for at in beneath[1:] if plan[at].depth == plan[index + 1].depth)
    sides = [
        {window for made_at, window in windows.items() if made_at in side}
        for side in (range(index + 1, right), range(right, beneath.stop))
    ]
    if not all(sides):
        raise NotClosedError("it joins rows that are in no window yet")
    if not is_inner(plan[index]):
        raise NotClosedError("a join of windows that is not an inner join puts out later what has found no partner")
    condition = plan[index].plan.condition()
    pairs = list(equal_columns(condition.get())) if condition.isDefined() else []
    if not any(
        (one in sides[0] and other in sides[1]) or (one in sides[1] and other in sides[0]) for one, other in pairs
    ):
        raise NotClosedError("it joins windows by something else than the window")


def _refuse_other_windows(upper: Any, lower: Iterable[Any]) -> None:
    """Refuse groups of groups that do not close with them."""
    columns = chain.from_iterable(every(one.output()) for one in lower)
    windows = {number_of(column) for column in columns if column.metadata().contains(WATERMARKED)}
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
