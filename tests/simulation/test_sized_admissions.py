"""A task that starts again admits what it has learned to admit, not what one admits that knows nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.runtime.client import ControlRequest
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.storage import layout
from rekindle.storage.savepoints import savepoints_in
from tests.simulation.test_storage_stays_bounded import two_tasks
from tests.simulation.world import World

SETTINGS = {"checkpoint.interval": "60 s", "checkpoint.retained": 1, "input.target_batch_duration": "1 hour"}


@pytest.fixture
def world() -> World:
    """A job whose first admission is one file, and each other one up to four times as many: none takes an hour."""
    plan = two_tasks(1_000)
    return World(replace(plan, file_bytes=240, speed={**plan.speed, "first": 4}), seed=1, calm=True)


def live(world: World, seconds: float, *, restore: str | None = None, killed: bool = False) -> list[int]:
    """Run the job for a time; return how many files of this lineage were read by the end of each batch, as recorded."""

    def end() -> None:
        world.scheduler.pause(seconds)
        if killed:
            world.scheduler.kill()
        world.ask(ControlRequest(verb="stop"))

    assert (world.run(SETTINGS, end, restore=restore) is None) == killed
    lineage = world.storage.lineage()
    assert lineage is not None
    folder = layout.subtask(world.storage.job, "first", 0, lineage.lineage)
    records = [world.storage.record(folder, batch) for batch in sorted(world.storage.records(folder))]
    return [record.inputs["source"].files for record in records if record]


@pytest.mark.parametrize("killed", [False, True])
def test_each_start_goes_on_with_the_size_that_batches_have_come_to(world: World, tmp_path: Path, killed: bool) -> None:
    assert live(world, 4, killed=killed)[-1] == 1 + 4
    assert live(world, 4)[-1] == 1 + 4 + 16
    assert live(world, 4)[-1] == 1 + 4 + 16 + 16, "what was known before the last batch is what is known"

    # The guess would be a batch of one file and one of four.
    savepoint_at_rest(world.storage, str(tmp_path))
    assert live(world, 2, restore=savepoints_in(str(tmp_path))[0].path) == [4]
