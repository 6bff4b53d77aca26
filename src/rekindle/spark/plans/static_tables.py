"""Tables of files that a task's function reads beside its inputs.

Spark lists the files of such a table when the plan is built. A plan is built once for a run, so what replaces the files
leaves every later batch without them, until they are listed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from rekindle.session.failures import spellings
from rekindle.spark.expressions import every, is_of_class
from rekindle.spark.plan_text import nodes


def has_static_file(frame: DataFrame, path: str) -> bool:
    """Return True if a file, as Spark writes it, lies in a table that the plan reads beside its streams."""
    folders = (spellings(str(root)) for index in _indexes(frame) for root in every(index.rootPaths()))
    file = spellings(path)
    return any(f"{one}/".startswith(f"{folder}/") for names in folders for folder in names for one in file)


def list_again(frame: DataFrame) -> None:
    """Let the next batch read the files that these tables have now."""
    for index in _indexes(frame):
        index.refresh()


def _indexes(frame: DataFrame) -> Iterator[Any]:
    for node in nodes(frame):
        if node.is_leaf and not node.is_streaming and is_of_class(node.plan, "LogicalRelation"):
            relation = node.plan.relation()
            if is_of_class(relation, "HadoopFsRelation"):
                yield relation.location()
