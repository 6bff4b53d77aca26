"""The state of a job before a start: the inputs of its tasks, its sinks, and the state that each task has left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rekindle.graph.changes import renames, sinks_of_chain
from rekindle.graph.job_graph import JobGraph
from rekindle.graph.settling import with_other_inputs
from rekindle.ids import SubtaskId
from rekindle.runtime.definition import Definition
from rekindle.runtime.examining import Examination, Left
from rekindle.start.decided import Decided
from rekindle.start.resolve import Restore, Resume
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.origin import Origin
from rekindle.storage.renaming import renamed_chains, renamed_graph


@dataclass(frozen=True, slots=True)
class Before:
    """A job as it was, in the uids that its tasks have now."""

    #: task → its inputs
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: sink → its task
    sinks: Mapping[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> frozenset[str]:
        """The uids of the sources: inputs that are no task."""
        return frozenset(uid for inputs in self.inputs.values() for uid in inputs) - self.inputs.keys()


def before_start(decided: Decided, graph: JobGraph) -> Before:
    """Return the job as a start finds it; empty if the job is new."""
    decision, origin = decided.decision, decided.origin
    if isinstance(decision, Resume):
        names = {old: now for now, old in renames(graph, decision.lineage.graph).items()}
        inputs = renamed_graph(decision.lineage.graph, names)
        chains = renamed_chains(decided.chains or decision.lineage.chains, names)
    elif origin is not None:
        inputs, chains = origin.manifest.graph, origin.manifest.chains
    else:
        return Before()
    return Before(inputs, {sink: uid for uid, chain in chains.items() for sink in sinks_of_chain(uid, chain)})


def examination(
    definition: Definition,
    graph: JobGraph,
    storage: BatchDocuments,
    decided: Decided,
    *,
    numbers_only: bool = False,
) -> Examination:
    """Return the job and its saved state, for an engine to examine before a start."""
    decision, origin = decided.decision, decided.origin
    left: dict[str, Left] = {}
    if isinstance(decision, Resume):
        left = _left_in(storage, decision.lineage.lineage, decision.lineage.graph)
    elif isinstance(decision, Restore) and origin is not None:
        left = _left_by(origin, graph, with_other_inputs(decided.changes), undo_drain=decision.undo_drain)
    frozen = storage.frozen_files
    return Examination(
        definition=definition,
        graph=graph,
        left=left,
        numbers_only=numbers_only,
        frozen=lambda uid: frozen(uid) or (None if origin is None else origin.frozen_files(uid)),
    )


def _left_in(storage: BatchDocuments, lineage: int, tasks: Mapping[str, object]) -> dict[str, Left]:
    found = {}
    for uid in tasks:
        folder = layout.subtask(storage.job, uid, 0, lineage)
        record = storage.last_record(folder)
        found[uid] = Left(
            store=storage.store,
            folder=folder,
            ended=storage.end(folder) is not None,
            positions=record.inputs if record else {},
            described=record.windows if record else None,
        )
    return found


def _left_by(origin: Origin, graph: JobGraph, others: Collection[str], *, undo_drain: bool) -> dict[str, Left]:
    found = {}
    for uid, snapshots in origin.manifest.tasks.items():
        if uid not in {task.uid for task in graph.tasks} or snapshots[0].batch < 0:
            continue
        snapshot, end = snapshots[0], snapshots[0].end
        found[uid] = Left(
            store=origin.store,
            folder=origin.subtask(SubtaskId(uid, 0)),
            ended=end is not None and not (undo_drain and end.drained),
            positions=snapshot.inputs,
            other_inputs=uid in others,
            may_move=True,
            described=snapshot.windows,
        )
    return found
