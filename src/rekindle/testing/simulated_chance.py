"""The beginning of a simulated life, by chance: a job of some shape, its inputs, and settings."""

from __future__ import annotations

import random
from dataclasses import replace

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Source, Task
from rekindle.ids import SubtaskId
from rekindle.testing.simulated_files import TaskFiles
from rekindle.testing.simulated_world import World


def new_world(chance: random.Random, *, calm: bool) -> World:
    """Make a world of one to four tasks of up to three subtasks; each reads sources, some earlier tasks, or both."""
    endless = 0.0 if calm else 0.3
    tasks: list[Task] = []
    sources: dict[str, tuple[str, ...]] = {}
    for number in range(chance.choice((1, 1, 2, 2, 3, 4))):
        uid = f"t{number}"
        producers = [task.uid for task in tasks if chance.random() < 0.6]
        count = chance.randint(0 if producers else 1, 2)
        sources[uid] = tuple(f"{uid}s{source}" for source in range(count))
        inputs = (*producers, *sources[uid])
        tasks.append(Task(uid=uid, inputs=inputs, parallelism=chance.choice((1, 1, 2, 3))))
    every = tuple(Source(uid=uid, bounded=True) for uids in sources.values() for uid in uids)
    graph = JobGraph(name="simulated", sources=every, tasks=tuple(tasks))

    def size() -> int | None:
        return None if chance.random() < endless else chance.choice((0, 3, 8, 20))

    consumers: dict[SubtaskId, dict[str, tuple[SubtaskId, ...]]] = {task: {} for task in graph.subtasks()}
    producers_of: dict[SubtaskId, list[SubtaskId]] = {task: [] for task in graph.subtasks()}
    topology = graph.topology
    for edge in topology.edges:
        for index in range(topology.vertex(edge.source).parallelism):
            producer = SubtaskId(edge.source, index)
            reached = tuple(SubtaskId(edge.target, at) for at in topology.consumers(edge, index))
            consumers[producer][edge.target] = reached
            for consumer in reached:
                producers_of[consumer].append(producer)
    files = {
        task: TaskFiles(
            {f"{uid}.{task.subtask}": size() for uid in sources[task.task]},
            tuple(producers_of[task]),
            slow=not calm and chance.random() < 0.3,
        )
        for task in graph.subtasks()
    }
    return World(graph, files, consumers)


_DURING_BACKLOG_MS = {(0, 0): 1_000, (2_000, 5_000): 60_000, (10_000, 0): 0}
"""Interval and pause of checkpoints, ms → the interval during backlog; it takes no chance from what follows."""


def new_config(chance: random.Random) -> Config:
    """Choose settings for a run in a time of turmoil."""
    mode = chance.choice(("aligned", "unaligned"))
    chosen = Config(
        checkpoint_mode=mode,
        checkpoint_aligned_timeout_ms=chance.choice((0, 2_000)),
        checkpoint_max_concurrent=chance.choice((1, 2, 3)) if mode == "aligned" else 1,
        checkpoint_interval_ms=chance.choice((0, 2_000, 10_000)),
        checkpoint_timeout_ms=chance.choice((20_000, 600_000)),
        checkpoint_min_pause_ms=chance.choice((0, 5_000)),
        checkpoint_retained=chance.choice((0, 1, 3)),
        checkpoint_tolerable_failures=chance.choice((0, 2, 99)),
        checkpoint_after_tasks_finish=chance.random() < 0.9,
        restart_attempts=chance.choice((0, 2, 9)),
        restart_delay_ms=chance.choice((0, 1_000)),
    )
    during_ms = _DURING_BACKLOG_MS.get((chosen.checkpoint_interval_ms, chosen.checkpoint_min_pause_ms))
    return replace(chosen, checkpoint_interval_during_backlog_ms=during_ms)
