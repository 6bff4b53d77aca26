"""What a start makes of a lineage that power may have been lost under.

All that a manifest names was on the disk before the manifest was (`rekindle.storage.forcing`). What came after the
newest one may be gone in any part, or torn: batch records, Spark's plans and state, the segments of channels, rows that
sinks have staged. So none of it is looked at. The start begins in a new lineage, where the newest checkpoint of the old
one stands, as a restore from it does. Nothing in the old lineage is mended or removed: a driver on another machine,
which only seems to be dead, finds itself fenced off like any other.

The sign is a run that another start of the machine has seen (`Store.boot_id`), and that did not end in order. The death
of a process alone loses nothing: what it has written the system still has. A run on another machine counts too, since
what that had not forced may be gone with it. A run that was stopped counts as in order: its last checkpoint was taken
when its queries were at rest.
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
    """A lineage is not resumed: what came after its last checkpoint is not trusted."""

    #: the newest run that power may have been lost under; None: another was about to open a lineage
    cut_off: Run | None
    #: how a start begins instead
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
        lineage: the one in force.
        checkpoint_path: the absolute path of a checkpoint.
        before: the run of the start that asks, once it has claimed one.
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
    """The runs since the lineage was opened, the newest first."""
    found = storage.newest_first(layout.runs(storage.job), storage.run)
    since = takewhile(lambda run: run.run >= lineage.run, found)
    return (run for run in since if before is None or run.run < before)


def _is_cut_off(storage: RunDocuments, lineage: Lineage, run: Run) -> bool:
    """Return True if power may have been lost under a run of the lineage, which did not end in order."""
    if run.lineage != lineage.lineage or run.boot_id in ("", storage.store.boot_id):
        return False
    return not _is_over(storage, run)


def _may_open_another(storage: RunDocuments, lineage: Lineage, runs: Iterator[Run]) -> bool:
    """Return True if a run has claimed to open a lineage, and may still do it: that one is then in force, and a driver
    that has resumed this one is not. Where a run has resumed this one, none before it may.
    """
    since = takewhile(lambda run: run.lineage > lineage.lineage, runs)
    return any(storage.result(run.run) is None for run in since)


def _is_over(storage: RunDocuments, run: Run) -> bool:
    """Return True if the run has done nothing, or nothing after its last checkpoint."""
    result = storage.result(run.run)
    return result is not None and (not result.began or result.state in _IN_ORDER)


def _beginning(
    storage: CheckpointDocuments, lineage: Lineage, checkpoint_path: Callable[[int], str]
) -> Fresh | Restore | None:
    """Return how a start begins; None where all is whole: a batch run takes its checkpoint when all is done."""
    newest = storage.latest_manifest(lineage.lineage)
    if newest is not None:
        return None if lineage.mode == "batch" else Restore(checkpoint_path(newest.checkpoint), repeated=True)
    if lineage.restored_from is None:
        return Fresh()
    # It has no checkpoint of its own yet, so it is opened again.
    opened = storage.run(lineage.run)
    return Restore(
        lineage.restored_from,
        undo_drain=opened is not None and opened.undo_drain,
        rewind_sinks=opened is not None and opened.rewind_sinks,
        claim=lineage.claimed,
        repeated=True,
    )
