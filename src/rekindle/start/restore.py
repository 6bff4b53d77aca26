"""A restore opens a new lineage: it writes each subtask's folder again from the batch of a checkpoint or savepoint.

The new query has an id of its own and inboxes of its own, whose first admission stands for all that was read before.
Its batch records begin with one that carries the positions over and has nothing to commit: the transactions of the
checkpoint are committed by the job that took it. Segments in flight are put into that batch record of their producer,
as if its last batch had written all of them. Unread files of bounded sources go back to their enumerators (the document
of the lineage has them). A task that has finished for good has no query any more: only its end, its positions and its
segments in flight are copied. So the restore does not depend on which subtask had read which rows, and a task without
state may have another number of subtasks than before. Nothing of this is in force before the caller creates the lineage
document.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from rekindle.channels.inbox import CARRIED_OVER, Inbox, stamp_ms
from rekindle.channels.outputs import in_flight, topology_of
from rekindle.errors import RestoreError
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.graph.topology import Topology
from rekindle.ids import SubtaskId
from rekindle.progress.copies import InboxStart, copy_for_lineage
from rekindle.progress.directory import inputs_of_sources, read_offsets, set_watermark
from rekindle.progress.renumbering import Numbers, lines_of_plan
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.copying import copy_between
from rekindle.storage.documents.batch import BatchRecord, ChannelPosition, End, InputPosition, Segment
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.folder import Folder
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.origin import Origin
from rekindle.storage.savepoint import copy_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The place at which a subtask of the new lineage begins."""

    #: subtask of the checkpoint whose query it continues; the next attribute: the snapshot of that
    old: SubtaskId
    snapshot: SubtaskSnapshot
    #: end of a subtask that is not started again; None: it is
    end: End | None
    #: watermark of its output and state, ms since the epoch; None: there is none
    watermark_ms: int | None
    #: True if it has a query that continues, or may continue once a drain is undone
    has_query: bool


def open_lineage(
    storage: BatchDocuments,
    origin: Origin,
    graph: JobGraph,
    *,
    lineage: int,
    run: int,
    undo_drain: bool,
    opened: Callable[[str, str], None],
    numbers: Mapping[str, Numbers] = MappingProxyType({}),
) -> None:
    """Write every subtask's folder of the new `lineage`, and the frozen lists of its sources.

    Args:
        undo_drain: True to continue a drained job: the watermark from before the flush is put back, so that later rows
            are not late.
        numbers: task whose inputs have changed → the numbers of the sources in its plan.
        opened: called with the folder and the task of each subtask that resumes after a batch, once its folder is
            written.
    """
    _copy_sources(storage, origin, graph)
    starts = {
        SubtaskId(task.uid, index): start
        for task in graph.tasks
        if task.uid in origin.manifest.tasks
        for index, start in enumerate(starts_of(origin.manifest, task, undo_drain=undo_drain))
    }
    first = {subtask: start.snapshot.batch for subtask, start in starts.items()}
    for subtask, start in starts.items():
        folder = layout.subtask(storage.job, *subtask, lineage)
        if start.end is not None:
            storage.create(layout.end(folder), start.end)
        _copy_schema(storage, origin, start, folder)
        if start.snapshot.batch >= 0:
            plan = numbers.get(subtask.task)
            positions = _positions(graph.task(subtask.task), subtask, graph.topology, start, first, plan)
            if start.has_query:
                _open_query(storage, origin, graph.task(subtask.task), start, positions, folder, plan)
            _begin_records(storage, origin, graph, subtask, start, positions, folder=folder, run=run)
            if start.end is None:
                opened(folder, subtask.task)


def starts_of(manifest: Manifest, task: Task, *, undo_drain: bool) -> Iterator[Start]:
    """Yield the start of each subtask of a task: at its own place, or all at one place if their number has changed.

    If it has changed, the task keeps no state, and the place of any subtask will do. A new subtask may be given data
    that another has left unread. So each starts from the lowest watermark of the old ones, and none has ended before
    all have: a task that had finished in part starts again as a whole (FLIP-147), as another task may still feed the
    rest.
    """
    old = manifest.tasks[task.uid]
    going = [one for one in old.values() if one.end is None or (undo_drain and one.end.drained)]
    farthest = max(old, key=lambda index: old[index].batch)
    for index in range(task.parallelism):
        chosen = index if len(old) == task.parallelism else farthest
        snapshot = old[chosen]
        yield Start(
            old=SubtaskId(task.uid, chosen),
            snapshot=snapshot,
            end=None if going else snapshot.end,
            watermark_ms=min(map(_watermark_ms, going)) if going else snapshot.watermark_ms,
            has_query=snapshot.batch >= 0 and not manifest.needs_no_state(task.uid),
        )


def _watermark_ms(snapshot: SubtaskSnapshot) -> int:
    """Return the watermark of a snapshot, ms since the epoch; the one before its flush if it had any."""
    found = snapshot.watermark_ms if snapshot.end is None else snapshot.end.watermark_before_flush_ms
    return found or 0


def refuse_other_lists(storage: BatchDocuments, origin: Origin, path: str, graph: JobGraph) -> None:
    """Refuse a checkpoint whose lists of files are not those that the job has: its unread files are numbers in them.

    Raises:
        RestoreError: ``FILE_LIST_DIFFERENT``.
    """
    for source in graph.sources:
        lists = storage.frozen_files(source.uid), origin.frozen_files(source.uid)
        named = [[(file.path.rsplit("/", 1)[-1], file.size) for file in one.files] for one in lists if one is not None]
        if len(named) == 2 and named[0] != named[1]:
            raise RestoreError("FILE_LIST_DIFFERENT", source=source.uid, path=path)


def _copy_sources(storage: BatchDocuments, origin: Origin, graph: JobGraph) -> None:
    for source in graph.sources:
        if storage.frozen_files(source.uid) is not None:
            continue
        frozen = origin.frozen_files(source.uid)
        if frozen is None:
            continue
        folder = layout.source(storage.job, source.uid)
        copy_source(origin.store, origin.source(source.uid), storage.store, folder, frozen)


def _copy_schema(storage: JobDocuments, origin: Origin, start: Start, folder: str) -> None:
    path = layout.output_schema(origin.subtask(start.old))
    if origin.store.exists(path):
        copy_between(origin.store, path, storage.store, layout.output_schema(folder))


def _positions(
    task: Task,
    subtask: SubtaskId,
    topology: Topology,
    start: Start,
    first: Mapping[SubtaskId, int],
    plan: Numbers | None,
) -> dict[str, InputPosition]:
    """Return input → position: no files of sources are assigned, and channels begin with their first batch record."""
    positions = {}
    for uid in task.inputs:
        old = start.snapshot.inputs.get(uid, InputPosition())
        sources, mark_sources = (old.sources, old.mark_sources) if plan is None else plan.inputs[uid]
        edges = [edge for edge in topology.inputs_of(subtask.task) if edge.source == uid]
        channels = {
            index: ChannelPosition(batches=max(first.get(SubtaskId(uid, index), 0), 0))
            for edge in edges
            for index in topology.producers(edge, subtask.subtask)
        }
        positions[uid] = InputPosition(
            admission=min(old.admission, 0),
            next_bytes=old.next_bytes,
            mark=min(old.mark, 0),
            offset=old.offset,
            channels=channels,
            sources=sources,
            mark_sources=mark_sources,
        )
    return positions


def _open_query(
    storage: JobDocuments,
    origin: Origin,
    task: Task,
    start: Start,
    positions: Mapping[str, InputPosition],
    folder: str,
    plan: Numbers | None,
) -> None:
    batch, progress_dir = start.snapshot.batch, layout.spark_progress_dir(folder)
    old_dir = layout.spark_progress_dir(origin.subtask(start.old))
    count = len(read_offsets(origin.store, old_dir, batch).sources)
    indexes = inputs_of_sources(origin.store, old_dir, count)
    before, known = origin.manifest.graph[task.uid], start.snapshot.inputs
    lines = {2 * number: known[uid].sources for number, uid in enumerate(before)}
    lines |= {2 * number + 1: known[uid].mark_sources for number, uid in enumerate(before)}
    #: index of an inbox that stays → its index now
    stays = {
        2 * number + part: 2 * task.inputs.index(uid) + part
        for number, uid in enumerate(before)
        if uid in task.inputs
        for part in (0, 1)
    }
    inboxes = {
        source: InboxStart(path=CARRIED_OVER, time_ms=stamp_ms(0, stays[index]), lines=lines.get(index, ()))
        for source, index in enumerate(indexes)
        if index in stays
    }
    query_id = str(uuid.uuid4())
    copy_for_lineage(
        Folder(origin.store, old_dir),
        Folder(storage.store, progress_dir),
        batch,
        query_id=query_id,
        inbox_sources=inboxes,
        lines=None if plan is None else lines_of_plan(plan, known),
    )
    if start.watermark_ms is not None and start.watermark_ms != start.snapshot.watermark_ms:
        set_watermark(storage.store, progress_dir, batch, start.watermark_ms)
    for index, uid in enumerate(task.inputs):
        if positions[uid].admission >= 0:
            Inbox(storage.store, layout.inbox(folder, uid), 2 * index).open_new(1)
        if positions[uid].mark >= 0:
            Inbox(storage.store, layout.marks(folder, uid), 2 * index + 1).open_new(1)


def _begin_records(
    storage: JobDocuments,
    origin: Origin,
    graph: JobGraph,
    subtask: SubtaskId,
    start: Start,
    positions: Mapping[str, InputPosition],
    *,
    folder: str,
    run: int,
) -> None:
    """Write the batch record of the batch that a subtask resumes after."""
    snapshot = start.snapshot
    # Readers of its channels take the time from this batch record: the end of time, if a flush is not undone.
    flushed = start.end is not None and start.end.batch_before_flush < snapshot.batch
    attempt = f"{run:06d}"
    progress_dir = layout.spark_progress_dir(folder)
    record = BatchRecord(
        batch=snapshot.batch,
        segments=tuple(_copy_in_flight(storage, origin, graph, subtask, snapshot.batch, folder, attempt)),
        offsets_hash=read_offsets(storage.store, progress_dir, snapshot.batch).hash if start.has_query else "",
        run=run,
        inputs=dict(positions),
        watermark_ms=start.watermark_ms,
        flush=flushed,
        windows=snapshot.windows,
    )
    storage.create(layout.batch(folder, snapshot.batch), record)


def _copy_in_flight(
    storage: JobDocuments, origin: Origin, graph: JobGraph, subtask: SubtaskId, batch: int, folder: str, attempt: str
) -> Iterator[Segment]:
    """Copy the segments in flight of the old subtasks that this one replaces, in their order; yield each copy."""
    old_parallelism = topology_of(origin.manifest).vertex(subtask.task).parallelism
    parallelism = graph.task(subtask.task).parallelism
    readers = {task.uid for task in graph.consumers_of(graph.task(subtask.task))}
    for index in range(old_parallelism):
        if index * parallelism // old_parallelism != subtask.subtask:
            continue
        old = SubtaskId(subtask.task, index)
        record_of = partial(origin.record, old)
        for number, segment in enumerate(in_flight(origin.manifest, old, record_of)):
            wanted = tuple(uid for uid in segment.readers if uid in readers)
            if wanted:
                path = f"{layout.segment_folder(folder, batch, attempt)}/{index}-{number:06d}.parquet"
                source = f"{origin.subtask(old)}/{segment.path}"
                copy_between(origin.store, source, storage.store, path)
                yield replace(segment, path=path.removeprefix(f"{folder}/"), readers=wanted)
