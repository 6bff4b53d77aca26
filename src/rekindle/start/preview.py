"""The preview of a start: the decision that it would make, without a claim, a session or a write."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rekindle.config import Config
from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.ids import SubtaskId
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.runtime.definition import Definition
from rekindle.runtime.examining import Examined
from rekindle.runtime.leftovers import prepared, uncommitted
from rekindle.runtime.ports import Engine
from rekindle.start.covered import covered_by, latest_manifest
from rekindle.start.decide import Decider
from rekindle.start.decided import Decided
from rekindle.start.described_changes import changes, in_new_names
from rekindle.start.description import describe
from rekindle.start.examined_sinks import ExaminedSink, SinkExamination
from rekindle.start.foreseen import IN_PYTHON, foreseen
from rekindle.start.previews import (
    Beginning,
    Fate,
    GraphChange,
    QueryChangePreview,
    RewindPreview,
    SinkPreview,
    SourcePreview,
    StartPreview,
    TaskPreview,
)
from rekindle.start.resolve import AlreadyEnded, Fresh, Restore, Resume
from rekindle.start.saved import Before, before_start, examination
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.checkpoint_documents import CheckpointDocuments, newest_checkpoint
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import JobDescription
from rekindle.storage.documents.status import RUNNING
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_documents import last_begun

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def preview(
    definition: Definition,
    graph: JobGraph,
    storage: JobStorage,
    decider: Decider,
    config: Config,
    targets: SinkExamination,
    engine: Engine | None = None,
) -> StartPreview:
    """Return what a start would do.

    Args:
        targets: looks at the targets of the sinks.
        engine: the engine that examines the queries; None: they are not examined.

    Raises:
        RestoreError: this start is refused.
        StorageError: the storage cannot be read.
        JobError: ``START_FAILED``: the engine has met what no one has foreseen.
    """
    last, _ = last_begun(storage)
    running = last.run if last is not None and storage.state() == RUNNING else None
    decided = decider.decide(only_looks=True)
    decision = decided.decision
    has_ended = isinstance(decision, AlreadyEnded)
    now = describe(graph, definition, config, {} if engine is None else engine.value_settings)
    left = _left(storage, graph, decided)
    tasks = tuple(_tasks(storage, graph, decided))
    examined: Mapping[str, Examined] = {}
    if engine is not None and not has_ended:
        with foreseen(engine, graph.name, IN_PYTHON):
            examined = engine.examine(examination(definition, graph, storage, decided))
    sinks = {}
    if not has_ended:
        with foreseen(engine, graph.name, IN_PYTHON):
            sinks = {sink.uid: targets.examine(sink.uid, _columns(examined, sink.task)) for sink in graph.sinks}
    before = before_start(decided, graph)
    return StartPreview(
        job=graph.name,
        beginning=_BEGINNINGS[type(decision)],
        running=running,
        path=decision.path if isinstance(decision, Restore) else None,
        checkpoint=_checkpoint(storage, decided),
        tasks=tuple(_with_query(task, examined.get(task.uid), config.backlog_mode) for task in tasks),
        sources=tuple(_sources(now, tasks, before, has_ended=has_ended)),
        sinks=tuple(_sinks(now, tasks, before, left, sinks)),
        changes=tuple(changes(in_new_names(last.description, graph), now)) if last and last.description else (),
        graph=tuple(GraphChange(uid=one.uid, what=one.what, then=one.rule.then) for one in decided.changes),
        rewinds=tuple(_rewinds(graph, decided)),
        unseen=None if engine is not None else "no session was given",
    )


def _columns(examined: Mapping[str, Examined], task: str) -> StructType | None:
    return examined[task].columns if task in examined else None


_BEGINNINGS: dict[type, Beginning] = {
    Fresh: "begins",
    Resume: "resumes",
    Restore: "restores",
    AlreadyEnded: "has ended",
}


def _rewinds(graph: JobGraph, decided: Decided) -> Iterator[RewindPreview]:
    kinds, rewind = {sink.uid: sink.kind for sink in graph.sinks}, decided.rewind
    if rewind is None:
        return
    for uid, commits in rewind.commits.items():
        yield RewindPreview(sink=uid, kind=kinds[uid], checkpoints=tuple(sorted(commits)), rows=rewind.rows(uid))


def _with_query(task: TaskPreview, examined: Examined | None, backlog_mode: str) -> TaskPreview:
    if examined is None:
        return task
    error, streams = examined.error, examined.streams_history
    if backlog_mode == "batch" and streams is not None:
        error = error or DefinitionError("BACKLOG_UNSUPPORTED", task=task.uid, reason=streams)
    asked = examined.has_history and backlog_mode != "stream"
    return replace(
        task,
        query=tuple(
            QueryChangePreview(what=one.aspect.value, before=one.before, now=one.now, then=one.rule.then)
            for one in examined.changes
        ),
        refused=None if error is None else error.to_json(),
        history=("stream" if streams else "batch") if asked else None,
        history_streams=streams if asked else None,
        unseen=examined.unseen,
    )


def _sources(
    now: JobDescription, tasks: Collection[TaskPreview], before: Before, *, has_ended: bool
) -> Iterator[SourcePreview]:
    fates = {task.uid: task.fate for task in tasks}
    for source in now.sources:
        readers = tuple(task.uid for task in now.tasks if source.uid in task.inputs)
        if has_ended:
            yield SourcePreview(uid=source.uid, kind=source.kind, fate="finished", tasks=readers)
            continue
        known = {fates[uid] for uid in readers if source.uid in before.inputs.get(uid, ())} - {"begins"}
        fate: Fate = "begins" if not known else "finished" if known == {"finished"} else "resumes"
        yield SourcePreview(uid=source.uid, kind=source.kind, fate=fate, tasks=readers)
    for uid in before.sources - {source.uid for source in now.sources}:
        yield SourcePreview(uid=uid, fate="dropped")


def _sinks(
    now: JobDescription,
    tasks: Collection[TaskPreview],
    before: Before,
    left: Collection[str],
    examined: Mapping[str, ExaminedSink],
) -> Iterator[SinkPreview]:
    """Yield each sink; `examined` has no target of a job that has ended."""
    fates = {task.uid: task.fate for task in tasks}
    for sink in now.sinks:
        fate = fates[sink.task] if before.sinks.get(sink.uid) == sink.task else "begins"
        preview = SinkPreview(uid=sink.uid, kind=sink.kind, fate=fate, has_prepared=sink.uid in left)
        target = examined.get(sink.uid)
        if target is None:
            yield replace(preview, fate="finished")
        else:
            refused = None if target.error is None else target.error.to_json()
            yield replace(preview, refused=refused, unseen=target.unseen)
    for uid in before.sinks.keys() - {sink.uid for sink in now.sinks}:
        yield SinkPreview(uid=uid, fate="dropped")


def _checkpoint(storage: CheckpointDocuments, decided: Decided) -> int | None:
    if decided.origin is not None:
        return decided.origin.manifest.checkpoint
    return newest_checkpoint(storage)


def _left(storage: JobStorage, graph: JobGraph, decided: Decided) -> Collection[str]:
    """Return the sinks with prepared rows, which a start commits first."""
    decision = decided.decision
    interrupted = uncommitted(storage)
    taken_back = decided.rewind.checkpoints if decided.rewind is not None else ()
    if isinstance(decision, AlreadyEnded) or (interrupted is not None and interrupted.checkpoint in taken_back):
        return ()
    lineage = decision.lineage.lineage if isinstance(decision, Resume) else 0
    covered = covered_by(latest_manifest(storage, decision, lineage))
    return prepared(storage, graph.subtasks(), lineage, covered).keys()


@dataclass(frozen=True, slots=True)
class _Stand:
    """The last batch of a subtask, and whether it has finished."""

    batch: int
    finished: bool


def _tasks(storage: BatchDocuments, graph: JobGraph, decided: Decided) -> Iterator[TaskPreview]:
    decision = decided.decision
    stands: dict[SubtaskId, _Stand] = {}
    if isinstance(decision, Resume):
        stands = _stands_in(storage, decision.lineage)
    elif isinstance(decision, Restore) and decided.origin is not None:
        going = {
            subtask.task
            for subtask, snapshot in snapshots_of(decided.origin.manifest).items()
            if snapshot.end is None or (decision.undo_drain and snapshot.end.drained)
        }
        # A task that had finished in part starts again as a whole.
        stands = {
            subtask: _Stand(snapshot.batch, subtask.task not in going)
            for subtask, snapshot in snapshots_of(decided.origin.manifest).items()
        }
    now = {task.uid: task for task in graph.tasks}
    for uid in dict.fromkeys((*now, *(subtask.task for subtask in stands))):
        of_task = [stand for subtask, stand in stands.items() if subtask.task == uid]
        yield _task(uid, now.get(uid), of_task, ended=isinstance(decision, AlreadyEnded))


def _task(uid: str, task: Task | None, stands: list[_Stand], *, ended: bool) -> TaskPreview:
    if task is None:
        return TaskPreview(uid=uid, fate="dropped", subtasks=len(stands))
    subtasks = task.parallelism
    if ended:
        return TaskPreview(uid=uid, fate="finished", subtasks=subtasks, finished=subtasks)
    finished = sum(stand.finished for stand in stands)
    last = max((stand.batch for stand in stands if stand.batch >= 0), default=None)
    if stands and finished == len(stands):
        return TaskPreview(uid=uid, fate="finished", subtasks=subtasks, batch=last, finished=subtasks)
    if last is None:
        return TaskPreview(uid=uid, fate="begins", subtasks=subtasks, finished=finished)
    dealt_out = len(stands) != subtasks
    return TaskPreview(uid=uid, fate="resumes", subtasks=subtasks, batch=None if dealt_out else last, finished=finished)


def _stands_in(storage: BatchDocuments, lineage: Lineage) -> dict[SubtaskId, _Stand]:
    stands = {}
    for subtask in lineage.subtasks():
        folder = layout.subtask(storage.job, *subtask, lineage.lineage)
        end = storage.end(folder)
        last = end.batch if end is not None else max(storage.records(folder), default=-1)
        stands[subtask] = _Stand(last, end is not None)
    return stands
