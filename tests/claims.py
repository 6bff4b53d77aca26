"""Claiming a run as a driver that nothing stands in the way of."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage


def claim(storage: JobStorage, make: Callable[[int], Run]) -> Run:
    """Claim the next run; `make` is given its number, and asked again where another process was quicker."""
    while True:
        newest = storage.latest_run()
        run = make(newest.run + 1 if newest else 1)
        if storage.fence.claim(run):
            return run
