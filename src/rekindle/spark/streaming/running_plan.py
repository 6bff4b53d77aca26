"""The plan that a query runs as a batch, asked of the query itself: its ends, files that it would not read once, and
whether all of it was evaluated.

What is planned in the storage may be another driver's: S3A and Google's connector look whether a name is free and then
write, so a driver that was paused in between writes over the plan of its successor
(docs/decisions/0054-the-plan-that-runs.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from rekindle.progress.directory import Offsets
from rekindle.sources.globs import is_glob
from rekindle.spark.expressions import every, is_of_class


class RunningPlan(NamedTuple):
    """The facts that tell one plan of a batch from another."""

    #: time at which it was planned, ms since the epoch
    at_ms: int
    watermark_ms: int
    #: of its sources, as Spark writes them: a source that is used twice has one
    ends: frozenset[str]


def plan_of(offsets: Offsets) -> RunningPlan:
    """Return the plan that stands in the storage."""
    ends = frozenset(end for end in offsets.sources if end is not None)
    return RunningPlan(offsets.metadata.get("batchTimestampMs", 0), offsets.batch_watermark_ms, ends)


def running_plan(spark: SparkSession) -> RunningPlan:
    """Return the plan of the query whose batch is on this thread."""
    query = running_query(spark)
    metadata = msgspec.json.decode(query.lastExecution().offsetSeqMetadata().json())
    ends, found = query.availableOffsets().values().iterator(), set[str]()
    while ends.hasNext():
        found.add(ends.next().json())
    return RunningPlan(metadata["batchTimestampMs"], metadata["batchWatermarkMs"], frozenset(found))


def pattern_among_files(spark: SparkSession) -> str | None:
    """Return the path for which the batch on this thread would read other files twice; None: it reads each once.

    Spark looks at a batch's paths as if they were a user's. For one that looks like a pattern it takes all paths of the
    batch, so every file is there once more for each such path. It does not where it looks into sub-folders, or where
    folders are columns. Seen on 3.5.7 and 4.3.0.
    """
    for relation in _streams_of_files(spark):
        index = relation.location()
        paths = index.rootPaths()
        if paths.size() > paths.distinct().size() and (files := index.allFiles()).size() > files.distinct().size():
            named = [path for path in map(str, every(paths)) if is_glob(path)]
            return named[0] if named else str(paths.apply(0))
    return None


def gone_among_files(spark: SparkSession) -> str | None:
    """Return the path of a file that the batch on this thread was planned with and would leave out; None: none is gone.

    Spark lists the files of a batch once more before it reads them, and says nothing where one is not there any more.
    With the option ignoreMissingFiles that is what the user wants. Seen on 4.3.0.
    """
    for relation in _streams_of_files(spark):
        ignores = relation.options().get("ignoreMissingFiles")
        if ignores.isDefined() and ignores.get().lower() == "true":
            continue
        paths, files = relation.location().rootPaths().distinct(), relation.location().allFiles().distinct()
        if paths.size() > files.size():
            there = {str(file.getPath()) for file in every(files)}
            gone = (path for path in map(str, every(paths)) if not is_glob(path) and path not in there)
            if (path := next(gone, None)) is not None:
                return path
    return None


def refuse_partly_read(spark: SparkSession) -> None:
    """Raise Spark's own error if a part of the state of the batch on this thread was not written.

    Spark looks only after it has committed the batch: then no later batch finds the state that it continues from.
    Before 4.1 it does not look, and neither does this.
    """
    query = running_query(spark)
    try:
        reporter = query.progressReporter()  # not there in 3.5
        looks = reporter.shouldValidateStateStoreCommit()
    except Py4JError:
        return
    if looks.get():
        batch = query.lastExecution().currentBatchId()
        reporter.stateStoreCoordinator().validateStateStoreCommitForBatch(query.runId(), batch)
        looks.set(False)  # Spark has forgotten what it would look at


def _streams_of_files(spark: SparkSession) -> Iterator[Any]:
    """Return the relations of files that the batch on this thread reads of streams whose files Spark lists."""
    for leaf in every(running_query(spark).lastExecution().logical().collectLeaves()):
        # A static side may be no relation of files, and is read by its paths as a user has named them.
        if leaf.isStreaming() and leaf.nodeName() == "LogicalRelation":
            relation = leaf.relation()
            if is_of_class(relation.location(), "InMemoryFileIndex"):
                yield relation


def running_query(spark: SparkSession) -> Any:
    """Return Spark's own object of the query whose batch is on this thread."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    session: Any = spark._jsparkSession
    return session.streams().get(query_id).streamingQuery()
