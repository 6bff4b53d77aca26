"""The analyzed plan of a DataFrame as lines of text, the same in every version of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

_FIELDS_AT_MOST = 1000
"""Of each node, in its text."""


def tree(frame: DataFrame) -> list[str]:
    """Return a line for each node of the plan, indented, and marked with ~ where it runs on a stream.

    Spark's own text has that mark since 4.0 only.
    """
    lines = list[str]()
    for node, depth in nodes(frame):
        text = " ".join(str(node.verboseString(_FIELDS_AT_MOST)).splitlines())
        lines.append(f"{' ' * depth}{'~' if node.isStreaming() else ''}{text.lstrip('~')}")
    return lines


def nodes(frame: DataFrame) -> Iterator[tuple[Any, int]]:
    """Yield each node of the plan and its depth, from above."""
    query: Any = frame._jdf.queryExecution()
    left = [(query.analyzed(), 0)]
    while left:  # no recursion: a plan may be deeper than Python's stack
        node, depth = left.pop()
        yield node, depth
        children = node.children()
        left += [(children.apply(index), depth + 1) for index in reversed(range(children.size()))]


def nodes_below(tree: Sequence[str], index: int) -> Iterator[str]:
    """Return the lines of what the node at `index` is made from."""
    for line in tree[index + 1 :]:
        if depth(line) <= depth(tree[index]):
            return
        yield line


def depth(line: str) -> int:
    """Return how deep in its plan a node stands."""
    return len(line) - len(line.lstrip(" "))
