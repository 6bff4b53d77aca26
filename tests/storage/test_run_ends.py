"""Which ends of subtasks count in a run: those that were there when it began, and its own."""

from __future__ import annotations

import pytest

from rekindle.errors import ControlError
from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, Drain, End
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_ends import RunEnds
from rekindle.testing.memory_store import MemoryStore

READ = SubtaskId("read", 0)
FOLDER = layout.subtask("job", "read", 0, 1)


class World:
    def __init__(self) -> None:
        self.storage = JobStorage(MemoryStore(), "job")

    def begin(self, number: int) -> RunEnds:
        """A run takes over."""
        run = Run(run=number, started_ms=0, host="here", pid=1, lineage=1)
        self.storage.create(layout.run("job", number), run)
        return RunEnds(self.storage, run, [READ])

    def record(self, batch: int, run: int) -> None:
        record = BatchRecord(batch=batch, offsets_hash="", run=run, inputs={}, committables={})
        self.storage.create(layout.batch(FOLDER, batch), record)


def end(batch: int, run: int, *, drained: bool = False) -> End:
    return End(batch=batch, run=run, drained=drained)


@pytest.fixture
def world() -> World:
    return World()


def test_an_end_that_was_there_counts_and_one_that_comes_later_does_not(world: World) -> None:
    first = world.begin(1)
    second = world.begin(2)
    world.storage.create(layout.end(FOLDER), end(3, run=1))

    assert (second.of(FOLDER), second.find(FOLDER)) == (None, None)
    assert first.find(FOLDER) == first.of(FOLDER) == end(3, run=1), "its answer was lost"
    assert world.begin(3).of(FOLDER) == end(3, run=1), "nothing came after it"


def test_an_end_of_an_earlier_run_gives_way_to_that_of_the_run_in_force(world: World) -> None:
    world.begin(1)
    second = world.begin(2)
    world.storage.create(layout.end(FOLDER), end(3, run=1, drained=True))

    second.record(FOLDER, end(5, run=2))

    assert second.of(FOLDER) == world.storage.end(FOLDER) == end(5, run=2)
    assert world.begin(3).of(FOLDER) == end(5, run=2)


def test_an_end_that_batches_follow_does_not_count(world: World) -> None:
    world.storage.create(layout.end(FOLDER), end(3, run=1, drained=True))
    world.record(3, run=1)
    assert world.begin(2).of(FOLDER) is not None

    world.record(4, run=2)

    assert world.begin(3).of(FOLDER) is None and world.storage.end(FOLDER) is None


def test_a_driver_that_was_replaced_records_nothing(world: World) -> None:
    first = world.begin(1)
    world.begin(2)

    with pytest.raises(ControlError, match="DRIVER_FENCED"):
        first.record(FOLDER, end(3, run=1))
    with pytest.raises(ControlError, match="DRIVER_FENCED"):
        first.begin_drain(FOLDER, 7)

    assert (world.storage.end(FOLDER), world.storage.drain(FOLDER)) == (None, None)


def test_a_drain_counts_until_a_later_run_records_a_batch_unless_that_run_has_taken_it_over(world: World) -> None:
    world.begin(1).begin_drain(FOLDER, 7)
    world.record(3, run=1)
    assert world.storage.drain(FOLDER) == Drain(run=1, begun_ms=7)

    second = world.begin(2)
    second.take_over_drains(8)
    world.record(4, run=2)
    assert world.storage.drain(FOLDER) == Drain(run=2, begun_ms=8)

    world.begin(3)
    world.record(5, run=3)
    assert world.storage.drain(FOLDER) is None


def test_a_drain_is_not_taken_over_where_the_subtask_has_ended_or_none_has_begun(world: World) -> None:
    world.begin(1).take_over_drains(7)
    assert world.storage.drain(FOLDER) is None

    second = world.begin(2)
    second.begin_drain(FOLDER, 8)
    second.record(FOLDER, end(3, run=2, drained=True))
    world.begin(3).take_over_drains(9)

    assert world.storage.drain(FOLDER) == Drain(run=2, begun_ms=8)
