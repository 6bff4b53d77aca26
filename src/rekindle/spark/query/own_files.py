"""Let Spark write the files of a query, its offsets, commits and state, at less cost.

Spark writes each under a temporary name and renames it. By default it does so through Hadoop's ``FileContext``, since
that renames atomically in HDFS. Elsewhere it does not: it looks whether the name is free and then renames, as Hadoop's
``FileSystem`` does, and its looks cost more:

- in a local folder it starts ``readlink``, a process for each name and for each checksum's, and a batch of one stateful
  query writes ten files or more. `FileSystem` calls the operating system instead;
- in a bucket of S3 it looks several times for both names and for folders of these names, where `FileSystem` looks once
  or twice (docs/decisions/0065). That is for queries without state only. Spark never writes over what is planned,
  committed or read. A batch that runs again does write its state again; `FileSystem` would keep what is there in a
  bucket, of an attempt that may have run other code.

Spark has a setting for this. In any other store, and where the user has set it, all stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from rekindle.session.classes import java_class
from rekindle.session.settings import FILE_MANAGER
from rekindle.spark.plan_text import tree

_SQL = "org.apache.spark.sql.execution.streaming."
_MANAGERS = tuple(f"{_SQL}{package}FileSystemBasedCheckpointFileManager" for package in ("checkpointing.", ""))
"""The class that goes through `FileSystem`, by its name since Spark 4.1, and before."""

_STREAMING = re.compile(r" *~(\w+)")
_KEEPS_NOTHING = re.compile(
    r"Project|Filter|Union|SubqueryAlias|View|Generate|Expand|ResolvedHint|EventTimeWatermark"
    r"|UpdateEventTimeWatermarkColumn|\w*SerializeToObject|\w*SerializeFromObject|DeserializeToObject|MapElements"
    r"|MapPartitions\w*|MapInPandas|MapInArrow|PythonMapInArrow|TypedFilter|Streaming(?:Execution)?Relation\w*"
    r"|StreamingDataSource\w*|LogicalRelation"
)
"""Nodes of a plan on a stream that keep no rows. What is not named here is taken to keep some."""


def keeps_state(frame: DataFrame) -> bool:
    """Return whether a streaming query may keep state, as its plan says."""
    return any(not _KEEPS_NOTHING.fullmatch(node[1]) for node in filter(None, map(_STREAMING.match, tree(frame))))


def written_by_calls(spark: SparkSession, progress_dir: str, frame: DataFrame | None = None) -> Mapping[str, str]:
    """Return the setting with which a query writes its files in `progress_dir` at less cost, if any.

    Args:
        frame: the plan of the query; None: it may keep state.
    """
    if spark.conf.get(FILE_MANAGER, None) is not None:
        return {}
    in_bucket = progress_dir.startswith("s3a:") and frame is not None and not keeps_state(frame)
    if not (in_bucket or progress_dir.startswith("file:")):
        return {}
    is_loadable = java_class(spark._jvm, "org.apache.spark.util.Utils").classIsLoadable
    return next(({FILE_MANAGER: name} for name in _MANAGERS if is_loadable(name)), {})
