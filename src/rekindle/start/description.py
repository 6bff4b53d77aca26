"""What a run consists of, in words that a reader of the storage is shown."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.runtime.definition import SourceSpec
from rekindle.storage.documents.runs import JobDescription, SinkDescription, SourceDescription, TaskDescription
from rekindle.version import VERSION


def describe(graph: JobGraph, specs: Mapping[str, SourceSpec], config: Config) -> JobDescription:
    """Describe a job: the shape of it, and Rekindle's own settings. Of paths, options and Spark's settings, which may
    hold secrets, nothing is said."""
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
