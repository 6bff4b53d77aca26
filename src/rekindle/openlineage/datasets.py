"""The sources and sinks of a job by the names that OpenLineage has for them: a namespace, and a name in it. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rekindle.sinks import TwoPhaseSink
from rekindle.sources import Jdbc, Source
from rekindle.sources.kafka import KafkaStream, KafkaTopics


class Dataset(NamedTuple):
    """A dataset's address: namespace and name."""

    namespace: str
    name: str


_BUCKETS = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's name of a kind of store → the usual one."""


def of_path(path: str) -> Dataset:
    """Return the dataset that is a path, local or of a bucket; nothing of a user or a password in it."""
    parts = urlsplit(path)
    scheme = _BUCKETS.get(parts.scheme, parts.scheme)
    if scheme in ("", "file"):
        local = unquote(parts.path) if scheme else path
        return Dataset("file", os.path.abspath(local))
    place = parts.netloc.rpartition("@")[2]
    return Dataset(f"{scheme}://{place}", parts.path.strip("/") or "/")


def of_source(job: Dataset, uid: str, spec: Source) -> tuple[Dataset, ...]:
    """Return what a source reads: paths, a table, a topic; of one that only Spark knows, a name of the job's own."""
    if isinstance(spec, KafkaStream):
        spec = spec.topics
    if isinstance(spec, Jdbc | KafkaTopics) and spec.dataset is not None:
        return (Dataset(*spec.dataset),)
    paths: Iterable[str] = getattr(spec, "paths", ())
    return tuple(dict.fromkeys(map(of_path, paths))) or (_own(job, uid),)


def of_sink(job: Dataset, uid: str, sink: TwoPhaseSink) -> Dataset:
    """Return what a sink writes: what it says itself, else the place that Spark writes to, else a name of the job's."""
    try:
        said = sink.dataset
    except Exception:  # a connection string that cannot be had now
        said = None
    if said is not None:
        return Dataset(*said)
    place = next(map(of_path, sink.addresses), None)
    table = getattr(sink, "table", None)  # of a catalogue, by its warehouse
    if isinstance(table, str):
        return Dataset(f"{place.namespace}/{place.name.strip('/')}" if place else "iceberg", table)
    return place or _own(job, uid)


def _own(job: Dataset, uid: str) -> Dataset:
    return Dataset(job.namespace, f"{job.name}.{uid}")
