"""The start of a simulated run: what its driver reads from the storage, by the rules of the driver."""

from __future__ import annotations

from rekindle.protocol import events as e
from rekindle.testing.simulated_world import World


def begin_run(world: World, now_ms: int) -> e.JobStarted:
    """Begin the next run, and return what its driver has read."""
    folder = world.checkpoints
    world.run += 1
    folder.fence(world.run, world.results)
    latest = max(folder.manifests, default=None)
    snapshots = {} if latest is None else folder.manifests[latest].snapshots
    tasks = {}
    for task, files in world.tasks.items():
        # What a start has opened from a checkpoint has none of its own yet that would say so.
        seen = latest != folder.opened_from and task in snapshots and snapshots[task].end is not None
        drained = files.end is not None and files.end.drained
        ended = files.end is not None and not seen
        named = snapshots[task].batch if task in snapshots else -1
        tasks[task] = e.RestoredTask(
            committed=named, closed=seen, ended=ended, drained=drained, batch=files.batch, read=files.last.read
        )
    draining = any(files.drain_begun and files.end is None for files in world.tasks.values())
    return e.JobStarted(
        now_ms=now_ms,
        next_checkpoint=folder.last_number + 1,
        latest_checkpoint=latest,
        tasks=tasks,
        draining=draining,
    )
