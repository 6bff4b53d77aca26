"""The next batch of a simulated query: what it reads of its sources and channels, and what that puts out."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.ids import SubtaskId
from rekindle.testing.simulated_files import HELD, Row, SimulatedRecord
from rekindle.testing.simulated_world import World


def next_batch(
    world: World, task: SubtaskId, after: int, rows_each: int, readable: Mapping[SubtaskId, int], sources: bool
) -> SimulatedRecord | None:
    """Return a batch of up to `rows_each` new rows of each source and that many batches of each channel, as far as it
    is readable; None where there is nothing to read."""
    files = world.tasks[task]
    before = files.at(after)
    positions, read = dict(before.positions), dict(before.read)
    new: list[Row] = []
    for uid, size in files.sources.items() if sources else ():
        until = positions[uid] + rows_each if size is None else min(positions[uid] + rows_each, size)
        new += [(uid, position, (task.task,)) for position in range(positions[uid], until)]
        positions[uid] = until
    for producer in files.producers:
        until = min(read[producer] + rows_each, readable.get(producer, 0))
        consumers = world.consumers[producer][task.task]
        for record in world.tasks[producer].records[read[producer] : until]:
            new += [
                (uid, position, (*via, task.task))
                for uid, position, via in record.rows
                if consumers[position % len(consumers)] == task
            ]
        read[producer] = max(until, read[producer])
    if positions == before.positions and read == before.read:
        return None
    rows = (*before.held, *new)
    return SimulatedRecord(rows[:-HELD], positions, read, rows[-HELD:])
