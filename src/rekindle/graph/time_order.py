"""The sources that may be read in the order of time: their rows reach no task that makes older rows of them.

A history that is read in the order of time moves the watermark of its task, and of the tasks that read that one, as it
is read. A task whose plan makes rows that are older than those it reads (`spark.plans.time_order`) would lose them. So
all that it reads is read in any order: then nothing moves the watermark before the history has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rekindle.graph.job_graph import JobGraph, Task, reached


def readings_before(graph: JobGraph, task: Task) -> Iterator[tuple[str, str]]:
    """Yield each task and source of it whose order moves the watermark of `task`: its own sources, and further up."""

    def timed(reader: Task) -> list[Task]:
        return [producer for producer in graph.producers_of(reader) if producer.event_time is not None]

    for reader in reached(task, timed):
        yield from ((reader.uid, source.uid) for source in graph.sources_of(reader))


def in_any_order(graph: JobGraph, reasons: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return each task, and source of it, that is to be read in any order → the reason.

    Args:
        reasons: task → why it needs that.
    """
    return {
        reading: reason
        for task in graph.tasks
        if (reason := reasons.get(task.uid)) is not None
        for reading in readings_before(graph, task)
    }


def is_finite(graph: JobGraph, task: Task) -> bool:
    """Return whether all rows that a task reads come from bounded sources, through whichever tasks."""
    return all(source.bounded for one in reached(task, graph.producers_of) for source in graph.sources_of(one))
