"""The changes of a job since its lineage, or since the manifest that it starts from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rekindle.graph.changes import Change, Saved, changes, renames
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.settling import late_histories, with_other_inputs
from rekindle.ids import SubtaskId
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.storage import layout
from rekindle.storage.documents.batch import End
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Run
from rekindle.storage.origin import Origin
from rekindle.storage.renaming import renamed_chains, renamed_graph


class Kinds(NamedTuple):
    """The kinds of the sinks and sources in the last run, as far as they are known."""

    #: sink → its kind
    sinks: Mapping[str, str]
    #: source → its kind
    sources: Mapping[str, str]


def kinds_of(run: Run | None) -> Kinds:
    """Return the kinds of the sinks and sources of a run."""
    described = run.description if run is not None else None
    if described is None:
        return Kinds({}, {})
    return Kinds({one.uid: one.kind for one in described.sinks}, {one.uid: one.kind for one in described.sources})


def with_chains_of(lineage: Lineage, run: Run | None) -> Lineage:
    """Return the lineage with the operators that its tasks had in `run`, the last in it.

    Sinks are added and removed in place. Tasks that had finished before that run had the same operators: otherwise the
    run would have been refused.
    """
    described = run.description if run is not None and run.lineage == lineage.lineage else None
    if described is None:
        return lineage
    graph = JobGraph(
        name="",
        sources=tuple(Source(uid=one.uid, bounded=one.bounded) for one in described.sources),
        tasks=tuple(Task(uid=one.uid, inputs=one.inputs) for one in described.tasks),
        sinks=tuple(Sink(uid=one.uid, task=one.task, kind=one.kind) for one in described.sinks),
    )
    return replace(lineage, chains={vertex.uid: list(vertex.chain) for vertex in graph.topology.vertices})


def since_lineage(
    graph: JobGraph,
    lineage: Lineage,
    ends: Mapping[SubtaskId, End | None],
    kinds: Kinds,
    bounded: Collection[str],
) -> list[Change]:
    """Compare a job with the lineage that it would resume in place.

    Args:
        ends: subtask of the lineage → its end; None: it has not ended.
        bounded: sources that end, by its newest checkpoint: a start that failed has said what it wanted, not what is.
    """
    renamed = renames(graph, lineage.graph)
    names = {old: now for now, old in renamed.items()}
    going = {subtask.task for subtask, end in ends.items() if end is None}
    saved = Saved(
        job=graph.name,
        graph=renamed_graph(lineage.graph, names),
        parallelism={names.get(uid, uid): count for uid, count in lineage.parallelism.items()},
        finished=[names.get(uid, uid) for uid in lineage.graph if uid not in going],
        chains=renamed_chains(lineage.chains, names),
        kinds=kinds.sinks,
        source_kinds=kinds.sources,
        bounded=bounded,
    )
    return changes(graph, saved, renamed)


def since_origin(graph: JobGraph, origin: Origin, kinds: Kinds, *, undo_drain: bool) -> list[Change]:
    """Compare a job with the checkpoint or savepoint to start from, in which tasks have their new uids already."""
    manifest = origin.manifest
    going = {
        subtask.task
        for subtask, snapshot in snapshots_of(manifest).items()
        if snapshot.end is None or (undo_drain and snapshot.end.drained)
    }
    saved = Saved(
        job=manifest.job,
        graph=manifest.graph,
        parallelism={uid: len(subtasks) for uid, subtasks in manifest.tasks.items()},
        finished=[uid for uid in manifest.tasks if uid not in going],
        chains=manifest.chains,
        kinds=kinds.sinks,
        source_kinds=_sources_of(origin, graph),
        bounded=manifest.bounded_sources,
    )
    return changes(graph, saved, origin.renamed)


def _sources_of(origin: Origin, graph: JobGraph) -> dict[str, str]:
    """Return the kinds of the sources of a checkpoint. Older versions recorded none, and had no custom sources."""
    if origin.manifest.source_kinds:
        return origin.manifest.source_kinds
    lists = ("Files", "Batch")
    found = {}
    for source in graph.sources:
        if origin.frozen_files(source.uid) is None:
            found[source.uid] = "Stream"
        else:
            found[source.uid] = source.kind if source.kind in lists else lists[0]
    return found


def late_by(origin: Origin, graph: JobGraph, found: Sequence[Change]) -> list[Change]:
    """Find the new inputs whose rows would be dropped as late after a start from this checkpoint."""
    if not with_other_inputs(found):
        return []
    late_for = {
        uid
        for uid, subtasks in origin.manifest.tasks.items()
        if any(one.watermark_ms for one in subtasks.values())
        and origin.store.names(f"{layout.spark_progress_dir(origin.subtask(SubtaskId(uid, 0)))}/state")
    }
    return late_histories(graph, found, late_for)
