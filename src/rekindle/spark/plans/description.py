"""The identity of a task's query, read from its plan; `rekindle.graph.queries` compares it with what its state knows.

Spark keeps a window's begin and end as the key of its state and nothing of how it came to them, and of an aggregation
the values of its functions, one after the other. A window is described by the numbers in the expression that Spark
makes of it, which are its length, its slide and its offset; all else by Spark's own words for an expression. A column
that has another name is another one here: nothing tells whether it has other values too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from rekindle.channels.marks import UNORDERED_DELAY
from rekindle.graph.queries import KEY, Aspect, Operator, QueryDescription
from rekindle.spark.expressions import every
from rekindle.spark.plan_text import PlanNode, below, nodes, tree

_AGGREGATE = re.compile(r" *~Aggregate ")
_MADE = re.compile(r"named_struct\(start, .*?precisetimestampconversion.*?, end, .*?(?=named_struct\(|\) AS |$)")
"""The expressions of windows in a node; sessions are among them."""

_GAP = re.compile(r" \+ cast\(([^()]+) as interval\)")
"""The gap of a session, where it is the same for all rows."""

_IN_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 25 * 3_600_000_000,
    "week": (7 * 24 + 1) * 3_600_000_000,
}
"""Units of time; a day has 25 hours when clocks are set back."""

_NUMBER = re.compile(r"(?<![#\w.])\d+(?: (?:micro|milli)?(?:second|minute|hour|day|week|month|year)s?\b)?")


def description_of(frame: DataFrame, output_mode: str) -> QueryDescription:
    """Describe the query of a task."""
    computed = tuple(tuple(_computed(node.plan)) for node in _streaming(frame) if node.name == "Aggregate")
    operators = tuple(_operators(frame))
    if computed or any(one.kind != "watermark" for one in operators):
        mode = Operator(kind="query", says={Aspect.OUTPUT_MODE.name: output_mode})
        operators = (mode, *operators)
    else:
        operators = ()
    return QueryDescription(
        spark=_version(),
        aggregates=_windows(frame),
        computed=computed,
        operators=operators,
        kinds=tuple(_kinds_of_state(frame, output_mode)),
    )


def _streaming(frame: DataFrame) -> Iterator[PlanNode]:
    return (node for node in nodes(frame) if node.is_streaming)


def _kinds_of_state(frame: DataFrame, output_mode: str) -> Iterator[str]:
    plan = nodes(frame)
    for index, node in enumerate(plan):
        if not node.is_streaming or node.name not in _KEEP_STATE or (node.name == "Join" and not _join(node.plan)):
            continue
        # Of an aggregate that puts out whole results, the rows of a limit are counted afresh in each batch.
        aggregated = any(plan[at].name == "Aggregate" and plan[at].is_streaming for at in below(plan, index))
        if node.name != "GlobalLimit" or output_mode == "append" or not aggregated:
            yield _KEEP_STATE[node.name]


def _windows(frame: DataFrame) -> tuple[tuple[str, ...], ...]:
    found: list[set[str]] = []
    for line in tree(frame):
        if _AGGREGATE.match(line):
            found.append(set())
        elif found:
            found[-1] |= window_numbers(line)
    described = tuple(tuple(sorted(numbers)) for numbers in found)
    return tuple(each for each in described if each)


def window_numbers(text: str) -> set[str]:
    """Return the numbers of the definitions of windows in a node: microseconds, or the gap of a session as text."""
    return {number for made in _MADE.findall(text) for number in _NUMBER.findall(made)} - {"0", "1"}


def gap_us(texts: Iterable[str]) -> int | None:
    """Return the gap, at most, of the sessions that are made in some nodes, microseconds; None: rows differ in it."""
    gaps = {gap for text in texts for made in _MADE.findall(text) for gap in _GAP.findall(made)}
    parts = gaps.pop().split() if len(gaps) == 1 else []
    units = [_IN_MICROSECONDS.get(unit.removesuffix("s")) for unit in parts[1::2]]
    if not units or len(parts) % 2 or not all(number.isdigit() for number in parts[::2]) or None in units:
        return None
    return sum(int(number) * unit for number, unit in zip(parts[::2], units, strict=True) if unit)


def _computed(node: Any) -> Iterator[str]:
    for key in every(node.groupingExpressions()):
        yield f"{KEY}{key.sql()}"
    # What is asked for twice is computed once.
    functions = (text for one in every(node.aggregateExpressions()) for text in _functions(one))
    yield from dict.fromkeys(functions)


def _functions(expression: Any) -> Iterator[str]:
    kind = expression.nodeName()
    if kind == "AggregateExpression":
        yield str(expression.aggregateFunction().sql(bool(expression.isDistinct())))
    elif kind == "Alias":
        yield from _functions(expression.child())
    elif kind != "AttributeReference":
        for child in every(expression.children()):
            yield from _functions(child)


def _operators(frame: DataFrame) -> Iterator[Operator]:
    for node in _streaming(frame):
        kind, describe = _DESCRIBED.get(node.name, ("", lambda _: {}))
        if says := describe(node.plan):
            yield Operator(kind=kind, says={key.name: text for key, text in says.items()})


_Says = dict[Aspect, str]


def _deduplication(node: Any) -> _Says:
    return {Aspect.COLUMNS: ", ".join(key.sql() for key in every(node.keys()))}


def _join(node: Any) -> _Says:
    children = node.children()
    if not all(children.apply(side).isStreaming() for side in (0, 1)):
        return {}  # it keeps no state
    condition = node.condition()
    text = str(condition.get().sql()) if condition.isDefined() else "none"
    return {Aspect.JOIN: str(node.joinType().sql()).lower(), Aspect.CONDITION: text}


def _limit(node: Any) -> _Says:
    return {Aspect.LIMIT: str(node.limitExpr().sql())}


def _watermark(node: Any) -> _Says:
    delay = str(node.delay().toString())
    # That of an input that marks move: no user has chosen it.
    return {} if delay == UNORDERED_DELAY else {Aspect.DELAY: f"{delay} of {node.eventTime().sql()}"}


def _groups(node: Any) -> _Says:
    times = _asked(node, "timeMode") or _asked(node, "timeout")
    said = {Aspect.GROUPS: _keys(node), Aspect.FIELDS: _fields(node), Aspect.TIMES: times}
    return {key: str(text) for key, text in said.items() if text is not None}


def _keys(node: Any) -> str | None:
    """Return the columns that make the groups, or None; to transformWithState in Python these are its input's first."""
    keys = _asked(node, "groupingAttributes")
    if keys is not None:
        return ", ".join(key.sql() for key in every(keys))
    count = _asked(node, "groupingAttributesLen")
    if count is None:
        return None
    output = node.children().apply(0).output()
    return ", ".join(output.apply(index).sql() for index in range(count))


def _fields(node: Any) -> str | None:
    """Return the fields of the state of an applyInPandasWithState; a transformWithState has variables, seen later."""
    kind = _asked(node, "stateType")
    fields = () if kind is None else kind.fields()
    return ", ".join(f"{field.name()} {field.dataType().catalogString()}" for field in fields) or None


def _asked(node: Any, method: str) -> Any:
    """Return what a method gives; None where the class has no such method in this Spark."""
    try:
        return getattr(node, method)()
    except (Py4JError, TypeError):
        return None


_DESCRIBED: dict[str, tuple[str, Callable[[Any], _Says]]] = {
    "Deduplicate": ("deduplication", _deduplication),
    "DeduplicateWithinWatermark": ("deduplication", _deduplication),
    "Join": ("join", _join),
    "GlobalLimit": ("limit", _limit),
    "EventTimeWatermark": ("watermark", _watermark),
    "FlatMapGroupsInPandasWithState": ("groups", _groups),
    "TransformWithStateInPandas": ("groups", _groups),
    "TransformWithStateInPySpark": ("groups", _groups),
}
"""Node → the kind of operator that it is described as, and its description."""

_KEEP_STATE = {
    "Aggregate": "aggregate",
    "Distinct": "aggregate",
    "Deduplicate": "deduplication",
    "DeduplicateWithinWatermark": "deduplication within the watermark",
    "Join": "join",
    "GlobalLimit": "limit",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithStateInPandas": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
}
"""Node that keeps state → the kind of its state."""


def _version() -> str:
    return ".".join(pyspark.__version__.split(".")[:2])
