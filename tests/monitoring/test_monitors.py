"""Several storages that are watched, and what is read of them before the first question."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rekindle.errors import StorageError
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.storage.local import LocalStore
from tests.ui.kit import Counting
from tests.ui.world import World


class Away(LocalStore):
    """A store that does not answer until it is there."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.is_there = threading.Event()
        self.asked = threading.Event()

    def names(self, path: str) -> list[str]:
        """Return the names, or refuse."""
        self.asked.set()
        self.is_there.wait()
        raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason="away")


def test_what_was_read_before_the_first_question_is_not_read_for_it(tmp_path: Path) -> None:
    World(str(tmp_path)).many(3)
    store = Counting(str(tmp_path))
    monitors = Monitors([store])
    monitors.all = [Monitor(store, elapsed_ms=lambda: 0)]

    monitors.warm_up(60)
    read = [*store.was_read]

    assert [line.state for line in monitors.overview()] == ["RUNNING"] * 3
    assert len([path for path in read if "/history/" in path]) >= 3
    assert store.was_read == read


def test_a_storage_that_is_away_holds_up_no_start_and_says_so_when_it_is_asked(tmp_path: Path) -> None:
    World(str(tmp_path / "well")).many(1)
    away, well = Away(str(tmp_path)), LocalStore(str(tmp_path / "well"))
    monitors = Monitors([away, well])
    others = {*threading.enumerate()}

    monitors.warm_up(0)

    reading = {*threading.enumerate()} - others
    assert away.asked.wait(60) and reading, "it is read on beside what follows"
    assert [line.job for line in monitors.all[1].overview()] == ["job-000"]
    away.is_there.set()
    for thread in reading:
        thread.join(60)
    with pytest.raises(StorageError, match="away"):
        monitors.overview()
