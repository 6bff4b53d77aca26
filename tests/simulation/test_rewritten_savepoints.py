"""A savepoint whose state is written again is a new one: whole or none, wherever its making is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from rekindle.errors import RestoreError
from rekindle.ids import SubtaskId
from rekindle.progress.files import files_needed
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.rewriting import rewritten
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.local import LocalStore
from rekindle.storage.origin import Origin, find_origin
from rekindle.storage.port import Store
from rekindle.storage.savepoints import savepoints_in
from tests.simulation.test_storage_stays_bounded import two_tasks
from tests.simulation.world import World

TASK = SubtaskId("second", 0)
SNAPSHOT = "state/0/0/1.snapshot"


class Killed(BaseException):
    """The process is no more: it cleans nothing up."""


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    """A savepoint of two tasks, half of the channel between them not read yet."""
    plan = two_tasks(400)
    plan.speed["second"] = 1.0  # type: ignore[index]
    world = World(plan, seed=1, calm=True)

    def stop() -> None:
        world.scheduler.pause(8)
        world.ask(ControlRequest(verb="stop", unaligned=True))

    world.run(plan.settings, stop)
    saved = savepoint_at_rest(world.storage, str(tmp_path / "saves")).savepoint
    assert saved is not None
    return find_origin(saved)


def write(store: Store, folder: str) -> None:
    """Stand for what Spark writes."""
    store.replace(f"{folder}/{SNAPSHOT}", b"edited")


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """Die at a write with this number, from 0, after which nothing is written or deleted."""
    left = [number]

    def dying(method: str):  # type: ignore[no-untyped-def]
        real = getattr(LocalStore, method)

        def does(self: LocalStore, *args: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(self, *args)

        return patch.object(LocalStore, method, does)

    with dying("create"), dying("replace"), dying("copy_from"), dying("delete_tree"):
        yield


def test_it_holds_all_that_the_other_held_and_the_rows_that_were_written(origin: Origin, tmp_path: Path) -> None:
    made = find_origin(rewritten(origin, str(tmp_path / "edited"), TASK, 0, write))
    assert (made.manifest.savepoint, made.manifest.tasks) == (True, origin.manifest.tasks)
    assert made.store.read(f"{layout.spark_progress_dir(made.subtask(TASK))}/{SNAPSHOT}") == b"edited"
    for task, snapshot in snapshots_of(made.manifest).items():
        folder = layout.spark_progress_dir(made.subtask(task))
        there = layout.spark_progress_dir(origin.subtask(task))
        assert {*files_needed(made.store, folder, snapshot.batch)} - {SNAPSHOT} == {
            path for path in files_needed(origin.store, there, snapshot.batch) if task != TASK or path != SNAPSHOT
        }
    held = {entry.path.partition("/")[2] for entry in made.store.walk(made.folder)}
    assert {entry.path.partition("/")[2] for entry in origin.store.walk(origin.folder)} <= held
    sizes = [entry.size_bytes for entry in made.store.walk(made.folder) if not entry.path.endswith("manifest.json")]
    assert made.manifest.size_bytes == sum(sizes)


def test_wherever_it_is_killed_nothing_starts_from_the_rest(origin: Origin, tmp_path: Path) -> None:
    before = {entry.path: origin.store.read(entry.path) for entry in origin.store.walk(origin.folder)}
    for number in range(1000):
        target = tmp_path / str(number)
        try:
            with killed_at(number):
                rewritten(origin, str(target), TASK, 0, write)
        except Killed:
            assert not savepoints_in(str(target))
            for folder in target.glob("*"):
                with pytest.raises(RestoreError) as refused:
                    find_origin(str(folder))
                assert refused.value.code == "CHECKPOINT_UNKNOWN"
        else:
            break
    assert number > 10
    assert len(savepoints_in(str(target))) == 1
    assert read_manifest(LocalStore(str(target)), savepoints_in(str(target))[0].name)
    assert before == {entry.path: origin.store.read(entry.path) for entry in origin.store.walk(origin.folder)}


def test_what_goes_wrong_leaves_nothing(origin: Origin, tmp_path: Path) -> None:
    def fails(store: Store, folder: str) -> None:
        write(store, folder)
        raise RestoreError("STATE_REWRITE_FAILED", path=folder, reason="no room")

    with pytest.raises(RestoreError):
        rewritten(origin, str(tmp_path / "edited"), TASK, 0, fails)
    assert not [*(tmp_path / "edited").rglob("*.snapshot")] and not savepoints_in(str(tmp_path / "edited"))
