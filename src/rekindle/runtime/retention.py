"""The deletion of data that no retained checkpoint needs: old checkpoints, old batches of tasks, old lineages.

It runs on a thread of its own, so that no commit waits for a slow bucket. That is safe beside everything else: the list
of retained checkpoints is read when it begins, the newest of them stays, and newer checkpoints need only data after
that one. The protocol pins a checkpoint that is copied into a savepoint. Of several orders the last counts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rekindle.channels.outputs import all_readings
from rekindle.errors import ControlError, StorageError
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.runtime.ports import TaskRunner
from rekindle.runtime.worker import Worker
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.disposal import dispose_claimed
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Run
from rekindle.storage.numbered import names_before, number_of

RUNS = 200
"""The number of runs that are kept: a job that is started very often must not fill its storage, or slow its starts."""

_UNREADABLE = ("OBJECT_CORRUPT", "FORMAT_NEWER")

_LOG = logging.getLogger(__name__)


class _Needs(NamedTuple):
    """The data that a retained checkpoint needs."""

    lineage: int
    run: int
    #: subtask → its last batch
    batches: Mapping[SubtaskId, int]
    #: subtask → how many of its batches the slowest of its readers has read; only of subtasks that are still read
    read: Mapping[SubtaskId, int]
    #: tasks that never run again, and need no state
    over: frozenset[str]

    @classmethod
    def of(cls, manifest: Manifest) -> _Needs:
        """Find it in a manifest."""
        read = dict[SubtaskId, int]()
        for producer, reading in all_readings(manifest):
            read[producer] = min(reading.position.batches, read.get(producer, reading.position.batches))
        return cls(
            lineage=manifest.lineage,
            run=manifest.run,
            batches={task: snapshot.batch for task, snapshot in snapshots_of(manifest).items()},
            read=read,
            over=frozenset(uid for uid in manifest.tasks if manifest.needs_no_state(uid)),
        )


class Retention:
    """The deletions of one run; each checks the fence first (`SteppedStore`).

    Args:
        runs: the number of runs that are kept.
    """

    def __init__(
        self, storage: CheckpointDocuments, run: Run, runners: Mapping[SubtaskId, TaskRunner], runs: int = RUNS
    ) -> None:
        self._storage = storage
        self._run = run
        self._runners = runners
        self._runs = runs
        self._worker = Worker("retention")
        self._last: c.DiscardOlder | None = None
        #: checkpoint that is retained → what it needs
        self._known: dict[int, _Needs] = {}
        #: True if folders of older lineages may be left
        self._older_lineages = True
        #: True if runs may be left that need not be kept
        self._older_runs = True
        #: True if a savepoint may be left that the job has claimed
        self._may_own = True

    def order(self, command: c.DiscardOlder) -> None:
        """Queue the deletions; return at once."""
        self._last = command
        self._worker.submit(lambda: self._carry_out(command))

    def close(self, wait_s: float) -> None:
        """End after the ordered deletions; wait at most `wait_s` seconds. The next start does the rest."""
        self._worker.close(wait_s)

    def _carry_out(self, command: c.DiscardOlder) -> None:
        if command is not self._last:
            return  # a later order states all that is kept
        try:
            self.discard_older(command)
        except Exception as error:
            if isinstance(error, ControlError) and error.code == "DRIVER_FENCED":
                return  # the driver finds that at its next look
            # Nothing depends on it, and the next checkpoint tries again; but the log has to report it.
            _LOG.warning("Old checkpoints could not be deleted: %s", error)

    def discard_older(self, order: c.DiscardOlder) -> None:
        """Delete checkpoints beyond the retained ones, and data that only they needed."""
        kept = self._forget_checkpoints(order)
        ours = [needs for needs in kept if needs.lineage == self._run.lineage]
        for task, runner in self._runners.items():
            batches = [needs.batches[task] for needs in ours if task in needs.batches]
            read = [needs.read[task] for needs in ours if task in needs.read]
            if batches:
                over = all(task.task in needs.over for needs in ours if task in needs.batches)
                # One output more is kept than is still to be read: it has the event time of the rows read.
                runner.purge(min(batches), min(read, default=min(batches)) - 1, over=over)
        if self._older_lineages:
            needed = {needs.lineage for needs in kept} | {self._run.lineage}
            self._older_lineages = forget_lineages(self._storage, self._run.lineage, needed)
        self._forget_runs(kept)
        self._dispose_claimed(len(ours), order.keep)  # the last: its place may be away, for good too

    def _dispose_claimed(self, ours: int, keep: int) -> None:
        """Delete the savepoint that the job has claimed, once it has as many checkpoints of its own as it retains.

        It is deleted only if it is still the claimed one: another may be at its path by now.
        """
        if not self._may_own or ours < keep:
            return
        for lineage in self._storage.lineages():
            if lineage.claimed and lineage.restored_from is not None:
                self._storage.fence.check(self._run.run)
                dispose_claimed(lineage.restored_from, lineage.restored_checkpoint, lineage.restored_ms)
        self._may_own = False

    def _forget_runs(self, kept: list[_Needs]) -> None:
        """Delete the documents of old runs, once a checkpoint of this run is complete.

        From then on only the newest runs are needed, those of the checkpoints that stay, and those that have opened a
        lineage: data written before that checkpoint is on the disk (`rekindle.start.lost`), and a driver that only
        seems to be dead finds the numbers of its checkpoints used.
        """
        if not self._older_runs or all(needs.run != self._run.run for needs in kept):
            return
        # A lineage has the number of the run that has opened it.
        opened = {self._run.lineage, *(needs.lineage for needs in kept)}
        self._storage.fence.forget(self._runs, {*opened, *(needs.run for needs in kept)})
        self._older_runs = False

    def _forget_checkpoints(self, order: c.DiscardOlder) -> list[_Needs]:
        """Delete checkpoints that are older than the retained ones, and not pinned; return what those that stay need.

        Raises:
            StorageError: one that stays cannot be read. The data that it needs is not known, so all data stays.
        """
        numbers = self._storage.numbers_used()
        found: dict[int, _Needs | StorageError] = {}
        newest: list[int] = []
        for number in reversed(numbers):
            if len(newest) < order.keep or number in order.pinned:
                needs = self._needs(number)
                if needs is not None:
                    found[number] = needs
                    newest += [number] if len(newest) < order.keep else []
        oldest = min(newest, default=0)
        self._storage.forget_checkpoints([number for number in numbers if number < oldest and number not in found])
        self._known = {number: needs for number, needs in found.items() if isinstance(needs, _Needs)}
        for needs in found.values():
            if isinstance(needs, StorageError):
                raise needs
        return [*self._known.values()]

    def _needs(self, number: int) -> _Needs | StorageError | None:
        """Return what a checkpoint needs; a manifest never changes, so it is read once."""
        if number in self._known:
            return self._known[number]
        try:
            manifest = self._storage.manifest(number)
        except StorageError as error:
            if error.code not in _UNREADABLE:
                raise
            return error
        return _Needs.of(manifest) if manifest is not None else None


def subtask_folders(storage: CheckpointDocuments) -> Iterator[str]:
    """Yield the folder of each subtask, also of tasks that the job no longer has; in each are lineages."""
    store, above = storage.store, layout.tasks(storage.job)
    for task in [f"{above}/{uid}" for uid in store.names(above)]:
        yield from (f"{task}/{part}" for part in store.names(task))


def forget_lineages(storage: CheckpointDocuments, before: int, needed: Collection[int]) -> bool:
    """Delete the folders of lineages before this one that are not needed; return True if others before it are left."""
    left = False
    for folder in subtask_folders(storage):
        older = names_before(storage.store, folder, before)
        doomed = [name for name in older if number_of(name) not in needed]
        storage.store.delete_trees(folder, doomed)
        left |= len(doomed) < len(older)
    return left
