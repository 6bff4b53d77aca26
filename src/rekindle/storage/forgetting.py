"""Deletion of a job, of which a driver may only be paused.

Such a driver may wake up after another job has begun under the same name, just before a write. That must fall into none
of the new job's lineages, and use none of its numbers. So the deletion takes the next number of a run, and the next of
a checkpoint, for itself, and leaves these documents: the next job begins after them, and the driver finds that it is
fenced.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from rekindle.errors import ControlError
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.liveness import is_alive, this_process

_NO_LINEAGE = 0
"""Lineage of the run by which a job was deleted."""


def forget_job(storage: CheckpointDocuments, now_ms: int) -> None:
    """Delete everything of a job that does not run, except what keeps a driver out that may wake up.

    The identity goes last: a job that is deleted half-way is listed, and can be deleted.

    Raises:
        ControlError: ``JOB_RUNNING``, it was started meanwhile.
        StorageError: the storage refuses.
    """
    number = _take_numbers(storage, now_ms) if any(_may_wake_up(storage)) else None
    store, folder = storage.store, layout.job(storage.job)
    kept = {layout.identity(storage.job)}
    if number is not None:
        kept |= {layout.runs(storage.job), layout.checkpoints(storage.job)}
        runs = {layout.run(storage.job, number), layout.result(storage.job, number)}
        paths = [f"{layout.runs(storage.job)}/{name}" for name in store.names(layout.runs(storage.job))]
        newest = storage.last_used()
        storage.forget_checkpoints([one for one in storage.numbers_used() if one != newest])
        store.delete_many([path for path in paths if path not in runs])
    for name in store.names(folder):
        if f"{folder}/{name}" not in kept:
            store.delete_tree(f"{folder}/{name}")
    if number is None:
        store.delete_tree(folder)
    else:
        store.delete(layout.identity(storage.job))


def _may_wake_up(storage: CheckpointDocuments) -> Iterator[Run]:
    """Yield the runs without a result whose process may be there, and those by which a job was deleted before."""
    numbers = storage.numbers(layout.runs(storage.job))
    for run in filter(None, map(storage.run, numbers)):
        if run.lineage == _NO_LINEAGE or (is_alive(run) is not False and storage.result(run.run) is None):
            yield run


def _take_numbers(storage: CheckpointDocuments, now_ms: int) -> int:
    """Take the next number of a run and of a checkpoint; return that of the run."""
    number = storage.fence.highest_number_left() + 1
    run = Run(
        run=number,
        started_ms=now_ms,
        lineage=_NO_LINEAGE,
        token=secrets.token_hex(8),
        boot_id=storage.store.boot_id,
        **this_process()._asdict(),
    )
    if not storage.fence.claim(run):
        raise ControlError("JOB_RUNNING", job=storage.job)
    while storage.use_up(storage.last_used() + 1, number) != number:
        pass  # a driver that was thought dead has completed one more
    note = "By this run a job of the same name was deleted. A driver of it had left no result, and may only be paused."
    storage.record_result(Result(run=number, state="CANCELED", ended_ms=now_ms, began=False, notes=(note,)))
    return number
