"""The description of a run in the storage, for people to read."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.runtime.definition import SourceSpec
from rekindle.storage.documents.runs import JobDescription, SinkDescription, SourceDescription, TaskDescription
from rekindle.version import VERSION


def describe(graph: JobGraph, specs: Mapping[str, SourceSpec], config: Config) -> JobDescription:
    """Describe the shape of a job, and Rekindle's own settings.

    Paths, options and Spark's settings are left out: they may hold secrets.
    """
    return JobDescription(
        sources=tuple(
            SourceDescription(
                uid=source.uid,
                kind=specs[source.uid].spec.kind if source.uid in specs else "source",
                bounded=source.bounded,
                event_time=source.event_time,
                watermark=source.watermark,
                idle_after=source.idle_after,
            )
            for source in graph.sources
        ),
        tasks=tuple(
            TaskDescription(
                uid=task.uid,
                inputs=task.inputs,
                parallelism=task.parallelism,
                output_mode=task.output_mode,
                event_time=task.event_time,
                watermark=task.watermark,
            )
            for task in graph.tasks
        ),
        sinks=tuple(SinkDescription(uid=sink.uid, task=sink.task, kind=sink.kind) for sink in graph.sinks),
        settings=config.shown(),
        version=VERSION,
    )
