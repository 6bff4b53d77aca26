"""Which operators of a checkpoint had finished: what FLIP-147 allows a restored graph depends on it."""

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
    """Which subtasks of each operator had finished, for `rekindle.graph.compatibility`.

    Args:
        ends: every subtask of a checkpoint, or of a lineage.
        chains: task → its operators, as they were saved; as they are now where that is not known.
        undo_drain: those that only a drain had ended continue.
    """
    over = [task for task, end in ends.items() if end is not None and not (undo_drain and end.drained)]
    now = {vertex.uid: vertex.chain for vertex in topology.vertices}
    finished: dict[str, SubtaskSet] = {}
    for uid, parallelism in Counter(task.task for task in ends).items():
        subtasks = SubtaskSet.of(parallelism, (task.subtask for task in over if task.task == uid))
        finished |= dict.fromkeys(chains.get(uid, now.get(uid, ())), subtasks)
    return finished
