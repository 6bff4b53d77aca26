"""A restore opens a new lineage (DESIGN 7): each task's folder is written anew behind a checkpoint's or savepoint's
batch.

The new query has an id of its own and inboxes of its own, whose first admission stands for all that was read before.
Its batch records begin with one that carries the positions over and has nothing to commit: what belongs to the
checkpoint is committed by the job it belongs to. Nothing of this is in force before the caller creates the lineage
document.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from rekindle.channels.inbox import CARRIED_OVER, Inbox, stamp_ms
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.ids import SubtaskId
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.spark.lineage_copy import InboxStart, copy_for_lineage
from rekindle.spark.progress_dir import inputs_of_sources, read_offsets, set_watermark
from rekindle.storage import layout
from rekindle.storage.documents import (
    BatchRecord,
    FrozenFiles,
    InputPosition,
    Manifest,
    Segment,
    SubtaskSnapshot,
    decode,
)
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.outputs import copy_outputs
from rekindle.storage.port import NotFound, Store
from rekindle.storage.savepoint import copy_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a checkpoint or savepoint lies."""

    store: Store
    #: folder of the manifest in `store`
    folder: str
    manifest: Manifest

    def subtask(self, task: SubtaskId) -> str:
        """Folder that holds the subtask's progress directory."""
        if self.manifest.savepoint:
            return layout.savepoint_subtask(self.folder, task.task, task.subtask)
        return layout.subtask(self.manifest.job, task.task, task.subtask, self.manifest.lineage)

    def source(self, uid: str) -> str:
        """Folder that holds a source's frozen list."""
        if self.manifest.savepoint:
            return layout.savepoint_sources(self.folder, uid)
        return layout.source(self.manifest.job, uid)


def open_lineage(
    storage: JobStorage, origin: Origin, graph: JobGraph, *, lineage: int, run: int, undo_drain: bool
) -> None:
    """Write every task's folder of the new `lineage`, and the frozen lists of its sources.

    Args:
        undo_drain: go on from a drained job: the watermark from before the flush is put back, so that what follows is
            not late.
    """
    _copy_sources(storage, origin, graph)
    tasks = {task.uid: task for task in graph.tasks}
    for subtask, snapshot in snapshots_of(origin.manifest).items():
        if subtask.task in tasks:
            folder = layout.subtask(storage.job, subtask.task, subtask.subtask, lineage)
            _open_subtask(storage, origin, tasks[subtask.task], subtask, snapshot, folder, run, undo_drain)
            copy_outputs(origin.store, origin.subtask(subtask), storage.store, folder, origin.manifest, subtask)


def _copy_sources(storage: JobStorage, origin: Origin, graph: JobGraph) -> None:
    for source in graph.sources:
        if storage.frozen_files(source.uid) is not None:
            continue
        path = f"{origin.source(source.uid)}/files.json"
        try:
            frozen = decode(origin.store.read(path), FrozenFiles, path)
        except NotFound:
            continue
        folder = layout.source(storage.job, source.uid)
        copy_source(origin.store, origin.source(source.uid), storage.store, folder, frozen)


def _open_subtask(
    storage: JobStorage,
    origin: Origin,
    task: Task,
    subtask: SubtaskId,
    snapshot: SubtaskSnapshot,
    folder: str,
    run: int,
    undo_drain: bool,
) -> None:
    undone = undo_drain and snapshot.end is not None and snapshot.end.drained
    if snapshot.end is not None and not undone:
        storage.create(layout.end(folder), snapshot.end)
    if snapshot.batch < 0:
        return
    progress_dir = layout.spark_progress_dir(folder)
    old_dir = layout.spark_progress_dir(origin.subtask(subtask))
    count = len(read_offsets(origin.store, old_dir, snapshot.batch).sources)
    indexes = inputs_of_sources(origin.store, old_dir, count)
    starts = {
        source: InboxStart(path=CARRIED_OVER, time_ms=stamp_ms(0, index))
        for source, index in enumerate(indexes)
        if index is not None
    }
    copy_for_lineage(
        origin.store,
        old_dir,
        storage.store,
        progress_dir,
        snapshot.batch,
        query_id=str(uuid.uuid4()),
        inbox_sources=starts,
    )
    if undone and snapshot.end is not None and snapshot.end.watermark_before_flush_ms is not None:
        set_watermark(storage.store, progress_dir, snapshot.batch, snapshot.end.watermark_before_flush_ms)
    # Who reads its channels goes by what the record says of the time: the end of it, where a flush is not taken back.
    flushed = snapshot.end is not None and snapshot.end.batch_before_flush < snapshot.batch
    watermark_ms = snapshot.end.watermark_before_flush_ms if snapshot.end and undone else snapshot.watermark_ms
    positions = {}
    for index, uid in enumerate(task.inputs):
        position = snapshot.inputs[uid]
        positions[uid] = replace(position, admission=min(position.admission, 0), mark=min(position.mark, 0))
        _open_inboxes(storage, folder, uid, 2 * index, position)
    record = BatchRecord(
        batch=snapshot.batch,
        segments=_unread(origin, subtask, snapshot),
        offsets_hash=read_offsets(storage.store, progress_dir, snapshot.batch).hash,
        run=run,
        inputs=positions,
        watermark_ms=watermark_ms,
        flush=flushed and not undone,
    )
    storage.create(layout.batch(folder, snapshot.batch), record)


def _unread(origin: Origin, subtask: SubtaskId, snapshot: SubtaskSnapshot) -> tuple[Segment, ...]:
    """What its last batch has put into the channels; nobody looks at the record of a task without any."""
    if not any(subtask.task in inputs for inputs in origin.manifest.graph.values()):
        return ()
    record = JobStorage(origin.store, origin.manifest.job).record(origin.subtask(subtask), snapshot.batch)
    return record.segments if record else ()


def _open_inboxes(storage: JobStorage, folder: str, uid: str, index: int, position: InputPosition) -> None:
    if position.admission >= 0:
        Inbox(storage.store, layout.inbox(folder, uid), index).open_new(position.files)
    if position.mark >= 0:
        Inbox(storage.store, layout.marks(folder, uid), index + 1).open_new(position.mark + 1)
