"""The runs that this process drives: of several starts at once each counts, and none is remembered once it is over."""

from __future__ import annotations

from rekindle.runtime.driven import _DRIVEN_HERE, drive_here, drive_no_more, is_driven_here
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore


def test_a_run_is_driven_as_long_as_one_start_drives_it_and_is_forgotten_then() -> None:
    storage, others = JobStorage(MemoryStore(), "job"), len(_DRIVEN_HERE)
    drive_here(storage, 1)
    drive_here(storage, 1)  # two starts want the same run: one of them gets it
    drive_no_more(storage, 1)
    assert is_driven_here(storage, 1)
    assert not is_driven_here(storage, 2)
    drive_no_more(storage, 1)
    assert not is_driven_here(storage, 1)
    assert len(_DRIVEN_HERE) == others
