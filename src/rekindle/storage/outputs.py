"""What a task has put into its channels and nobody has read yet, copied into a savepoint or a new lineage.

A channel's content is the batch records of its producer, and the segments they name (DESIGN 5). A copy holds those from
the batch on that some consumer had still to read, and of the batch before it the watermark alone: it tells how late it
was in what had been read.
"""

from __future__ import annotations

from dataclasses import replace

from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.copying import copy_between
from rekindle.storage.documents import BatchRecord, Manifest, decode, encode
from rekindle.storage.port import NotFound, Store


def copy_outputs(
    source: Store, source_folder: str, target: Store, target_folder: str, manifest: Manifest, task: SubtaskId
) -> int:
    """Copy what the consumers of a subtask had still to read in a checkpoint; returns bytes.

    Args:
        source_folder: of the subtask, in a lineage or a savepoint.
        target_folder: the same, new; a batch record that is there already stays as it is.
    """
    readers = [uid for uid, inputs in manifest.graph.items() if task.task in inputs]
    snapshots = [snapshot for uid in readers for snapshot in manifest.tasks.get(uid, {}).values()]
    if not snapshots:
        return 0
    read = [snapshot.inputs[task.task].batches if task.task in snapshot.inputs else 0 for snapshot in snapshots]
    first, last = min(read), manifest.tasks[task.task][str(task.subtask)].batch
    size, schema = 0, layout.output_schema(source_folder)
    if source.exists(schema):
        size += copy_between(source, schema, target, layout.output_schema(target_folder))
    for batch in range(max(first - 1, 0), last + 1):
        path = layout.batch(source_folder, batch)
        try:
            record = decode(source.read(path), BatchRecord, path)
        except NotFound:
            continue
        segments = record.segments if batch >= first else ()
        for segment in segments:
            size += copy_between(source, f"{source_folder}/{segment.path}", target, f"{target_folder}/{segment.path}")
        kept = replace(record, segments=segments, inputs={}, committables={}, offsets="", timings_ms={})
        target.create(layout.batch(target_folder, batch), encode(kept))
    return size
