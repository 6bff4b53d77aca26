"""The data in flight of a checkpoint: what its subtasks had put into channels and no consumer had read yet.

A channel's content is the batch records of its producer, and the segments they name. A checkpoint names no
segment: how far each reader had come and where the producer stood tell what was in flight. So a savepoint takes those
batch records along, and a new lineage finds in them what its readers have still to be given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from rekindle.channels.producer import Reader
from rekindle.graph.job_graph import edge_kind
from rekindle.graph.topology import Edge, Topology, Vertex
from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.codec import decode, encode
from rekindle.storage.copying import copy_all, copy_between
from rekindle.storage.documents.batch import BatchRecord, ChannelPosition, InputPosition, Segment
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.port import NotFound, Store


class Reading(NamedTuple):
    """A subtask that reads a producer, and how far it had come."""

    subtask: SubtaskId
    reader: Reader
    position: ChannelPosition


def topology_of(manifest: Manifest) -> Topology:
    """Return the tasks and channels of the job as it was."""
    parallelism = {uid: len(subtasks) for uid, subtasks in manifest.tasks.items()}
    return Topology(
        tuple(Vertex(uid=uid, parallelism=count) for uid, count in parallelism.items()),
        tuple(
            Edge(source, target, edge_kind(parallelism[source], parallelism[target]))
            for target in parallelism
            for source in dict.fromkeys(manifest.graph.get(target, ()))
            if source in parallelism
        ),
    )


def with_read(snapshot: SubtaskSnapshot, read: Mapping[SubtaskId, int]) -> SubtaskSnapshot:
    """Return the snapshot with the channels read as far as `read` says, where its batch record says less.

    Between the two lie batches that put nothing into the channel. A reader that has nothing to do makes no batch record
    for them; only the checkpoint tells that it needs them no more.
    """
    inputs = dict(snapshot.inputs)
    for producer, batches in read.items():
        position = inputs.get(producer.task, InputPosition())
        if batches > position.channels.get(producer.subtask, ChannelPosition()).batches:
            channels = {**position.channels, producer.subtask: ChannelPosition(batches=batches)}
            inputs[producer.task] = replace(position, channels=channels)
    return replace(snapshot, inputs=inputs)


def readings_of(manifest: Manifest, producer: SubtaskId) -> Iterator[Reading]:
    """Yield the readers of a producer; those that have finished, and so have read all of it, are left out."""
    topology = topology_of(manifest)
    for edge in topology.edges:
        if edge.source == producer.task:
            yield from _along(edge, topology, manifest, producer)


def all_readings(manifest: Manifest) -> Iterator[tuple[SubtaskId, Reading]]:
    """Yield each producer with each of its readers, as `readings_of` yields them for one."""
    topology = topology_of(manifest)
    for edge in topology.edges:
        for index in manifest.tasks[edge.source]:
            producer = SubtaskId(edge.source, index)
            for reading in _along(edge, topology, manifest, producer):
                yield producer, reading


def _along(edge: Edge, topology: Topology, manifest: Manifest, producer: SubtaskId) -> Iterator[Reading]:
    readers = topology.consumers(edge, producer.subtask)
    for rank, index in enumerate(readers):
        snapshot = manifest.tasks[edge.target][index]
        if snapshot.end is None:
            channels = snapshot.inputs.get(producer.task, InputPosition()).channels
            reader = Reader(task=edge.target, rank=rank, sharing=len(readers))
            position = channels.get(producer.subtask, ChannelPosition())
            yield Reading(SubtaskId(edge.target, index), reader, position)


Records = Callable[[int], BatchRecord | None]
"""A function that reads a batch record of one producer."""


def in_flight(manifest: Manifest, producer: SubtaskId, record_of: Records) -> list[Segment]:
    """Return the segments of a producer that a consumer had still to read, in order, with these consumers."""
    return [
        replace(segment, readers=tuple(reading.reader.task for reading in readings))
        for segment, readings in _unread(manifest, producer, record_of)
    ]


def with_bytes_in_flight(manifest: Manifest, records_of: Callable[[SubtaskId], Records]) -> Manifest:
    """Return the manifest with how much each subtask had still to read, and with how much that is in all.

    What several subtasks had still to read is there once.
    """
    unread = Counter[SubtaskId]()
    size = 0
    for uid, snapshots in manifest.tasks.items():
        for index in snapshots:
            producer = SubtaskId(uid, index)
            for segment, readings in _unread(manifest, producer, records_of(producer)):
                size += segment.size
                unread.update({reading.subtask: segment.size for reading in readings})
    tasks = {
        uid: {index: replace(one, in_flight_bytes=unread[SubtaskId(uid, index)]) for index, one in snapshots.items()}
        for uid, snapshots in manifest.tasks.items()
    }
    return replace(manifest, tasks=tasks, in_flight_bytes=size)


def _unread(manifest: Manifest, producer: SubtaskId, record_of: Records) -> Iterator[tuple[Segment, list[Reading]]]:
    """Yield the segments of a producer that were still to be read, in order, each with those that had to read it."""
    readings = list(readings_of(manifest, producer))
    first = min((reading.position.batches for reading in readings), default=0)
    for batch in range(first, manifest.tasks[producer.task][producer.subtask].batch + 1) if readings else ():
        record = record_of(batch)
        segments = record.segments if record else ()
        waiting: dict[str, list[Reading]] = {}
        for reading in readings:
            share, position = reading.reader.share(batch, segments), reading.position
            read = len(share) if batch < position.batches else position.segment if batch == position.batches else 0
            for segment in share[read:]:
                waiting.setdefault(segment.path, []).append(reading)
        yield from ((segment, waiting[segment.path]) for segment in segments if segment.path in waiting)


def copy_outputs(
    source: Store, source_folder: str, target: Store, target_folder: str, manifest: Manifest, producer: SubtaskId
) -> int:
    """Copy a producer's batch records, and segments, that a consumer had still to read; return their bytes.

    Args:
        source_folder: of the subtask, in a lineage.
        target_folder: the same, in a savepoint.
    """
    readings = list(readings_of(manifest, producer))
    if not readings:
        return 0
    size, schema = 0, layout.output_schema(source_folder)
    if source.exists(schema):
        size += copy_between(source, schema, target, layout.output_schema(target_folder))
    first = min(reading.position.batches for reading in readings)
    for batch in range(first, manifest.tasks[producer.task][producer.subtask].batch + 1):
        path = layout.batch(source_folder, batch)
        try:
            record = decode(source.read(path), BatchRecord, path)
        except NotFound:
            continue
        paths = [(f"{source_folder}/{one.path}", f"{target_folder}/{one.path}") for one in record.segments]
        size += copy_all(source, target, paths)
        kept = encode(replace(record, inputs={}, committables={}, offsets="", timings_ms={}))
        target.create(layout.batch(target_folder, batch), kept)
        size += len(kept)
    return size
