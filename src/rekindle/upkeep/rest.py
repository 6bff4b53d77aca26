"""A job at rest: nothing writes to it any more, and all that it has written is there.

A copy of a job knows nothing of the fence at the place that it comes from. So a driver that may only be paused is as
good as one that runs: it would wake up there, and commit to the same sinks as the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.errors import ControlError
from rekindle.storage import layout
from rekindle.storage.liveness import is_alive
from rekindle.storage.run_documents import RunDocuments, last_begun

_IN_ORDER = ("FINISHED", "DRAINED", "STOPPED")
"""States of a run that has nothing after its last checkpoint."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A job as it lies there."""

    #: number and token of the newest run; 0 for none
    run: tuple[int, str]
    #: path → bytes
    sizes: Mapping[str, int]


def at_rest(storage: RunDocuments) -> Rest:
    """Return what lies there of a job that is certain to be at rest.

    Raises:
        ControlError: ``JOB_UNKNOWN``, ``JOB_RUNNING``, ``COPY_NOT_AT_REST``.
        StorageError: it cannot be read.
    """
    store = storage.store
    if storage.identity() is None:
        raise ControlError("JOB_UNKNOWN", job=storage.job, storage=store.location)
    _refuse_driver(storage)
    _refuse_loss(storage)
    newest = newest_run(storage)
    sizes = {entry.path: entry.size_bytes for entry in store.walk(layout.job(storage.job))}
    return Rest(newest, sizes)


def newest_run(storage: RunDocuments) -> tuple[int, str]:
    """Return number and token of the newest run; 0 where there is none."""
    newest = storage.latest_run()
    return (newest.run, newest.token) if newest else (0, "")


def _refuse_driver(storage: RunDocuments) -> None:
    driver = storage.driver()
    alive = is_alive(driver) if driver is not None else False
    # In this order: a driver writes its result and then ends.
    if driver is None or storage.result(driver.run) is not None or alive is False:
        return
    if alive:
        raise ControlError("JOB_RUNNING", job=storage.job)
    reason = f"run {driver.run} was driven by process {driver.pid} on {driver.host}, and has recorded no result"
    raise ControlError("COPY_NOT_AT_REST", job=storage.job, storage=storage.store.location, reason=reason)


def _refuse_loss(storage: RunDocuments) -> None:
    """Refuse a job of which a loss of power may have taken a part: elsewhere nothing would show it."""
    run, result = last_begun(storage)
    if run is None or run.boot_id in ("", storage.store.boot_id) or (result and result.state in _IN_ORDER):
        return
    if storage.store.boot_id:
        reason = f"run {run.run} was cut off, or failed, on {run.host} before that was started again, or elsewhere"
        raise ControlError("COPY_NOT_AT_REST", job=storage.job, storage=storage.store.location, reason=reason)
