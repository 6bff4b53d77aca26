"""Adopting a plain query: its checkpoint becomes where a task of a job begins.

What is made is a savepoint like any other, of a job that has never run: the adopted task stands after the last batch
that the plain query has committed, every other task before its first. In the copy of the query's directory the sources
are numbered as in the task's plan, where each input with an event time has watermark rows beside it, which no query has
read yet. Then a run is claimed that is to start from this savepoint, and ended at once. So the next start finds a
restore that no run has carried out yet, and does it, as it would after a crash: query ids, records and inboxes are made
there, and nowhere else.

Claiming that run is the one step that counts. Whatever is cut short before leaves a folder without a manifest, or one
that nothing names. A second task is adopted into a savepoint of its own, which takes over what the first one held.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from rekindle.channels.admission import AdmissionSizer
from rekindle.errors import ControlError, DefinitionError, RestoreError, StorageError
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.progress.copies import copy_for_adoption
from rekindle.progress.plain import lines_of
from rekindle.runtime.definition import Definition
from rekindle.sources import Stream
from rekindle.spark.inputs.frames import build_input
from rekindle.spark.inputs.input import Input
from rekindle.spark.plain.directory import PlainDirectory
from rekindle.spark.plans.plan import build_task, is_mark, readers_of, shares_a_source
from rekindle.spark.streaming.batch_protocol import offset_of
from rekindle.storage import layout
from rekindle.storage.codec import encode
from rekindle.storage.copying import copy_between
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.folder import Folder
from rekindle.storage.job_documents import JobDocuments
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process
from rekindle.storage.local import LocalStore
from rekindle.storage.origin import Origin, find_origin
from rekindle.storage.run_documents import RunDocuments

_KIND = "adopted"
"""Kind of the savepoints that are made here."""

_NOT_BEGUN = SubtaskSnapshot(batch=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """The point at which an adopted task begins."""

    job: str
    task: str
    #: the id that the plain query had
    query_id: str | None
    #: last batch that it had committed
    batch: int
    #: its watermark, ms since the epoch; 0: it had none yet
    watermark_ms: int
    #: input uid → Spark's end offset
    positions: Mapping[str, Any]
    #: the batch in which it stopped: it is planned again; None: it stopped between two
    unfinished_batch: int | None
    #: the savepoint that the job starts from
    savepoint: str

    def to_json(self) -> dict[str, Any]:
        """Return what ``rekindle adopt --json`` prints."""
        return {
            "job": self.job,
            "task": self.task,
            "query_id": self.query_id,
            "batch": self.batch,
            "watermark_ms": self.watermark_ms,
            "positions": dict(self.positions),
            "unfinished_batch": self.unfinished_batch,
            "savepoint": self.savepoint,
        }


def check_adoptable(definition: Definition, uid: str) -> Task:
    """Return the task, if it is one that can continue a plain query.

    Raises:
        DefinitionError: ``ADOPT_TASK_UNKNOWN``, ``ADOPT_TASK_UNFIT``.
    """
    graph = definition.graph
    task = next((task for task in graph.tasks if task.uid == uid), None)
    if task is None:
        raise DefinitionError(
            "ADOPT_TASK_UNKNOWN", job=graph.name, task=uid, tasks=", ".join(t.uid for t in graph.tasks)
        )
    if task.parallelism != 1:
        raise DefinitionError("ADOPT_TASK_UNFIT", task=uid, reason="it has several subtasks")
    for name in task.inputs:
        source = definition.sources.get(name)
        if source is None or not isinstance(source.spec, Stream):
            what = "another task" if source is None else f"rk.{type(source.spec).__name__}"
            raise DefinitionError(
                "ADOPT_TASK_UNFIT", task=uid, reason=f"its input {name!r} is {what}, not an rk.Stream"
            )
    return task


def adopt(
    spark: SparkSession,
    definition: Definition,
    storage: RunDocuments,
    uid: str,
    checkpoint: str,
    clock: Callable[[], int],
) -> Adopted:
    """See `rekindle.job.Job.adopt`."""
    task = check_adoptable(definition, uid)
    newest, before = storage.latest_run(), _adopted_before(storage)
    directory = PlainDirectory(checkpoint)
    directory.refuse_running(spark)
    if directory.has_state_ids():
        reason = "its state has ids: spark.sql.streaming.stateStore.checkpointFormatVersion is 2"
        raise StorageError("PROGRESS_FORMAT_UNKNOWN", path=directory.path, reason=reason)
    with tempfile.TemporaryDirectory(prefix="rekindle-adopt-") as folder:
        inputs = _inputs(spark, JobStorage(LocalStore(folder), storage.job), definition, task)
        frame = build_task(task, definition.functions[uid], inputs)
        if shares_a_source(frame):
            raise DefinitionError("ADOPT_TASK_UNFIT", task=uid, reason="it reads one source twice")
        readers = [None if is_mark(reader, inputs) else reader for reader in readers_of(frame)]
    offsets = directory.offsets
    lines = lines_of(directory.path, offsets.names, offsets.sources, readers)
    directory.refuse_other_places(lines, readers)
    positions = {item.uid: _position(item, lines, offsets.sources) for item in inputs}
    path = f"{layout.SAVEPOINTS}/{storage.job}-adopted-{secrets.token_hex(4)}"
    into = layout.spark_progress_dir(layout.savepoint_subtask(path, uid, 0))
    batch = directory.standing.batch
    source, target = Folder(directory.store, directory.folder), Folder(storage.store, into)
    size = copy_for_adoption(source, target, batch, lines, directory.sources)
    directory.refuse_running(spark)
    snapshot = SubtaskSnapshot(
        batch=batch,
        inputs={name: InputPosition(offset=offset) for name, offset in positions.items()},
        watermark_ms=offsets.batch_watermark_ms,
    )
    tasks = {uid: {0: snapshot}}
    if before is not None:
        taken, copied = _take_over(storage, before, definition.graph, path, but=uid)
        tasks, size = taken | tasks, size + copied
    _seal(storage, definition.graph, tasks, path, size, clock())
    savepoint = f"{storage.store.location.rstrip('/')}/{path}"
    if not _claim(storage, newest.run + 1 if newest else 1, savepoint, uid, clock):
        storage.store.delete_tree(path)
        raise ControlError("ADOPT_OVERTAKEN", job=storage.job, storage=storage.store.location)
    if before is not None:
        before.store.delete_tree(before.folder)
    return Adopted(
        job=storage.job,
        task=uid,
        query_id=directory.query_id(),
        batch=batch,
        watermark_ms=offsets.batch_watermark_ms,
        positions=positions,
        unfinished_batch=directory.standing.unfinished,
        savepoint=savepoint,
    )


def _adopted_before(storage: RunDocuments) -> Origin | None:
    """Return the savepoint of an earlier adoption; None: the job is new.

    Raises:
        ControlError: ``ADOPT_JOB_HAS_RUN``, ``ADOPT_SAVEPOINT_GONE``.
    """
    run, place = storage.latest_run(), storage.store.location
    if storage.lineage() is not None:
        raise ControlError("ADOPT_JOB_HAS_RUN", job=storage.job, storage=place)
    if run is None or run.restore_from is None:
        return None
    try:
        origin = find_origin(run.restore_from)
    except RestoreError as error:
        raise ControlError("ADOPT_SAVEPOINT_GONE", job=storage.job, storage=place, path=run.restore_from) from error
    if origin.manifest.kind != _KIND:
        raise ControlError("ADOPT_JOB_HAS_RUN", job=storage.job, storage=place)
    return origin


def _inputs(spark: SparkSession, scratch: JobDocuments, definition: Definition, task: Task) -> list[Input]:
    """Build the task's inputs as a run has them, in a storage that is thrown away."""
    return [
        build_input(
            spark,
            scratch,
            "inputs",
            definition.sources[uid],
            None,
            logs=scratch.store,
            index=2 * number,
            position=InputPosition(),
            sizer=AdmissionSizer(1, 1),
            beside_idle=any(source.idle_after for source in definition.graph.sources_of(task)),
        )
        for number, uid in enumerate(task.inputs)
    ]


def _position(item: Input, lines: Sequence[int | None], ends: Sequence[str | None]) -> Any:
    """Return Spark's end offset of an input, as its batch records will hold it."""
    given = [ends[line] for source in item.spark_sources if (line := lines[source]) is not None]
    return offset_of(given)


def _take_over(
    storage: JobDocuments, before: Origin, graph: JobGraph, path: str, but: str
) -> tuple[dict[str, dict[int, SubtaskSnapshot]], int]:
    """Copy into the savepoint `path` what was adopted before; return that, and its bytes."""
    adopted = {
        task.uid: before.manifest.tasks[task.uid]
        for task in graph.tasks
        if task.uid != but and before.manifest.tasks.get(task.uid, {0: _NOT_BEGUN})[0].batch >= 0
    }
    size = 0
    for uid in adopted:
        folder = layout.savepoint_subtask(before.folder, uid, 0)
        for entry in before.store.walk(folder):
            target = layout.savepoint_subtask(path, uid, 0) + entry.path.removeprefix(folder)
            size += copy_between(before.store, entry.path, storage.store, target)
    return {uid: dict(subtasks) for uid, subtasks in adopted.items()}, size


def _seal(
    storage: JobDocuments,
    graph: JobGraph,
    tasks: Mapping[str, dict[int, SubtaskSnapshot]],
    path: str,
    size: int,
    now_ms: int,
) -> None:
    """Write the savepoint's manifest: from now on it is one."""
    begun = {task.uid: dict.fromkeys(range(task.parallelism), _NOT_BEGUN) for task in graph.tasks}
    manifest = Manifest(
        checkpoint=0,
        job=storage.job,
        kind=_KIND,
        run=0,
        lineage=0,
        triggered_ms=now_ms,
        completed_ms=now_ms,
        graph={task.uid: list(task.inputs) for task in graph.tasks},
        tasks=begun | dict(tasks),
        chains={vertex.uid: list(vertex.chain) for vertex in graph.topology.vertices},
        size_bytes=size,
        savepoint=True,
    )
    storage.store.replace(layout.manifest(path), encode(manifest))


def _claim(storage: RunDocuments, number: int, savepoint: str, task: str, clock: Callable[[], int]) -> bool:
    """Claim a run that starts from the savepoint, and end it before it has begun; False where another was quicker."""
    identity = Identity(job=storage.job, created_ms=clock(), id=secrets.token_hex(4))
    storage.adopt(layout.identity(storage.job), identity)
    run = Run(
        run=number,
        started_ms=clock(),
        lineage=number,
        restore_from=savepoint,
        token=secrets.token_hex(8),
        **this_process()._asdict(),
    )
    if not storage.fence.claim(run):
        return False
    notes = (f"{task} was adopted: it continues from {savepoint}",)
    ended = Result(run=number, state="STOPPED", ended_ms=clock(), notes=notes)
    storage.record_result(ended)
    return True
