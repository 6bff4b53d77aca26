"""The work of a checkpoint: gather snapshots, write the manifest, commit, seal.

The protocol decides which batches' transactions a manifest names. The transactions are read from the batch records,
which are the only valid source.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from rekindle.channels.outputs import copy_outputs, with_bytes_in_flight, with_read
from rekindle.channels.splits import Splits
from rekindle.errors import ControlError, RekindleError, SinkError, StorageError, one_line
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.commit import CommitPermit
from rekindle.runtime.definition import RunContext
from rekindle.runtime.operator_states import Custom, operator_states
from rekindle.runtime.orphans import Orphans
from rekindle.runtime.ports import TaskRunner, streams_of
from rekindle.runtime.steps import SteppedStore, allow, step
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.checkpoint import Committed, Manifest, SubtaskSnapshot, Transaction
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.port import Store
from rekindle.storage.savepoint import copy_sources, deleted_if_it_fails


class Checkpointing:
    """The checkpoints of one run.

    Args:
        splits: task → bounded source → the assignment of its files to subtasks.
        custom: task → custom source → its splits.
        finished: subtask that had finished before this run → the snapshot that says so.
    """

    def __init__(
        self,
        run: RunContext,
        runners: Mapping[SubtaskId, TaskRunner],
        *,
        splits: Mapping[str, Mapping[str, Splits]],
        custom: Custom,
        finished: Mapping[SubtaskId, SubtaskSnapshot],
        orphans: Orphans,
    ) -> None:
        self._storage = run.storage
        self._run = run.run
        self._graph = run.graph
        self._runners = runners
        self._streams = streams_of(runners)
        self._sinks = run.definition.sinks
        self._splits, self._custom = splits, custom
        self._finished = dict(finished)
        self._orphans = orphans
        self._steps = run.steps
        self._clock = run.clock
        #: orders for snapshots that are not taken yet
        self._ordered: list[c.TakeSnapshot] = []
        #: checkpoint → subtask → snapshot, until the manifest is written
        self._gathered: dict[int, dict[SubtaskId, SubtaskSnapshot]] = {}
        #: checkpoint number; every number up to it is used
        self._used_upto = run.storage.last_used()
        #: the newest manifest if this run has written it; None: the storage is asked
        self._newest: Manifest | None = None

    def order(self, order: c.TakeSnapshot) -> None:
        """Note a snapshot that `snapshots` is to take."""
        self._ordered.append(order)

    def snapshots(self) -> Iterator[e.SnapshotTaken | e.SnapshotDeclined]:
        """Take the ordered snapshots whose batch Spark has committed by now; Spark soon commits a recorded batch."""
        ordered, self._ordered = self._ordered, []
        for order in ordered:
            task, number = order.task, order.checkpoint
            try:
                snapshot = self._runners[task].snapshot(order.batch)
            except RekindleError as error:
                yield e.SnapshotDeclined(task=task, checkpoint=number, detail=str(error))
                continue
            if snapshot is None:
                self._ordered.append(order)
                continue
            in_flight: dict[str, dict[int, tuple[int, int]]] = {}
            for producer, places in order.in_flight.items():
                in_flight.setdefault(producer.task, {})[producer.subtask] = places
            snapshot = replace(with_read(snapshot, order.read), in_flight=in_flight)
            self._gathered.setdefault(number, {})[task] = snapshot
            unions = any(splits.uses_union for splits in self._custom.get(task.task, {}).values())
            yield e.SnapshotTaken(task=task, checkpoint=number, batch=order.batch, uses_union=unions)

    def abort(self, checkpoint: int) -> None:
        """Forget the orders and snapshots of a checkpoint."""
        self._ordered = [order for order in self._ordered if order.checkpoint != checkpoint]
        self._gathered.pop(checkpoint, None)

    def complete(self, order: c.WriteManifest) -> Manifest:
        """Create the manifest: the commit point."""
        gathered = self._gathered.pop(order.checkpoint)
        snapshots = {**{task: self._finished[task] for task in order.finished}, **gathered}
        ended = {task for task, snapshot in snapshots.items() if snapshot.end is not None}
        transactions = self._transactions(order.transactions)
        identity = self._storage.identity()
        manifest = Manifest(
            checkpoint=order.checkpoint,
            job=self._storage.job,
            kind=order.kind.value,
            run=self._run.run,
            lineage=self._run.lineage,
            triggered_ms=order.triggered_ms,
            completed_ms=self._clock(),
            graph={task.uid: list(task.inputs) for task in self._graph.tasks},
            chains={vertex.uid: list(vertex.chain) for vertex in self._graph.topology.vertices},
            tasks=_nested(snapshots),
            unread={
                uid: {source: splits.unread(_files_read(snapshots, uid, source)) for source, splits in sources.items()}
                for uid, sources in self._splits.items()
                if sources
            },
            operator_state=operator_states(self._custom, snapshots),
            source_kinds={source.uid: source.kind for source in self._graph.sources if source.kind},
            bounded_sources=tuple(source.uid for source in self._graph.sources if source.bounded),
            finished_tasks=tuple(
                task.uid
                for task in self._graph.tasks
                if all(SubtaskId(task.uid, index) in ended for index in range(task.parallelism))
            ),
            transactions=transactions,
            drained=any(snapshot.end is not None and snapshot.end.drained for snapshot in snapshots.values()),
            job_id=identity.id if identity else "",
            last_commits={**self._earlier_commits(), **dict.fromkeys(transactions, order.checkpoint)},
            mode=self._run.mode,
        )
        record, folder = self._storage.record, partial(layout.subtask, self._storage.job)
        manifest = with_bytes_in_flight(manifest, lambda task: partial(record, folder(*task, self._run.lineage)))
        # Without a gap: a number that a newer run has used since is found, and its checkpoint is not overtaken.
        taken = any(
            self._storage.use_up(number, self._run.run) != self._run.run
            for number in range(self._used_upto + 1, order.checkpoint)
        )
        self._newest = None  # an answer that is lost leaves open which one is the newest
        if taken or not self._create(manifest):
            raise ControlError(
                "CHECKPOINT_FAILED", checkpoint=order.checkpoint, job=self._storage.job, reason="its number is taken"
            )
        self._used_upto, self._newest = order.checkpoint, manifest
        self._finished.update({task: snapshot for task, snapshot in gathered.items() if task in ended})
        return manifest

    def _create(self, manifest: Manifest) -> bool:
        """Create a manifest; return False if its number is used. A write whose answer was lost is recognised."""
        path = layout.manifest(layout.checkpoint(self._storage.job, manifest.checkpoint))
        try:
            return self._storage.create(path, manifest) or self._is_there(manifest)
        except StorageError:
            if not self._is_there(manifest):
                raise
            # The manifest is there, but may not be forced to the disk yet.
            self._storage.create(path, manifest)
            return True

    def _is_there(self, manifest: Manifest) -> bool:
        return self._storage.manifest(manifest.checkpoint) == manifest

    def _earlier_commits(self) -> Mapping[str, int]:
        """Return what the newest manifest says; where a newer run has written one since, `complete` fails."""
        try:
            newest = self._newest or self._storage.newest_manifest()
        except StorageError as error:
            if error.code != "OBJECT_CORRUPT":
                raise
            # The job was started from a checkpoint before a damaged one: every sink may have committed with that.
            return dict.fromkeys(self._sinks, self._storage.checkpoints()[0])
        return newest.last_commits if newest else {}

    def _transactions(self, batches: Mapping[SubtaskId, tuple[int, int]]) -> dict[str, list[Transaction]]:
        transactions: dict[str, list[Transaction]] = {}
        for task, (first, last) in batches.items():
            folder = layout.subtask(self._storage.job, task.task, task.subtask, self._run.lineage)
            for batch in range(first, last + 1):
                record = self._storage.record(folder, batch)
                for uid, committables in (record.committables if record else {}).items():
                    if committables:
                        transactions.setdefault(uid, []).append(
                            Transaction(task=task.task, subtask=task.subtask, batch=batch, committables=committables)
                        )
        return transactions

    def commit(self, permit: CommitPermit) -> dict[str, int]:
        """Commit exactly the transactions that the manifest in the storage names; return the time of each sink, ms."""
        manifest = self._storage.manifest(permit.checkpoint)
        if manifest is None:
            raise ControlError(
                "CHECKPOINT_FAILED",
                checkpoint=permit.checkpoint,
                job=self._storage.job,
                reason="its manifest is gone",
            )
        took_ms: dict[str, int] = {}
        for uid, transactions in manifest.transactions.items():
            begun_s = time.monotonic()
            committables = [one for transaction in transactions for one in transaction.committables]
            try:
                with step(self._steps, "sink.commit"):
                    self._sinks[uid].commit(committables, permit)
            except RekindleError:
                raise
            except (Exception, SystemExit) as error:
                raise SinkError(
                    "SINK_COMMIT_FAILED",
                    sink=uid,
                    checkpoint=permit.checkpoint,
                    reason=one_line(error),
                ) from error
            took_ms[uid] = round((time.monotonic() - begun_s) * 1_000)
        done = Committed(checkpoint=permit.checkpoint, run=self._run.run, committed_ms=self._clock())
        self._storage.create(layout.committed(layout.checkpoint(self._storage.job, permit.checkpoint)), done)
        self._orphans.committed(manifest)
        return took_ms

    def seal(self, checkpoint: int, directory: str, look: Callable[[], None] = allow) -> tuple[str, int]:
        """Copy a checkpoint into a new folder below `directory`; return its absolute path, and its size in bytes.

        The job continues meanwhile; the checkpoint is pinned (`DiscardOlder`).

        Args:
            look: called before each copy; raises if the savepoint is not wanted any more.
        """
        manifest = self._storage.manifest(checkpoint)
        if manifest is None:
            raise ControlError("SAVEPOINT_FAILED", path=directory, reason=f"checkpoint {checkpoint} is gone")
        store = SteppedStore(open_store(directory), self._steps)
        store.look = look

        def copy(task: SubtaskId, snapshot: SubtaskSnapshot, target: str) -> int:
            runner = self._streams.get(task)
            return runner.copy(snapshot, store, target) if runner is not None else 0

        return write_savepoint(self._storage, manifest, store, copy, look)


def write_savepoint(
    storage: BatchDocuments,
    manifest: Manifest,
    store: Store,
    copy: Callable[[SubtaskId, SubtaskSnapshot, str], int],
    look: Callable[[], None],
) -> tuple[str, int]:
    """Copy a committed checkpoint into a new folder of `store`; return its absolute path, and its size in bytes.

    Args:
        copy: copies what a subtask's query needs into a folder; returns bytes. Not called for tasks that are over.
        look: called before the manifest, which is written last; raises if there must not be one.
    """
    into = f"{storage.job}-{manifest.checkpoint:09d}-{secrets.token_hex(3)}"
    with deleted_if_it_fails(store, into):
        size = copy_sources(storage, manifest, store, into)
        for task, snapshot in snapshots_of(manifest).items():
            target = layout.savepoint_subtask(into, task.task, task.subtask)
            if not manifest.needs_no_state(task.task):
                size += copy(task, snapshot, target)
            folder = layout.subtask(storage.job, task.task, task.subtask, manifest.lineage)
            size += copy_outputs(storage.store, folder, store, target, manifest, task)
        sealed = replace(manifest, savepoint=True, transactions={}, size_bytes=size)
        look()
        JobStorage(store, storage.job).create(layout.manifest(into), sealed)
    return f"{store.location.rstrip('/')}/{into}", size


def snapshots_of(manifest: Manifest) -> dict[SubtaskId, SubtaskSnapshot]:
    """Return subtask → snapshot of a manifest."""
    return {
        SubtaskId(uid, index): snapshot
        for uid, subtasks in manifest.tasks.items()
        for index, snapshot in subtasks.items()
    }


def _nested(snapshots: Mapping[SubtaskId, SubtaskSnapshot]) -> dict[str, dict[int, SubtaskSnapshot]]:
    nested: dict[str, dict[int, SubtaskSnapshot]] = {}
    for task, snapshot in sorted(snapshots.items()):
        nested.setdefault(task.task, {})[task.subtask] = snapshot
    return nested


def _files_read(snapshots: Mapping[SubtaskId, SubtaskSnapshot], task: str, source: str) -> dict[int, int]:
    """Return subtask → number of files that it has read, of those assigned to it."""
    return {
        subtask.subtask: snapshot.inputs[source].files
        for subtask, snapshot in snapshots.items()
        if subtask.task == task and source in snapshot.inputs
    }
