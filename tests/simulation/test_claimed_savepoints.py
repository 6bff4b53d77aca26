"""A savepoint that a job has claimed is deleted by the job once it has checkpoints enough, and no sooner."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rekindle.errors import ConfigError, RestoreError
from rekindle.job import Job
from rekindle.runtime import retention
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.start.permissions import Permissions
from rekindle.storage.disposal import Disposal, dispose_claimed
from rekindle.storage.local import LocalStore
from rekindle.storage.origin import find_origin
from rekindle.storage.savepoints import savepoints_in
from tests.simulation.cooperative import Killed
from tests.simulation.test_storage_stays_bounded import two_tasks
from tests.simulation.world import World

KEPT = 3
SETTINGS = {"checkpoint.interval": "1 s", "checkpoint.retained": KEPT, "input.target_batch_duration": "1 ms"}
CLAIM = Permissions(claim=True, sink_ahead=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A stopped job with a savepoint."""
    world = World(two_tasks(400), seed=1, calm=True)
    assert lives(world, 4) == "STOPPED"
    savepoint_at_rest(world.storage, str(tmp_path))
    return world


def lives(world: World, seconds: float, restore: str | None = None) -> str | None:
    """Run the job until it is stopped; returns the state in which it ends."""

    def stop() -> None:
        world.scheduler.pause(seconds)
        world.ask(ControlRequest(verb="stop"))

    result = world.run(SETTINGS, stop, restore=restore)
    return result.state if result else None


def savepoint_in(folder: Path) -> str:
    return savepoints_in(str(folder))[0].path


def own_checkpoints(world: World) -> int:
    lineage = world.storage.lineage()
    assert lineage is not None
    return sum(manifest.lineage == lineage.lineage for manifest in world.storage.manifests())


@pytest.mark.parametrize("claims", [True, False])
def test_it_goes_with_the_checkpoint_that_completes_what_is_retained(
    world: World, tmp_path: Path, claims: bool
) -> None:
    path, seen = savepoint_in(tmp_path), []
    carry_out = retention.Retention.discard_older

    def watched(self: retention.Retention, order: object) -> None:
        carry_out(self, order)  # type: ignore[arg-type]
        seen.append((own_checkpoints(world) >= KEPT, bool(savepoints_in(str(tmp_path)))))

    world.permissions = CLAIM if claims else Permissions(sink_ahead=True)
    with patch.object(retention.Retention, "discard_older", watched):
        lives(world, 8, restore=path)
    assert {enough for enough, _ in seen} == {True, False}
    assert all(there is not (enough and claims) for enough, there in seen), seen


def test_a_claim_outlives_the_runs_and_an_outage_of_the_place(world: World, tmp_path: Path) -> None:
    path = savepoint_in(tmp_path)
    world.permissions = CLAIM
    with patch.object(retention, "dispose_claimed", side_effect=OSError("it is away")) as asked:
        lives(world, 8, restore=path)
    assert asked.call_count > 1, "it tries again"
    assert savepoints_in(str(tmp_path)), "the place was away"
    world.permissions = Permissions()
    lives(world, 8)
    assert not list(tmp_path.iterdir()), "the next run, which claims nothing, completes it"


def test_a_start_that_is_killed_is_made_again_with_its_claim(world: World, tmp_path: Path) -> None:
    scheduler = world.scheduler

    def step(name: str) -> None:
        if scheduler.dead or name == "lineage.create/before":
            scheduler.kill()
            raise Killed

    world.permissions = CLAIM
    with patch.object(scheduler, "step", step):
        assert lives(world, 8, restore=savepoint_in(tmp_path)) is None, "it was killed"
    world.permissions = Permissions()
    assert lives(world, 8) == "STOPPED"
    assert not list(tmp_path.iterdir())


def test_only_a_savepoint_can_be_claimed(world: World) -> None:
    world.permissions = CLAIM
    number = world.storage.checkpoints()[0]
    with pytest.raises(RestoreError, match="CLAIM_OF_CHECKPOINT"):
        lives(world, 1, restore=f"{number}")


class Away(LocalStore):
    """A place that is away when most of a savepoint is to be deleted."""

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        raise OSError("it is away")


def test_another_one_at_its_place_stays_and_one_that_is_gone_is_no_fault(world: World, tmp_path: Path) -> None:
    path = savepoint_in(tmp_path)
    manifest = find_origin(path).manifest
    number, completed_ms = manifest.checkpoint, manifest.completed_ms
    dispose_claimed(path, number + 1, completed_ms)
    dispose_claimed(path, number, completed_ms + 1)
    assert find_origin(path).manifest == manifest
    # Its deletion was cut short.
    with pytest.raises(OSError, match="away"):
        Disposal(path, Away).run()
    dispose_claimed(path, number, completed_ms)
    dispose_claimed(path, number, completed_ms)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("mode", "code"), [("claim", "CLAIM_OF_NOTHING"), ("legacy", "CLAIM_MODE_UNKNOWN"), ("CLAIM", "CLAIM_MODE_UNKNOWN")]
)
def test_a_claim_needs_something_to_claim_and_a_mode_that_there_is(mode: Any, code: str) -> None:
    with pytest.raises(ConfigError, match=code):
        Job("bids").start(claim_mode=mode)
