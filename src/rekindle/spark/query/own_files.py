"""Let Spark write the files of a query in a folder of this machine, its offsets, commits and state, at less cost.

Spark writes each under a temporary name and renames it. By default it does so through Hadoop's ``FileContext``, since
that renames atomically in HDFS. In a local folder it does not: it looks whether the name is free and then renames, as
Hadoop's ``FileSystem`` does. But it looks by starting ``readlink``, a process for each name and for each checksum's,
and a batch of one stateful query writes ten files or more. `FileSystem` calls the operating system instead.

Spark has a setting for this. In a bucket, and where the user has set it, all stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from rekindle.session.classes import java_class
from rekindle.session.settings import FILE_MANAGER

_SQL = "org.apache.spark.sql.execution.streaming."
_MANAGERS = tuple(f"{_SQL}{package}FileSystemBasedCheckpointFileManager" for package in ("checkpointing.", ""))
"""The class that calls the operating system, by its name since Spark 4.1, and before."""


def written_by_calls(spark: SparkSession, progress_dir: str) -> Mapping[str, str]:
    """Return the setting with which a query writes its files in `progress_dir` without starting processes, if any."""
    if not progress_dir.startswith("file:") or spark.conf.get(FILE_MANAGER, None) is not None:
        return {}
    is_loadable = java_class(spark._jvm, "org.apache.spark.util.Utils").classIsLoadable
    return next(({FILE_MANAGER: name} for name in _MANAGERS if is_loadable(name)), {})
