"""Which changes of a job a checkpoint, or a resume in place, survives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rekindle.errors import RestoreError
from rekindle.graph.job_graph import JobGraph


def check_graph(
    graph: JobGraph, saved: Mapping[str, Sequence[str]], place: str, *, allow_non_restored_state: bool = False
) -> None:
    """Compare a job with the graph that was saved with its state.

    Args:
        saved: task uid → uids of its inputs, in order. Spark keeps positions by order, so the order counts.
        place: the checkpoint, for the message.

    Raises:
        RestoreError: ``GRAPH_CHANGED``, ``STATE_NOT_RESTORED``.
    """
    tasks = {task.uid: task for task in graph.tasks}
    gone = sorted(set(saved) - set(tasks))
    if gone and not allow_non_restored_state:
        raise RestoreError("STATE_NOT_RESTORED", path=place, uids=", ".join(gone))
    for uid, inputs in saved.items():
        if uid in tasks and list(tasks[uid].inputs) != list(inputs):
            difference = f"task {uid} read {', '.join(inputs)} and now reads {', '.join(tasks[uid].inputs)}."
            raise RestoreError("GRAPH_CHANGED", path=place, difference=difference)
