"""The rows that a query's state may still emit when no more rows come, as its plan says: a flush is for these.

A join of two streams without outer rows emits a pair as soon as both are there, and deduplication emits a row when it
first sees it. What they keep serves rows to come, and where none come it is worth nothing.
"""

from __future__ import annotations

import re
from enum import Enum

from pyspark.sql import DataFrame

from rekindle.spark.plan_text import tree

_STREAMING = re.compile(r" *~(\w+)(?: (\w+))?")
"""A node of a plan that Spark runs on a stream; of a join also its type."""

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


class Leftovers(Enum):
    """The kinds of rows that may come out when time has passed for all of them."""

    NONE = "none"
    SPARKS_OWN = "windows, sessions, outer rows: all at once"
    USERS_OWN = "rows of a user's processor, and timers that may set others"


def leftovers_of(frame: DataFrame) -> Leftovers:
    """Read from its plan what the state of a streaming query may hold at its end."""
    found = Leftovers.NONE
    for node in filter(None, map(_STREAMING.match, tree(frame))):
        if _USERS_OWN.fullmatch(node[1]):
            return Leftovers.USERS_OWN
        named = f"{node[1]} {node[2]}" if node[1] == "Join" else node[1]
        if not _NEVER_EMITS.fullmatch(named):
            found = Leftovers.SPARKS_OWN
    return found
