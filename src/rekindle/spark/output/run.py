"""The outputs of a run's subtasks, as they follow from the run, the graph and the session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rekindle.graph.job_graph import JobGraph, Task
from rekindle.ids import SubtaskId
from rekindle.runtime.definition import RunContext
from rekindle.spark.output.outputs import Outputs, SubtaskPlace
from rekindle.spark.output.segments import SegmentWriter

_TABLES = ("Parquet", "Delta", "Iceberg", "Postgres")


def cores(spark: SparkSession) -> int:
    """Return how many Spark tasks run at a time."""
    return spark.sparkContext.defaultParallelism


def place_of(run: RunContext, subtask: SubtaskId) -> SubtaskPlace:
    """Return where the batches of a subtask belong."""
    return SubtaskPlace(
        owner=run.owner,
        task=subtask.task,
        subtask=subtask.subtask,
        lineage=run.run.lineage,
        run=run.run.run,
        folder=run.folder(subtask),
    )


def writes_columns(graph: JobGraph, task: Task) -> bool:
    """Return True if a task's rows go where each column needs a name of its own: into files, or a table."""
    return bool(graph.consumers_of(task)) or any(sink.kind in _TABLES for sink in graph.sinks_of(task))


def outputs_of(run: RunContext, spark: SparkSession, task: Task, place: SubtaskPlace) -> Outputs:
    """Return what the batches of a subtask are written into: its sinks, and channels where others read it."""
    writer = None
    if run.graph.consumers_of(task):
        writer = SegmentWriter(run.storage, place.folder, run.config.channel_segment_bytes, cores(spark))
    return Outputs(place, run.sinks(task), writer, run.steps)
