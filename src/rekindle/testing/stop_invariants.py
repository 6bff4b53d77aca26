"""The promise of a run that stops by itself, as a checker (see `rekindle.testing.invariants`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_world import World


def a_stop_has_its_reason(world: World) -> Iterator[str]:
    """Check that a run that was not asked to stop does so only once its tasks have caught up, with nothing unread."""
    endless = {task for task, files in world.tasks.items() if None in files.sources.values()}
    for number, result in world.results.items():
        heard = [thing for run, thing in world.history if run == number]
        asked = any(isinstance(thing, e.StopRequested) for thing in heard)
        if result.state != "STOPPED" or asked:
            continue
        if not any(isinstance(thing, e.JobStarted) and thing.available_now for thing in heard):
            yield f"run {number} has stopped by itself"
        late = endless - {thing.task for thing in heard if isinstance(thing, e.CaughtUp | e.TaskFinished)}
        if late:
            yield f"run {number} has stopped before {', '.join(sorted(map(str, late)))} had caught up"
        last = [one for one in heard if isinstance(one, c.TakeSnapshot) and one.checkpoint == result.checkpoint]
        engine_died = any(isinstance(thing, e.EngineDied) for thing in heard)
        if not engine_died and any(snapshot.in_flight for snapshot in last):
            yield f"run {number} has stopped before its tasks had read everything"
        begun = next(thing for thing in heard if isinstance(thing, e.JobStarted))
        ended = {thing.task for thing in heard if isinstance(thing, e.TaskFinished)}
        ended |= {task for task, fact in begun.tasks.items() if fact.ended or fact.closed}
        held = {one.task: one.batch for one in last if one.task not in ended}
        # That a source task has read what was there is its own word: how much that is, is known nowhere else.
        words = {thing.task: thing.batch for thing in reversed(heard) if isinstance(thing, e.CaughtUp)}
        since = {
            task: words.get(task, -1) if not world.tasks[task].producers else begun.tasks[task].batch for task in held
        }
        for task in _not_over(world, {task: (since[task], batch) for task, batch in held.items()}):
            yield f"run {number} has stopped before {task} had put out what is over"


def _not_over(world: World, held: Mapping[SubtaskId, tuple[int, int]]) -> Iterator[SubtaskId]:
    """Yield tasks that had no batch for what was over after their producers had had theirs.

    Args:
        held: task → the batches from which it counts, and after which it was held. Those that had ended are left out:
            all that these wrote is read, which is checked elsewhere.
    """
    over: dict[SubtaskId, int] = {}
    for task in (one for uid in world.graph.topology.order for one in held if one.task == uid):
        files, (first, last) = world.tasks[task], held[task]
        producers = [producer for producer in files.producers if producer in over]
        for batch in range(first, last + 1):
            record = files.at(batch)
            if (record.is_still or batch < 0) and all(record.read[one] > over[one] for one in producers):
                over[task] = batch
                break
        else:
            yield task
