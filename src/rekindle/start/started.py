"""The first event of the protocol: the state of the subtasks of a job that starts, and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.definition import RunContext
from rekindle.runtime.leftovers import uncommitted
from rekindle.runtime.ports import Subtasks
from rekindle.storage.checkpoint_documents import newest_checkpoint
from rekindle.storage.documents.checkpoint import SubtaskSnapshot


def job_started(
    context: RunContext,
    finished: Mapping[SubtaskId, SubtaskSnapshot],
    covered: Mapping[SubtaskId, int],
    assembly: Subtasks,
    engine_failures: int,
) -> e.JobStarted:
    """Read the state of each subtask from the storage, and return the event that starts the protocol."""
    storage, ends = context.storage, context.ends
    status = storage.status()
    used = [*storage.numbers_used(), *(stats.id for stats in (status.history if status else ()))]
    restored, draining = {}, False
    for task in context.graph.subtasks():
        folder = context.folder(task)
        end, records = ends.of(folder), storage.records(folder)
        restored[task] = e.RestoredTask(
            closed=task in finished,
            ended=end is not None,
            drained=end is not None and end.drained,
            notes=end.notes if end else (),
            batch=end.batch if end else max(records, default=-1),
            read=assembly.read(task),
            # A lineage begins with the batch record of the batch that it resumes after, which has nothing to commit.
            committed=covered.get(task, min(records, default=0) - 1),
        )
        draining = draining or (end is None and storage.drain(folder) is not None)
    return e.JobStarted(
        now_ms=0,
        next_checkpoint=max(used, default=0) + 1,
        latest_checkpoint=newest_checkpoint(storage),
        committed=uncommitted(storage) is None,
        tasks=restored,
        draining=draining,
        engine_failures=engine_failures,
    )
