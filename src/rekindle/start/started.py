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
    topology = context.graph.topology
    # Each is read once, and after its readers: a driver that was taken for dead may record more at any time, and no
    # subtask may seem to have read what its producer has not written.
    last = {
        SubtaskId(uid, index): storage.last_record(context.folder(SubtaskId(uid, index)))
        for uid in reversed(topology.order)
        for index in range(topology.vertex(uid).parallelism)
    }
    restored, draining = {}, False
    for task in context.graph.subtasks():
        folder, record = context.folder(task), last[task]
        end, first = ends.of(folder), min(storage.records(folder), default=0)
        restored[task] = e.RestoredTask(
            closed=task in finished,
            ended=end is not None,
            drained=end is not None and end.drained,
            notes=end.notes if end else (),
            batch=end.batch if end else record.batch if record else -1,
            read=assembly.read(task, record),
            # A lineage begins with the batch record of the batch that it resumes after, which has nothing to commit.
            committed=covered.get(task, first - 1),
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
        available_now=context.run.available_now,
    )
