"""The rows that a query's state may still emit when no more rows come, as its plan says: a flush is for these.

A join of two streams without outer rows emits a pair as soon as both are there, and deduplication emits a row when it
first sees it. What they keep serves rows to come, and where none come it is worth nothing.
"""

from __future__ import annotations

import re
from enum import Enum

from pyspark.sql import DataFrame

from rekindle.spark.expressions import every, is_attribute
from rekindle.spark.plan_text import PlanNode, nodes
from rekindle.spark.plans.time_columns import WINDOWED

_NAMED = re.compile(r"(\w+)(?: (\w+))?")
"""The name of a node of a plan; of a join also its type."""

_NEVER_EMITS = re.compile(
    r"(?:Project|Filter|Union|SubqueryAlias|View|Generate|Expand|ResolvedHint|CollectMetrics|Repartition\w*"
    r"|EventTimeWatermark|UpdateEventTimeWatermarkColumn|\w*SerializeToObject|\w*SerializeFromObject"
    r"|DeserializeToObject|MapElements|MapPartitions\w*|MapInPandas|MapInArrow|PythonMapInArrow|TypedFilter"
    r"|Streaming(?:Execution)?Relation\w*|StreamingDataSource\w*|LogicalRelation|Deduplicate\w*"
    r"|Join (?:Inner|Cross|LeftSemi))"
)
"""Nodes that keep no rows, or only such as they emit nothing of later. What is not named here is taken to emit."""

_USERS_OWN = re.compile(r"\w*WithState\w*")
"""Nodes whose rows a user's code makes, from timers too."""

_BY_THE_CLOCK = re.compile(r"\w*WithState\w* .*, ProcessingTime(?:Timeout)?(?:,|$)")
"""Such a node whose timers, or time-outs, are of processing time."""


class Leftovers(Enum):
    """The kinds of rows that may come out when time has passed for all of them."""

    NONE = "none"
    WINDOWS = "windows and sessions: all at once, and nothing stays"
    SPARKS_OWN = "windows, sessions, outer rows: all at once"
    USERS_OWN = "rows of a user's processor, and timers that may set others"


def leftovers_of(frame: DataFrame) -> Leftovers:
    """Read from its plan what the state of a streaming query may hold at its end."""
    emits, keeps = False, False
    for node in nodes(frame):
        named = _NAMED.match(node.text) if node.is_streaming else None
        if named is None:
            continue
        if _USERS_OWN.fullmatch(named[1]):
            return Leftovers.USERS_OWN
        if not _NEVER_EMITS.fullmatch(f"{named[1]} {named[2]}" if named[1] == "Join" else named[1]):
            emits = True
            keeps = keeps or not _is_of_windows(node)
        elif named[1].startswith(("Join", "Deduplicate")):
            keeps = keeps or _is_of_streams(node)
    if not emits:
        return Leftovers.NONE
    return Leftovers.SPARKS_OWN if keeps else Leftovers.WINDOWS


def waits_for_the_clock(frame: DataFrame) -> bool:
    """Return True if a query has timers of processing time, which no flush fires."""
    return any(node.is_streaming and _BY_THE_CLOCK.match(node.text) for node in nodes(frame))


def _is_of_windows(node: PlanNode) -> bool:
    """Return True for an aggregate that has a window among its keys."""
    if node.name != "Aggregate":
        return False
    known = (key.metadata() for key in every(node.plan.groupingExpressions()) if is_attribute(key))
    return any(metadata.contains(key) for metadata in known for key in WINDOWED)


def _is_of_streams(node: PlanNode) -> bool:
    """Return False for a join with a table, which keeps nothing."""
    return all(child.isStreaming() for child in every(node.plan.children()))
