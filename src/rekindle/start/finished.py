"""The operators that had finished in a checkpoint: they decide which graphs FLIP-147 allows to restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Topology
from rekindle.ids import SubtaskId
from rekindle.storage.documents.batch import End


def finished_operators(
    ends: Mapping[SubtaskId, End | None], chains: Mapping[str, Sequence[str]], topology: Topology, *, undo_drain: bool
) -> dict[str, SubtaskSet]:
    """Return operator → its finished subtasks, for `rekindle.graph.compatibility`.

    Args:
        ends: subtask of a checkpoint, or of a lineage → its end; None: it has not ended.
        chains: task → its saved operators; a task that is missing has those of now.
        undo_drain: True if subtasks that only a drain has ended continue, and so do not count.
    """
    over = [task for task, end in ends.items() if end is not None and not (undo_drain and end.drained)]
    now = {vertex.uid: vertex.chain for vertex in topology.vertices}
    finished: dict[str, SubtaskSet] = {}
    for uid, parallelism in Counter(task.task for task in ends).items():
        subtasks = SubtaskSet.of(parallelism, (task.subtask for task in over if task.task == uid))
        finished |= dict.fromkeys(chains.get(uid, now.get(uid, ())), subtasks)
    return finished
