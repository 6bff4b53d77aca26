"""Orphans: attempts that earlier runs have staged in the sinks, and that no batch record names.

The driver that has staged an attempt may only be paused, and its batch record, if it is the first, is the one that
counts. So an attempt at a batch that is not recorded stays when a run begins. It is an orphan once the run has recorded
that batch itself, and is removed after the commit of the first checkpoint that covers the batch: a prepared transaction
of a database holds locks, and keeps the database from cleaning up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rekindle.errors import one_line
from rekindle.ids import SubtaskId
from rekindle.runtime.steps import Steps, step
from rekindle.sinks import SinkBatch, TwoPhaseSink
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage

_LOG = logging.getLogger(__name__)


class Orphans:
    """The attempts of earlier runs in the sinks of one run. The fence is checked before each removal."""

    def __init__(self, storage: JobStorage, run: Run, sinks: Mapping[str, TwoPhaseSink], steps: Steps) -> None:
        self._storage, self._run, self._sinks, self._steps = storage, run, sinks, steps
        #: sink uid → attempts that stay until their batch is decided
        self._undecided: dict[str, set[SinkBatch]] = {}

    def clean(
        self, subtasks: Iterable[SubtaskId], read_named: Callable[[], Mapping[str, list[dict[str, Any]]]]
    ) -> None:
        """Remove all that is certain to be an orphan when the run begins.

        Args:
            read_named: sink uid → committables that a batch record names, as `leftovers.prepared` reads them.
        """
        storage, run = self._storage, self._run
        # In this order: a batch record that a late driver writes in between is of a batch that stays, and is named.
        last = {
            task: max(storage.records(layout.subtask(storage.job, *task, run.lineage)), default=-1) for task in subtasks
        }
        named = read_named()
        for uid, sink in self._sinks.items():
            undecided = set[SinkBatch]()

            def may_remove(batch: SinkBatch, undecided: set[SinkBatch] = undecided) -> bool:
                recorded = batch.batch <= last.get(SubtaskId(batch.task, batch.subtask), -1)
                if batch.lineage == run.lineage and not recorded:
                    undecided.add(batch)
                decided = batch.lineage < run.lineage or (batch.lineage == run.lineage and recorded)
                return decided and self._is_in_force()

            with step(self._steps, "sink.clean"):
                sink.clean(named.get(uid, []), may_remove)
            self._undecided[uid] = undecided

    def committed(self, manifest: Manifest) -> None:
        """Remove what stayed of batches that a checkpoint covers, if that is of this run; it is committed.

        Raises nothing: where a sink refuses, it is asked again after the next commit.
        """
        if manifest.run != self._run.run:
            return  # this run has recorded nothing yet
        for uid, undecided in self._undecided.items():
            orphans = {one for one in undecided if _covers(manifest, one)}
            if not orphans:
                continue

            def may_remove(batch: SinkBatch, orphans: set[SinkBatch] = orphans) -> bool:
                return batch in orphans and self._is_in_force()

            try:
                with step(self._steps, "sink.clean"):
                    self._sinks[uid].clean([], may_remove)
            except (Exception, SystemExit) as error:
                _LOG.warning("What a killed run has staged in %s is not removed yet: %s", uid, one_line(error))
            else:
                undecided.difference_update(orphans)

    def _is_in_force(self) -> bool:
        return self._storage.fence.newer_than(self._run.run) is None


def _covers(manifest: Manifest, attempt: SinkBatch) -> bool:
    snapshot = manifest.tasks.get(attempt.task, {}).get(attempt.subtask)
    return snapshot is not None and attempt.batch <= snapshot.batch
