"""The next batch of a simulated query: what it reads of its sources and channels, and what that puts out."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.ids import SubtaskId
from rekindle.testing.simulated_files import HELD, Row, SimulatedRecord
from rekindle.testing.simulated_world import World


def next_batch(
    world: World,
    task: SubtaskId,
    after: int,
    rows_each: int,
    readable: Mapping[SubtaskId, int],
    until: Mapping[str, int | None],
) -> SimulatedRecord | None:
    """Return a batch of up to `rows_each` new rows of each source and that many batches of each channel, as far as it
    is readable; None where there is nothing to read.

    Args:
        until: source → rows that it has; None: it never ends. One that is left out is not read.
    """
    files = world.tasks[task]
    before = files.at(after)
    positions, read = dict(before.positions), dict(before.read)
    new: list[Row] = []
    for uid, size in until.items():
        first = positions[uid]
        place = first + rows_each if size is None else max(min(first + rows_each, size), first)
        new += [(uid, position, (task.task,)) for position in range(first, place)]
        positions[uid] = place
    for producer in files.producers:
        place = min(read[producer] + rows_each, readable.get(producer, 0))
        consumers = world.consumers[producer][task.task]
        for record in world.tasks[producer].records[read[producer] : place]:
            new += [
                (uid, position, (*via, task.task))
                for uid, position, via in record.rows
                if consumers[position % len(consumers)] == task
            ]
        read[producer] = max(place, read[producer])
    if positions == before.positions and read == before.read:
        return None
    rows = (*before.held, *new)
    return SimulatedRecord(rows[:-HELD], positions, read, rows[-HELD:])
