"""The saved documents of a job, in the uids that its tasks have now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rekindle.graph.changes import sinks_of_chain
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot

_Value = TypeVar("_Value")

Names = Mapping[str, str]
"""Uid that a task had → uid that it has."""


def renamed_manifest(manifest: Manifest, names: Names) -> Manifest:
    """Return the manifest as one of the job whose tasks have these names."""
    return replace(
        manifest,
        graph=renamed_graph(manifest.graph, names),
        tasks={
            uid: {index: _renamed_snapshot(one, names) for index, one in subtasks.items()}
            for uid, subtasks in _renamed(manifest.tasks, names).items()
        },
        unread=_renamed(manifest.unread, names),
        operator_state=_renamed(manifest.operator_state, names),
        finished_tasks=tuple(names.get(uid, uid) for uid in manifest.finished_tasks),
        chains=renamed_chains(manifest.chains, names),
    )


def renamed_record(record: BatchRecord, names: Names) -> BatchRecord:
    """Return the batch record as one of the job whose tasks have these names."""
    segments = tuple(replace(one, readers=tuple(names.get(uid, uid) for uid in one.readers)) for one in record.segments)
    return replace(record, inputs=_renamed(record.inputs, names), segments=segments)


def renamed_graph(graph: Mapping[str, Sequence[str]], names: Names) -> dict[str, list[str]]:
    """Return task → its inputs with other names."""
    return {uid: [names.get(each, each) for each in inputs] for uid, inputs in _renamed(graph, names).items()}


def renamed_chains(chains: Mapping[str, Sequence[str]], names: Names) -> dict[str, list[str]]:
    """Return task → its operators with other names. A sink is written ``sink:UID`` where a task has its uid."""
    tasks = {names.get(uid, uid) for uid in chains}
    renamed = {}
    for uid, chain in chains.items():
        now = names.get(uid, uid)
        sinks = sinks_of_chain(uid, chain)
        steps = [f"{now}{one.removeprefix(uid)}" for one in chain if one == uid or "/" in one]
        renamed[now] = [*steps, *(f"sink:{sink}" if sink in tasks else sink for sink in sinks)]
    return renamed


def _renamed_snapshot(snapshot: SubtaskSnapshot, names: Names) -> SubtaskSnapshot:
    return replace(snapshot, inputs=_renamed(snapshot.inputs, names), in_flight=_renamed(snapshot.in_flight, names))


def _renamed(values: Mapping[str, _Value], names: Names) -> dict[str, _Value]:
    return {names.get(uid, uid): value for uid, value in values.items()}
