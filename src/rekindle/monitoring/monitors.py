"""Several storages that are watched at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from rekindle.errors import ControlError, RekindleError
from rekindle.monitoring import views
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.overviews import error_view
from rekindle.storage.open import open_store
from rekindle.storage.port import Store


class Monitors:
    """Several storages: where there is more than one, the id of a job is ``<storage>~<job>``.

    Args:
        opened: opens the places of savepoints.
    """

    def __init__(self, stores: list[Store], opened: Callable[[str], Store] = open_store) -> None:
        several = len(stores) > 1
        self.all = [Monitor(store, i, f"{i}~" if several else "", opened=opened) for i, store in enumerate(stores)]
        self._several = several

    def warm_up(self, patience_s: float) -> None:
        """Read all jobs once, so that the first answer need not wait for that.

        A storage that is slow holds no start up for longer than `patience_s`: it is read on beside the first answers.
        One that is away is left to them: they say so.
        """

        def read(monitor: Monitor) -> None:
            with suppress(RekindleError):
                monitor.overview()

        threads = [threading.Thread(target=read, args=(one,), name="warm-up", daemon=True) for one in self.all]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience_s / len(threads))

    def storages(self) -> list[views.StorageView]:
        """Return the storages, with how many jobs are in each, or why it cannot be read."""
        return [_storage(one) for one in self.all]

    def overview(self) -> list[views.JobOverview]:
        """Return the jobs of all storages that can be read.

        Raises:
            StorageError: none can be.
        """
        found = [_answered(one) for one in self.all]
        errors = [error for _, error in found if error is not None]  # the list of storages has them
        if len(errors) == len(self.all):
            raise errors[0]
        return [line for lines, _ in found for line in lines]

    def find(self, job_id: str) -> tuple[Monitor, str]:
        """Return the storage and the name of a job by its id; ``JOB_UNKNOWN`` where there is no such storage."""
        if not self._several:
            return self.all[0], job_id
        index, _, name = job_id.partition("~")
        for one in self.all:
            if index == str(one.index):
                return one, name
        raise ControlError("JOB_UNKNOWN", job=job_id, storage=", ".join(self._locations()))

    def _locations(self) -> Iterator[str]:
        return (one.store.location for one in self.all)


def _answered(one: Monitor) -> tuple[list[views.JobOverview], RekindleError | None]:
    """Return the jobs of a storage, or why it cannot be read."""
    try:
        return one.overview(), None
    except RekindleError as error:
        return [], error


def _storage(one: Monitor) -> views.StorageView:
    lines, error = _answered(one)
    return views.StorageView(
        index=one.index,
        location=one.store.location,
        jobs=len(lines) if error is None else None,
        error=error_view(error.to_json()) if error is not None else None,
    )
