"""The rows that the state of a streaming query keeps at a watermark: those that are not long enough before it.

`Kept` says it of a query, whatever its operators are. For a join, Spark's own helpers are asked, over the plan as
Spark's optimizer leaves it: these are what its physical operator removes rows by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from rekindle.spark.inputs.watermark_rows import WATERMARKED
from rekindle.spark.plan_text import PlanNode, below, lowest, nodes
from rekindle.spark.plans.description import window_numbers
from rekindle.spark.plans.join_bounds import joins_streams, optimized_joins, reach_us
from rekindle.spark.prelude.windows import (
    NotClosedError,
    Windows,
    is_inner,
    refuse_other_times,
    windows_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The rows that a query keeps of those that it has read, once it runs with a watermark."""

    #: longest time before the watermark of a row that is kept, microseconds; None: not known
    reach_us: int | None
    #: the windows that come out when they close; None: all of a row comes out with the batch that reads it
    windows: Windows | None = None


def kept_of(frame: DataFrame, keeping: frozenset[str]) -> Kept:
    """Return what a streaming query keeps.

    Args:
        keeping: its operators that keep rows.

    Raises:
        NotClosedError: no watermark lets it go.
    """
    if keeping == {"Join"}:
        return Kept(reach_us=_reach_of_join(frame))
    if keeping == {"Deduplicate"}:
        return Kept(reach_us=_reach_of_keys(frame))
    windows = windows_of(frame)
    return Kept(reach_us=windows.length_us, windows=windows)


def kept_from(frame: DataFrame, keeping: frozenset[str]) -> Sequence[PlanNode]:
    """Return the nodes on a stream that make the rows which a query keeps; also the join that puts these together."""
    kind = "Aggregate" if keeping & {"Aggregate", "Session"} else min(keeping)
    plan = nodes(frame)
    keep = [index for index, node in enumerate(plan) if node.is_streaming and node.name == kind]
    joins = [index for index in keep if kind == "Join" and joins_streams(plan[index].plan)]
    found = [*joins, *(at for index in lowest(plan, joins or keep) for at in below(plan, index))]
    return [plan[at] for at in found if plan[at].is_streaming]


def _reach_of_join(frame: DataFrame) -> int | None:
    plan = nodes(frame)
    found = [node for node in plan if node.is_streaming and node.name == "Join" and joins_streams(node.plan)]
    if len(found) > 1:
        raise NotClosedError("several joins of streams hand on to each other what they keep")
    if not is_inner(found[0]):
        raise NotClosedError("a join that is not an inner join puts out later what has found no partner")
    refuse_other_times(plan)
    bound_us, length_us = _reach_of_bounds(frame), _length_us(plan)
    return None if length_us is None else bound_us + length_us


def _reach_of_keys(frame: DataFrame) -> int | None:
    """Return how long what a deduplication remembers is kept, whose keys have an event time or a window."""
    plan = nodes(frame)
    found = [node for node in plan if node.is_streaming and node.name == "Deduplicate"]
    if len(found) > 1:
        raise NotClosedError("several deduplications hand on to each other what they keep")
    keys = found[0].plan.keys()
    if not any(keys.apply(index).metadata().contains(WATERMARKED) for index in range(keys.size())):
        raise NotClosedError("deduplication by columns without an event time remembers every row")
    refuse_other_times(plan)
    return _length_us(plan)


def _reach_of_bounds(frame: DataFrame) -> int:
    found = reach_us(frame, optimized_joins(frame)[0])
    if found is None:
        raise NotClosedError("a join keeps every row of a side whose time it does not bound by the other's")
    return found


def _length_us(plan: Sequence[PlanNode]) -> int | None:
    """Return the length of the longest window of a plan, 0 where it has none; None: its numbers do not tell it."""
    numbers = {number for node in plan if node.is_streaming for number in window_numbers(node.text)}
    return max(map(int, numbers), default=0) if all(number.isdigit() for number in numbers) else None
