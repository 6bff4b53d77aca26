"""A savepoint of a job that does not run is a copy of its last checkpoint, whole or none."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from rekindle.errors import ControlError, RestoreError, StorageError
from rekindle.progress.files import files_needed
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.local import LocalStore
from rekindle.storage.origin import check_is_whole, find_origin
from rekindle.upkeep.check import check_savepoint
from tests.simulation.test_storage_stays_bounded import two_tasks
from tests.simulation.world import World


@pytest.fixture
def stopped() -> World:
    """A job of two tasks that was stopped with an unaligned checkpoint, half of its channel not read yet."""
    plan = two_tasks(400)
    plan.speed["second"] = 1.0  # type: ignore[index]
    world = World(plan, seed=1, calm=True)

    def stop() -> None:
        world.scheduler.pause(8)
        world.ask(ControlRequest(verb="stop", unaligned=True))

    result = world.run(plan.settings, stop)
    assert result is not None and result.state == "STOPPED", result
    return world


def test_it_names_what_the_checkpoint_names_and_holds_all_of_it(stopped: World, tmp_path: Path) -> None:
    answer = savepoint_at_rest(stopped.storage, str(tmp_path))
    checkpoint, store = stopped.storage.newest_manifest(), LocalStore(str(tmp_path))
    assert answer.savepoint is not None and checkpoint is not None
    folder = Path(answer.savepoint).name
    manifest = read_manifest(store, folder)
    assert (manifest.savepoint, manifest.transactions, manifest.tasks) == (True, {}, checkpoint.tasks)
    assert manifest.in_flight_bytes > 0
    for task, snapshot in snapshots_of(manifest).items():
        below = layout.savepoint_subtask(folder, task.task, task.subtask)
        assert files_needed(store, layout.spark_progress_dir(below), snapshot.batch)
    segments = [entry for entry in store.walk(folder) if "/segments/" in entry.path]
    assert sum(entry.size_bytes for entry in segments) >= manifest.in_flight_bytes


def test_a_place_that_cannot_be_written_is_the_savepoints_and_not_the_storages(stopped: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ControlError, match=r"SAVEPOINT_FAILED.*Not a directory"):
        savepoint_at_rest(stopped.storage, str(tmp_path / "file"))


def test_one_that_cannot_be_made_leaves_nothing(stopped: World, tmp_path: Path) -> None:
    for path in [entry.path for entry in stopped.store.walk("") if "/segments/" in entry.path]:
        stopped.store.delete(path)
    with pytest.raises(StorageError, match="OBJECT_CORRUPT"):
        savepoint_at_rest(stopped.storage, str(tmp_path))
    assert [*LocalStore(str(tmp_path)).walk("")] == []


def test_it_is_refused_if_any_of_its_files_is_missing(stopped: World, tmp_path: Path) -> None:
    path = savepoint_at_rest(stopped.storage, str(tmp_path)).savepoint
    assert path is not None
    check_is_whole(find_origin(path))
    for file in [one for one in Path(path).rglob("*") if one.is_file() and one.name != "manifest.json"]:
        data = file.read_bytes()
        file.unlink()
        if data:
            with pytest.raises(StorageError, match="was made with"):
                check_is_whole(find_origin(path))
            assert check_savepoint(LocalStore(str(tmp_path)), Path(path).name).faults, file
        file.write_bytes(data)


def test_one_whose_checkpoint_is_replaced_meanwhile_is_none(stopped: World, tmp_path: Path) -> None:
    number = stopped.storage.checkpoints()[0]
    copy, copied = LocalStore.copy_from, [0]

    def replaced(self: LocalStore, *args: object) -> int:
        copied[0] += 1
        if copied[0] == 5:
            stopped.storage.forget_checkpoints([number])
        return copy(self, *args)  # type: ignore[arg-type]

    with patch.object(LocalStore, "copy_from", replaced), pytest.raises(RestoreError) as caught:
        savepoint_at_rest(stopped.storage, str(tmp_path))
    assert caught.value.code == "CHECKPOINT_REPLACED"
    assert copied[0] >= 5
    assert list(tmp_path.glob("*/manifest.json")) == []
