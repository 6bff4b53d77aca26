"""A second look at a driver on another machine, whose process cannot be seen: does its heartbeat move?"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from rekindle.storage.bell import ring
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import RUNNING, Status
from rekindle.storage.liveness import has_moved, is_alive, silence_ms
from rekindle.storage.run_documents import RunDocuments

_LOOK_S = 0.5

_AT_ONCE = 32
"""Drivers that are waited for at the same time."""


def gives_a_sign(storage: RunDocuments, driver: Run | Status) -> bool:
    """Ask a driver for a sign of life; return False if none came within the longest time that it may be silent.

    That time is the sum of the pauses between the looks. A look that takes long counts for nothing: where the storage
    hangs, or this process is paused, the driver may not have been able to write, either.

    Args:
        driver: its latest sign of life so far.
    """
    # A driver at rest beats rarely, but at once when the bell is rung.
    ring(storage.store, storage.job, f"alive? {secrets.token_hex(8)}")
    pause_s = _LOOK_S * storage.store.pace
    for _ in range(math.ceil(silence_ms(storage.store) / 1000 / pause_s)):
        if has_moved(storage.driver(), driver):
            return True
        time.sleep(pause_s)
    return has_moved(storage.driver(), driver)


def state_for_certain(storage: RunDocuments) -> str:
    """Return `RunDocuments.state`, for what may be done only to a job that does not run, or only to one that does.

    A driver on another machine is not taken for alive because it was: it is asked, and waited for.
    """
    driver = storage.driver()
    state = storage.state()
    if state != RUNNING or driver is None or is_alive(driver) or gives_a_sign(storage, driver):
        return state
    return storage.state(driver)


def silent_drivers(storages: Iterable[RunDocuments]) -> dict[str, Run | Status]:
    """Ask the drivers on other machines for a sign of life; return those that gave none, by their jobs.

    Each is what `RunDocuments.state` takes as `earlier`.
    """

    def silent(storage: RunDocuments) -> Run | Status | None:
        driver = storage.driver()
        if driver is None or is_alive(driver) is not None or storage.result(driver.run) is not None:
            return None
        return None if gives_a_sign(storage, driver) else driver

    storages = list(storages)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = zip(storages, pool.map(silent, storages), strict=True)
        return {storage.job: driver for storage, driver in found if driver is not None}
