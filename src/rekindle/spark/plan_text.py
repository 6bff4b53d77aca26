"""The analyzed plan of a DataFrame, node by node, the same in every version of Spark.

Each look at a node is a call to the JVM, and many look at the plan of a task. So a plan is read once: it never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

_FIELDS_AT_MOST = 1000
"""The number of a node's fields that its text shows at most."""


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of a plan."""

    #: Spark's own object
    plan: Any
    #: its depth in the plan
    depth: int
    #: Spark runs it on a stream
    is_streaming: bool
    #: it has no node below it
    is_leaf: bool
    #: on one line, its name first
    text: str

    @property
    def name(self) -> str:
        """Spark's name of the node, e.g. ``Aggregate``."""
        return self.text.partition(" ")[0]


_READ: WeakKeyDictionary[DataFrame, tuple[PlanNode, ...]] = WeakKeyDictionary()


def nodes(frame: DataFrame) -> tuple[PlanNode, ...]:
    """Return the nodes of the plan, from above."""
    found = _READ.get(frame)
    if found is None:
        query: Any = frame._jdf.queryExecution()
        found = _READ[frame] = nodes_of(query.analyzed())
    return found


def nodes_of(plan: Any) -> tuple[PlanNode, ...]:
    """Return the nodes of a plan of Spark's, from above."""
    return tuple(_read(plan))


def _read(whole: Any) -> Iterator[PlanNode]:
    left = [(whole, 0)]
    while left:  # no recursion: a plan may be deeper than Python's stack
        plan, depth = left.pop()
        children = plan.children()
        below = [children.apply(index) for index in range(children.size())]
        text = " ".join(str(plan.verboseString(_FIELDS_AT_MOST)).splitlines())
        # Spark's own text has a mark for it since 4.0 only.
        is_streaming = text.startswith("~") or bool(plan.isStreaming())
        yield PlanNode(plan, depth, is_streaming, not below, text.lstrip("~"))
        left += [(child, depth + 1) for child in reversed(below)]


def file_source(place: str) -> str:
    """Return Spark's name of a source that reads the files of a folder, which the plan's text has too."""
    return f"FileSource[{place}]"


def below(plan: Sequence[PlanNode], index: int) -> range:
    """Return the numbers of the nodes below one."""
    end = next((at for at in range(index + 1, len(plan)) if plan[at].depth <= plan[index].depth), len(plan))
    return range(index + 1, end)


def lowest(plan: Sequence[PlanNode], found: Collection[int]) -> list[int]:
    """Return those of some nodes, by their numbers, that have none of the others below."""
    return [index for index in found if not set(found) & set(below(plan, index))]


def tree(frame: DataFrame) -> list[str]:
    """Return a line for each node of the plan, indented, and marked with ~ where it runs on a stream."""
    return [f"{' ' * node.depth}{'~' if node.is_streaming else ''}{node.text}" for node in nodes(frame)]


def nodes_below(tree: Sequence[str], index: int) -> Iterator[str]:
    """Return the lines of what the node at `index` is made from."""
    for line in tree[index + 1 :]:
        if depth(line) <= depth(tree[index]):
            return
        yield line


def depth(line: str) -> int:
    """Return how deep in its plan a node stands."""
    return len(line) - len(line.lstrip(" "))
