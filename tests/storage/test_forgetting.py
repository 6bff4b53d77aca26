"""A job that is deleted while a driver of it may only be paused, and the next one of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import ControlError
from rekindle.runtime.pauses import Pauses
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.forgetting import forget_job
from rekindle.storage.job_storage import JobStorage, jobs
from rekindle.testing.memory_store import MemoryStore
from tests.runtime.kit import JOB, World

ELSEWHERE = {"host": "elsewhere", "pid": 1, "lineage": 1, "started_ms": 0}


class CutShort(Exception):
    """The deletion was killed."""


class Fragile(MemoryStore):
    """A storage in which a deletion is cut short after so many steps."""

    steps = 1_000

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise CutShort

    def delete_tree(self, folder: str) -> None:
        self._step()
        super().delete_tree(folder)

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)


def manifest(number: int) -> Manifest:
    return Manifest(
        checkpoint=number,
        job=JOB,
        kind="periodic",
        run=2,
        lineage=1,
        triggered_ms=0,
        completed_ms=0,
        graph={},
        tasks={},
    )


@pytest.fixture
def job() -> JobStorage:
    """A job whose first run has left no result, on another machine; the second was stopped after checkpoint 7."""
    storage = JobStorage(Fragile(), JOB)
    storage.create(layout.identity(JOB), Identity(job=JOB, created_ms=0, id="one"))
    for number in (1, 2):
        storage.fence.claim(Run(run=number, **ELSEWHERE))  # type: ignore[arg-type]
    storage.record_result(Result(run=2, state="STOPPED", ended_ms=0))
    storage.create(layout.batch(layout.subtask(JOB, "t", 0, 1), 0), BatchRecord(batch=0, offsets_hash="", run=2))
    for number in (6, 7):
        storage.create(layout.manifest(layout.checkpoint(JOB, number)), manifest(number))
    return storage


def test_what_is_left_keeps_a_paused_driver_out_of_the_next_job(job: JobStorage) -> None:
    forget_job(job, 5)

    assert jobs(job.store) == []
    left = sorted(entry.path for entry in job.store.walk(""))
    assert left == [layout.manifest(layout.checkpoint(JOB, 8)), layout.run(JOB, 3), layout.result(JOB, 3)]
    # It wakes up just before a write: its batch falls into no lineage of the next job, its checkpoint fails.
    with pytest.raises(ControlError, match="run 3 has taken over"):
        job.fence.check(1)
    assert not job.create(layout.manifest(layout.checkpoint(JOB, 8)), manifest(8))
    assert (job.fence.highest_number_left(), job.numbers_used()) == (3, [8])


@pytest.mark.parametrize("steps", range(5))
def test_a_deletion_that_is_killed_is_completed_by_the_next_one(job: JobStorage, steps: int) -> None:
    assert isinstance(job.store, Fragile)
    job.store.steps = steps
    try:
        forget_job(job, 5)
    except CutShort:
        assert jobs(job.store) == [JOB]
        job.store.steps = 1_000
        forget_job(job, 6)
    assert jobs(job.store) == []
    assert job.fence.highest_number_left() >= 3
    assert len(job.numbers_used()) == 1 and job.numbers_used()[0] >= 8


def test_a_job_of_which_no_driver_can_be_paused_is_gone_without_a_trace(job: JobStorage) -> None:
    job.record_result(Result(run=1, state="FAILED", ended_ms=0))
    forget_job(job, 5)
    assert list(job.store.walk("")) == []


def test_the_next_job_of_the_name_begins_after_what_is_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.pauses = Pauses(driver_s=0.01)
    world.storage.create(layout.identity(JOB), Identity(job=JOB, created_ms=0, id="one"))
    world.storage.fence.claim(Run(run=1, **ELSEWHERE))  # type: ignore[arg-type]
    forget_job(world.storage, 5)

    result = world.run()

    assert (result.state, result.run, world.all_committed()) == ("FINISHED", 3, True)
    assert world.folder.endswith("/000003")
    assert min(one.checkpoint for one in world.manifests()) >= 2
