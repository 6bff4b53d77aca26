"""What the tasks of a run that starts have in common, whether it runs them as streams or as batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.steps import Steps
from rekindle.sinks import TwoPhaseSink
from rekindle.spark.inputs.frames import SourceSpec
from rekindle.spark.output.outputs import Outputs, Place
from rekindle.spark.output.segments import SegmentWriter
from rekindle.storage import layout
from rekindle.storage.documents import FrozenFiles, Run
from rekindle.storage.job_storage import JobStorage

_TABLES = ("Parquet", "Delta", "Iceberg", "Postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A job as its user defined it."""

    graph: JobGraph
    sources: Mapping[str, SourceSpec]
    functions: Mapping[str, Callable[..., DataFrame]]
    sinks: Mapping[str, TwoPhaseSink]


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """A run that has been claimed, and whose tasks are to be put together."""

    spark: SparkSession
    storage: JobStorage
    run: Run
    #: what its sinks know the job by
    owner: str
    #: the definition's, but where the mode wants another
    graph: JobGraph
    definition: Definition
    #: source uid → its list; None for a `Stream`
    frozen: Mapping[str, FrozenFiles | None]
    config: Config
    steps: Steps
    #: takes an event to the driver, from any thread
    post: Callable[[e.Event], None]

    @property
    def cores(self) -> int:
        """How many Spark tasks run at a time."""
        return self.spark.sparkContext.defaultParallelism

    def folder(self, subtask: SubtaskId) -> str:
        """Where a subtask keeps what it has."""
        return layout.subtask(self.storage.job, subtask.task, subtask.subtask, self.run.lineage)

    def place(self, subtask: SubtaskId) -> Place:
        """Where its batches belong."""
        return Place(
            owner=self.owner,
            task=subtask.task,
            subtask=subtask.subtask,
            lineage=self.run.lineage,
            run=self.run.run,
            folder=self.folder(subtask),
        )

    def sinks(self, task: Task) -> dict[str, TwoPhaseSink]:
        """The sinks of a task."""
        return {sink.uid: self.definition.sinks[sink.uid] for sink in self.graph.sinks_of(task)}

    def writes_columns(self, task: Task) -> bool:
        """Whether a task's rows go where each column needs a name of its own: into files, or a table."""
        return bool(self.graph.consumers_of(task)) or any(sink.kind in _TABLES for sink in self.graph.sinks_of(task))

    def outputs(self, task: Task, place: Place) -> Outputs:
        """What its batches are written into: its sinks, and channels where others read it."""
        writer = None
        if self.graph.consumers_of(task):
            writer = SegmentWriter(self.storage, place.folder, self.config.channel_segment_bytes, self.cores)
        return Outputs(place, self.sinks(task), writer, self.steps)
