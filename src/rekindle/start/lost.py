"""The start of a job after a loss of power, which may have damaged its lineage.

All files that a manifest names were on the disk before the manifest (`rekindle.storage.forcing`). Files written after
the newest manifest may be missing, or torn: batch records, Spark's plans and state, the segments of channels, rows that
sinks have staged. So none of them is read. The start opens a new lineage from the newest checkpoint of the old one,
like a restore. Nothing in the old lineage is repaired or removed: a driver on another machine, which only seems to be
dead, is fenced like any other.

The sign of a loss is a run from before the last boot of the machine (`Store.boot_id`) that did not end in order. The
death of a process alone loses nothing: the system still has all that it has written. A run on another machine counts,
too: that machine may have lost what it had not forced to the disk. A run that was stopped counts as in order: its last
checkpoint was taken when its queries were at rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from rekindle.start.resolve import ENDED, Fresh, Restore
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Run
from rekindle.storage.run_documents import RunDocuments

_IN_ORDER = (*ENDED, "STOPPED")


@dataclass(frozen=True, slots=True)
class Loss:
    """The reason not to resume a lineage: data after its last checkpoint may be lost."""

    #: the newest run that a loss of power may have ended; None: another run was about to open a lineage
    cut_off: Run | None
    #: the decision of the start instead
    beginning: Fresh | Restore

    def __str__(self) -> str:
        begins = self.beginning.path if isinstance(self.beginning, Restore) else "the beginning"
        if self.cut_off is None:
            return f"A run was cut off before it had begun; the job continues from {begins}"
        return (
            f"Run {self.cut_off.run} was cut off on {self.cut_off.host}, which has been started again since, or is "
            f"another machine. What it did after its last checkpoint may not be on the disk, so the job continues from "
            f"{begins}"
        )


def find_loss(
    storage: CheckpointDocuments, lineage: Lineage, checkpoint_path: Callable[[int], str], before: int | None = None
) -> Loss | None:
    """Look for a reason not to resume a lineage.

    Args:
        lineage: the lineage in force.
        checkpoint_path: number of a checkpoint → its absolute path.
        before: the run that this start has claimed; None: none yet.
    """
    runs = partial(_runs, storage, lineage, before)
    cut_off = (
        next((run for run in runs() if _is_cut_off(storage, lineage, run)), None) if storage.store.boot_id else None
    )
    if cut_off is None and not _may_open_another(storage, lineage, runs()):
        return None
    beginning = _beginning(storage, lineage, checkpoint_path)
    return Loss(cut_off, beginning) if beginning is not None else None


def _runs(storage: RunDocuments, lineage: Lineage, before: int | None) -> Iterator[Run]:
    """Return the runs since the lineage was opened, the newest first."""
    found = storage.newest_first(layout.runs(storage.job), storage.run)
    since = takewhile(lambda run: run.run >= lineage.run, found)
    return (run for run in since if before is None or run.run < before)


def _is_cut_off(storage: RunDocuments, lineage: Lineage, run: Run) -> bool:
    """Return True if a loss of power may have ended a run of the lineage."""
    if run.lineage != lineage.lineage or run.boot_id in ("", storage.store.boot_id):
        return False
    return not _is_over(storage, run)


def _may_open_another(storage: RunDocuments, lineage: Lineage, runs: Iterator[Run]) -> bool:
    """Return True if a run that was to open a new lineage has no result, and so may still open it.

    That lineage would then be in force. Runs before one that has resumed this lineage do not count.
    """
    since = takewhile(lambda run: run.lineage > lineage.lineage, runs)
    return any(storage.result(run.run) is None for run in since)


def _is_over(storage: RunDocuments, run: Run) -> bool:
    """Return True if the run ended in order: it has done nothing, or nothing after its last checkpoint."""
    result = storage.result(run.run)
    return result is not None and (not result.began or result.state in _IN_ORDER)


def _beginning(
    storage: CheckpointDocuments, lineage: Lineage, checkpoint_path: Callable[[int], str]
) -> Fresh | Restore | None:
    """Return the decision of the start; None if nothing is lost: a batch run takes its checkpoint at its end."""
    newest = storage.latest_manifest(lineage.lineage)
    if newest is not None:
        return None if lineage.mode == "batch" else Restore(checkpoint_path(newest.checkpoint), repeated=True)
    if lineage.restored_from is None:
        return Fresh()
    # The lineage has no checkpoint of its own yet, so it is opened again.
    opened = storage.run(lineage.run)
    return Restore(
        lineage.restored_from,
        undo_drain=opened is not None and opened.undo_drain,
        rewind_sinks=opened is not None and opened.rewind_sinks,
        claim=lineage.claimed,
        repeated=True,
    )
