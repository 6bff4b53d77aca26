"""The flush of a subtask that has read everything, and what its user is to know of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rekindle.channels.feed import FileFeed
from rekindle.errors import JobError
from rekindle.graph.job_graph import Task
from rekindle.spark.inputs.input import Input, only_inboxes
from rekindle.spark.inputs.intake import Intake
from rekindle.spark.plans.leftovers import Leftovers, leftovers_of, waits_for_the_clock
from rekindle.spark.query.flush import BEYOND_TIME_MS, END_OF_TIME_MS, Flushed, flush
from rekindle.spark.query.planned import PlannedBatches
from rekindle.spark.query.query import Query
from rekindle.spark.streaming.batch_protocol import BatchProtocol
from rekindle.spark.streaming.parts import SubtaskParts
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.batch import BatchRecord, End


def flush_running(
    parts: SubtaskParts, query: Query, planned: PlannedBatches, protocol: BatchProtocol, intake: Intake
) -> Flushed | None:
    """Flush a query that runs, where all that its state holds are windows; return None where it has to be stopped.

    Nothing of these is left, so that no one has to count it.
    """
    reads_nothing = only_inboxes(parts.inputs) and not intake.outstanding and planned.found <= protocol.last
    if not reads_nothing or parts.frame is None or parts.task.output_mode == "complete":
        return None
    if leftovers_of(parts.frame) is not Leftovers.WINDOWS:
        return None
    protocol.flush_from = protocol.last + 1
    return Flushed(1, complete=True) if query.pass_time(BEYOND_TIME_MS) else None


def flush_state(
    storage: BatchDocuments,
    parts: SubtaskParts,
    query: Query,
    planned: PlannedBatches,
    protocol: BatchProtocol,
    max_rounds: int,
) -> Flushed:
    """Empty the state of a query that is held, where it has any that comes out."""
    folder, task = parts.place.folder, parts.task
    progress_dir = layout.spark_progress_dir(folder)
    stateful = bool(storage.store.names(f"{progress_dir}/state"))
    if not stateful or task.output_mode == "complete" or query.commits.last < 0:
        return Flushed(0, complete=True)
    assert parts.frame is not None, "a subtask that has ended is never flushed"
    leftovers = leftovers_of(parts.frame)
    if leftovers is Leftovers.NONE and not planned.is_flushed():
        return Flushed(0, complete=True)
    protocol.flush_from = query.commits.last + 1

    def run_planted(batch: int) -> tuple[int | None, Mapping[str, Any]]:
        report = query.run_to(batch)
        planned.forget(keep_found=False)
        record = storage.record(folder, batch)
        if record is None:
            raise JobError("QUERY_DIED", task=task.uid, reason=f"the flush, batch {batch}, left no record")
        return record.rows_out, report

    first_ms = END_OF_TIME_MS if leftovers is Leftovers.USERS_OWN else BEYOND_TIME_MS
    flushed = flush(storage.store, progress_dir, run_planted, max_rounds, first_ms)
    return replace(flushed, timers=0) if waits_for_the_clock(parts.frame) else replace(flushed, waiting=0)


def last_not_planted(storage: BatchDocuments, folder: str) -> BatchRecord | None:
    """Return the last batch record, of a batch that was not planted: a flush may have been begun by an earlier run."""
    for batch in reversed(storage.records(folder)):
        record = storage.record(folder, batch)
        if record is not None and not record.flush:
            return record
    return None


def end_of(
    run: int, batch: int, before: BatchRecord | None, *, drained: bool, at_ms: int, notes: tuple[str, ...]
) -> End:
    """Return the end of a subtask after its last `batch`; `before`: its last batch record that is not of a flush."""
    return End(
        batch=batch,
        run=run,
        drained=drained,
        watermark_before_flush_ms=before.watermark_ms if before else None,
        batch_before_flush=before.batch if before else -1,
        ended_ms=at_ms,
        notes=notes,
    )


def notes_at_end(task: Task, inputs: Iterable[Input], flushed: Flushed) -> tuple[str, ...]:
    """Say what inputs were not read, and what a flush has left in the state."""
    return (*_on_unread(inputs), *_on_unflushed(task, flushed))


def _on_unread(inputs: Iterable[Input]) -> Sequence[str]:
    """Say what of bounded sources was not read."""
    unread = [item for item in inputs if item.bounded and not item.ended]
    return [
        f"{item.uid}: {100 - math.floor(100 * item.feed.splits.share_read)} % was not read"
        if isinstance(item.feed, FileFeed)
        else f"{item.uid}: it has splits that were not read to their end"
        for item in unread
    ]


def _on_unflushed(task: Task, flushed: Flushed) -> Sequence[str]:
    """Say what a flush has left in the state."""
    notes = []
    if flushed.left and task.output_mode == "append":
        notes += [f"{task.uid}: {flushed.left} rows stay in its state forever (no event time, or no time bound)"]
    if flushed.waiting:
        why = "at the end no timer of processing time fires, and no value expires"
        notes += [f"{task.uid}: {flushed.waiting} rows stay in its state ({why})"]
    if flushed.timers:
        notes += [f"{task.uid}: {flushed.timers} timers never fire (they are after the end of the year 9999)"]
    if not flushed.complete:
        notes += [f"{task.uid}: timers were still being set after {flushed.rounds} flushes"]
    return notes
