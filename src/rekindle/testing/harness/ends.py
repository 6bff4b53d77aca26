"""Stand-ins for the ends of a job, its sources and sinks; they outlive the job's drivers and versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from rekindle.graph.job_graph import JobGraph
from rekindle.job import Job
from rekindle.runtime.definition import Definition
from rekindle.testing.harness.inputs import GivenSource, Schema, without_times
from rekindle.testing.harness.outputs import CollectingSink


class Ends:
    """Sources and sinks by uid.

    Args:
        folder: a new one, for the rows of the sources.
        schemas: source uid → its columns.
        keep: uids of those that stay as the job has them.
    """

    def __init__(self, spark: SparkSession, folder: Path, schemas: Mapping[str, Schema], keep: Collection[str]) -> None:
        self._spark = spark
        self._folder = folder
        self._schemas = dict(schemas)
        self._keep = frozenset(keep)
        self._given: dict[str, GivenSource] = {}
        self._collected: dict[str, CollectingSink] = {}

    def prepare(self, job: Job) -> None:
        """Make a stand-in for each end of a job that has none yet."""
        own = job.definition()
        for uid, source in own.sources.items():
            if uid not in self._keep and uid not in self._given:
                self._given[uid] = GivenSource(self._spark, source, self._folder / uid, self._schemas.get(uid))
        for sink in own.graph.sinks:
            if sink.uid not in self._keep and sink.uid not in self._collected:
                self._collected[sink.uid] = CollectingSink(sink.output_modes)

    def definition(self, job: Job) -> Definition:
        """Return a job with its ends replaced.

        Raises:
            ValueError: no one has said which columns a source has.
        """
        own = job.definition()
        inputs = {task.uid: [self._given.get(uid) for uid in task.inputs] for task in own.graph.tasks}
        return replace(
            own,
            graph=self._without_splits(own),
            sources={
                uid: replace(source, spec=self._given[uid].spec(source.spec)) if uid in self._given else source
                for uid, source in own.sources.items()
            },
            functions={uid: without_times(function, inputs[uid]) for uid, function in own.functions.items()},
            sinks={uid: self._collected.get(uid, sink) for uid, sink in own.sinks.items()},
        )

    def _without_splits(self, own: Definition) -> JobGraph:
        """Return the graph without splits to share out, which the stand-ins of custom sources do not have."""
        replaced = {uid for uid, one in own.sources.items() if uid in self._given and one.source.divisible}
        whole = {uid for uid in replaced if not self._given[uid].bounded}
        return replace(
            own.graph,
            sources=tuple(
                replace(one, divisible=one.divisible and one.uid not in replaced) for one in own.graph.sources
            ),
            tasks=tuple(replace(task, parallelism=1) if whole & set(task.inputs) else task for task in own.graph.tasks),
        )

    def source(self, uid: str) -> GivenSource:
        """Return the stand-in that is given the rows of a source."""
        if uid not in self._given:
            raise ValueError(f"no source {uid!r} to be given rows; there are {sorted(self._given)}")
        return self._given[uid]

    def sink(self, uid: str) -> CollectingSink:
        """Return the stand-in that shows the rows of a sink."""
        if uid not in self._collected:
            raise ValueError(f"no sink {uid!r} to look at; there are {sorted(self._collected)}")
        return self._collected[uid]


def is_passed_on(graph: JobGraph, source: str) -> bool:
    """Return True if a task reads the source and another task reads that."""
    readers = {task.uid for task in graph.tasks if source in task.inputs}
    return any(readers.intersection(task.inputs) for task in graph.tasks)
