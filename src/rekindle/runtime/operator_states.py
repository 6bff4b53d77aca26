"""Operator state of custom sources in checkpoints: a lineage takes it over, a manifest gathers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rekindle.channels.custom_splits import CustomSplits
from rekindle.ids import SubtaskId
from rekindle.protocol.operator_state import OperatorState, StateKind
from rekindle.runtime.definition import RunContext
from rekindle.sources import SplitSource
from rekindle.storage import read_layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.documents.lineage import Lineage

Custom = Mapping[str, Mapping[str, CustomSplits]]
"""Task → custom source → its splits."""


def custom_splits(run: RunContext, lineage: Lineage) -> dict[str, dict[str, CustomSplits]]:
    """Open the splits of the custom sources that each task reads, as the log of the lineage has them."""
    found: dict[str, dict[str, CustomSplits]] = {}
    for task in run.graph.tasks:
        found[task.uid] = {}
        for source in run.graph.sources_of(task):
            given = run.definition.sources.get(source.uid)
            if given is None or not isinstance(given.spec, SplitSource):
                continue
            document = lineage.operator_state.get(task.uid, {}).get(source.uid)
            found[task.uid][source.uid] = CustomSplits(
                run.storage,
                read_layout.splits(run.storage.job, task.uid, run.run.lineage, source.uid),
                run.run.run,
                task.parallelism,
                bounded=given.spec.bounded,
                restored=None if document is None else OperatorState.from_json(document),
                kinds={name: StateKind(kind) for name, kind in given.spec.state.items()},
            )
    return found


def operator_states(
    custom: Custom, snapshots: Mapping[SubtaskId, SubtaskSnapshot]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the operator state for a manifest: task → custom source → its state.

    A subtask that a drain has ended keeps its state: the drain can be undone. One that has finished for good leaves a
    marker (FLIP-147, Checkpoint Format with Finished Tasks).
    """
    return {
        task: {uid: splits.state(*_standing(snapshots, task, uid)).to_json() for uid, splits in sources.items()}
        for task, sources in custom.items()
        if sources
    }


def _standing(
    snapshots: Mapping[SubtaskId, SubtaskSnapshot], task: str, source: str
) -> tuple[dict[int, InputPosition], list[int]]:
    """Return the positions of the subtasks of a task in a source, and the subtasks that have finished for good."""
    of_task = {subtask.subtask: snapshot for subtask, snapshot in snapshots.items() if subtask.task == task}
    finished = [index for index, one in of_task.items() if one.end is not None and not one.end.drained]
    going = {index: one.inputs.get(source, InputPosition()) for index, one in of_task.items() if index not in finished}
    return going, finished
