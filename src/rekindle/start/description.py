"""The description of a run in the storage, for people to read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.runtime.definition import Definition
from rekindle.storage.documents.runs import JobDescription, SinkDescription, SourceDescription, TaskDescription
from rekindle.version import VERSION


def describe(
    graph: JobGraph, definition: Definition, config: Config, value_settings: Mapping[str, str]
) -> JobDescription:
    """Describe the shape of a job, and Rekindle's own settings.

    Paths, options and other settings of Spark are left out: they may hold secrets. Of addresses there is a hash.

    Args:
        graph: of the job, as it runs in its mode.
        value_settings: see `Engine`; empty if there is no engine.
    """
    specs = {uid: source.spec for uid, source in definition.sources.items()}
    return JobDescription(
        sources=tuple(
            SourceDescription(
                uid=source.uid,
                kind=specs[source.uid].kind if source.uid in specs else "source",
                bounded=source.bounded,
                event_time=source.event_time,
                watermark=source.watermark,
                idle_after=source.idle_after,
                address_hash=_hash_of(specs.get(source.uid)),
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
        sinks=tuple(
            SinkDescription(
                uid=sink.uid, task=sink.task, kind=sink.kind, address_hash=_hash_of(definition.sinks.get(sink.uid))
            )
            for sink in graph.sinks
        ),
        settings=config.shown(),
        value_settings=dict(value_settings),
        version=VERSION,
    )


def other_addresses(before: JobDescription, now: JobDescription) -> Iterator[str]:
    """Yield kind and uid of each source and sink that has another address than before, as ``source orders``."""
    known = _hashes(before)
    for name, hashed in _hashes(now).items():
        if hashed is not None and known.get(name, hashed) not in (hashed, None):
            yield name


def other_value_settings(before: JobDescription, now: JobDescription) -> Iterator[tuple[str, str, str]]:
    """Yield name, value before and value now of each setting of the session that has changed, of those known twice."""
    for name, value in now.value_settings.items():
        old = before.value_settings.get(name, value)
        if old != value:
            yield name, old, value


def _hashes(job: JobDescription) -> Mapping[str, str | None]:
    return {
        **{f"source {one.uid}": one.address_hash for one in job.sources},
        **{f"sink {one.uid}": one.address_hash for one in job.sinks},
    }


def _hash_of(described: Any) -> str | None:
    """Return a short hash of the paths that a source reads or a sink writes; None: it names none."""
    given: Sequence[object] = getattr(described, "paths", ()) or getattr(described, "addresses", ())
    places = [path if "://" in path else os.path.abspath(path) for path in map(str, given)]
    return hashlib.sha256("\0".join(places).encode()).hexdigest()[:12] if places else None
